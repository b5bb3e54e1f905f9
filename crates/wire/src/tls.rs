//! Mutual TLS: certificates from files, and what a peer's certificate lets it do.
//!
//! Promises: no peer without a certificate of the cluster's authority gets past the handshake; roles are names in the
//! certificate that the authority has signed, nothing that a peer says of itself. Must not know: which role a request
//! needs.
//!
//! | name (subject alternative, DNS) | may |
//! |---|---|
//! | `node.firstseen` and `<name>.node.firstseen` | be that node |
//! | `client.firstseen` | produce |
//! | `<name>.client.firstseen` | produce; do what the principal of this name was granted |
//! | `admin.firstseen` | administer |

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use rustls_pki_types::ServerName;
use thiserror::Error;
use tonic::transport::{CertificateDer, ClientTlsConfig};
use webpki::EndEntityCert;

pub use crate::handshake::{ServerTls, TlsStream};
use crate::limits::CONNECT_TIMEOUT;
use crate::pem::Pem;

/// The name in every node's certificate.
pub const NODE_NAME: &str = "node.firstseen";
/// The name in a producer's certificate.
pub const CLIENT_NAME: &str = "client.firstseen";
/// The name in an operator's certificate.
pub const ADMIN_NAME: &str = "admin.firstseen";

/// Where the certificates are, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authority that has signed the certificates of the whole cluster.
    pub ca: PathBuf,
    /// This end's certificate (chain).
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why TLS cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {what} {}: {source}; give the path of a PEM file that this user may read", .path.display())]
    Read {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{what} {} holds no PEM block `{expected}`; is it in DER, or another file?", .path.display())]
    NotPem {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What a line of it should say.
        expected: &'static str,
    },
    /// The certificate does not match its key, or the like.
    #[error("certificate {} and key {} cannot be used: {reason}", .cert.display(), .key.display())]
    Unusable {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
        /// What the TLS library says.
        reason: String,
    },
}

/// The settings of a connecting end.
#[derive(Clone)]
pub struct ClientTls(Arc<Pem>);

impl TlsFiles {
    /// Reads the files for connecting to others.
    ///
    /// # Errors
    /// [`TlsError`] says which file cannot be used.
    pub fn client(&self) -> Result<ClientTls, TlsError> {
        let tls = ClientTls(self.pem()?);
        let endpoint = tonic::transport::Endpoint::from_static("https://node.firstseen");
        endpoint.tls_config(tls.config(None)).map_err(|error| self.unusable(&error))?;
        Ok(tls)
    }

    /// Reads the files for being connected to.
    ///
    /// # Errors
    /// [`TlsError`] says which file cannot be used.
    pub fn server(&self) -> Result<ServerTls, TlsError> {
        ServerTls::new(&*self.pem()?).map_err(|error| self.unusable(&*error))
    }

    fn pem(&self) -> Result<Arc<Pem>, TlsError> {
        Ok(Arc::new(Pem {
            ca: read("certificate authority", &self.ca, "BEGIN CERTIFICATE")?,
            cert: read("certificate", &self.cert, "BEGIN CERTIFICATE")?,
            key: read("private key", &self.key, "PRIVATE KEY")?,
        }))
    }

    fn unusable(&self, error: &dyn std::error::Error) -> TlsError {
        let reason = error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        TlsError::Unusable { cert: self.cert.clone(), key: self.key.clone(), reason }
    }
}

fn read(what: &'static str, path: &Path, expected: &'static str) -> Result<Vec<u8>, TlsError> {
    let bytes = fs::read(path).map_err(|source| TlsError::Read { what, path: path.to_owned(), source })?;
    if bytes.windows(expected.len()).any(|window| window == expected.as_bytes()) {
        Ok(bytes)
    } else {
        Err(TlsError::NotPem { what, path: path.to_owned(), expected })
    }
}

/// The name that the certificate of the node of this name has, or that of any node of the cluster.
pub(crate) fn peer_name(node_name: Option<&str>) -> String {
    node_name.map_or_else(|| NODE_NAME.to_owned(), |name| format!("{name}.{NODE_NAME}"))
}

impl ClientTls {
    /// The configuration for connecting to the node of this name, or to any node of the cluster.
    pub(crate) fn config(&self, node_name: Option<&str>) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .ca_certificate(self.0.authority())
            .identity(self.0.identity())
            .domain_name(peer_name(node_name))
            .timeout(CONNECT_TIMEOUT)
    }

    /// The files that it was made from.
    pub(crate) fn pem(&self) -> &Pem {
        &self.0
    }
}

/// What a peer may do, as the names in its certificate say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerRoles {
    /// It is a node of the cluster.
    pub node: bool,
    /// It may produce.
    pub client: bool,
    /// It may administer.
    pub admin: bool,
}

/// The roles of a peer with these certificates (its own first), which the handshake has verified.
pub fn peer_roles(certs: &[CertificateDer<'_>]) -> PeerRoles {
    PeerRoles {
        node: is_valid_for(certs, NODE_NAME),
        client: is_valid_for(certs, CLIENT_NAME),
        admin: is_valid_for(certs, ADMIN_NAME),
    }
}

/// Whether a peer with these certificates is the node of this name.
pub fn is_node_named(certs: &[CertificateDer<'_>], node_name: &str) -> bool {
    is_valid_for(certs, NODE_NAME) && is_valid_for(certs, &format!("{node_name}.{NODE_NAME}"))
}

/// The names in the certificate of a peer.
pub fn dns_names(certs: &[CertificateDer<'_>]) -> Vec<String> {
    let own = certs.first().and_then(|own| EndEntityCert::try_from(own).ok());
    own.map_or_else(Vec::new, |own| own.valid_dns_names().map(str::to_owned).collect())
}

/// The one principal that the certificate of a peer names, in small letters; none where it names none or several.
pub fn principal(certs: &[CertificateDer<'_>]) -> Option<String> {
    let label = |name: String| {
        let label = name.to_ascii_lowercase().strip_suffix(CLIENT_NAME)?.strip_suffix('.')?.to_owned();
        (!label.contains(['.', '*'])).then_some(label)
    };
    let mut labels = dns_names(certs).into_iter().filter_map(label);
    labels.next().filter(|_| labels.next().is_none())
}

fn is_valid_for(certs: &[CertificateDer<'_>], name: &str) -> bool {
    let (Some(own), Ok(name)) = (certs.first(), ServerName::try_from(name)) else { return false };
    EndEntityCert::try_from(own).is_ok_and(|cert| cert.verify_is_valid_for_subject_name(&name).is_ok())
}
