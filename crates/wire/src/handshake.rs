//! Server side of TLS connections.
//!
//! - A peer without a certificate of the cluster's authority does not complete the handshake, unless the server accepts
//!   tokens.
//! - Changed files take effect when [`ServerTls::look_again`] is called, for both directions of a node's connections.
//!   If new files cannot be used, the previous ones stay in force.
//!
//! The code that accepts connections limits the number and duration of handshakes.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
pub use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::dial::ClientTls;
use crate::names::is_node_named;
use crate::pem::{
    HTTP1_NAME, HTTP2_NAME, PemFile, Reason, Stamp, authorities, certificates, private_key, revocation_lists,
};
use crate::tls_error::TlsError;
use crate::tls_files::TlsFiles;
use crate::validity::refusal;

/// Certificate files of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// Certificate of the authority, and the server's own certificate with its key.
    pub tls: TlsFiles,
    /// Revocation list in PEM format, with the certificates that are no longer accepted.
    pub crl: Option<PathBuf>,
    /// Name of the node that the certificate must be issued for. `None` accepts a certificate for any name.
    pub node_name: Option<String>,
    /// Whether peers without a certificate complete the handshake. Such peers must present a token with each call.
    pub tokens: bool,
}

/// TLS settings of a server. Clones share the files that they have read.
#[derive(Clone)]
pub struct ServerTls(Arc<Accepting>);

struct Accepting {
    files: ServerFiles,
    newest: RwLock<Newest>,
}

/// Certificates and authorities that new handshakes use. The trusted authorities, with their lists of revoked
/// certificates, are updated separately from the server's own certificate. If a new file of the server's own
/// certificate cannot be used, a new list of revoked certificates nevertheless takes effect at once.
#[derive(Clone)]
struct Newest {
    trust: Arc<Trust>,
    own: Arc<Own>,
    acceptor: TlsAcceptor,
    /// Acceptor for clients that speak HTTP/1.1 instead of HTTP/2.
    http1_acceptor: TlsAcceptor,
    connector: TlsConnector,
}

/// Authorities and revocation lists that the server trusts.
struct Trust {
    stamps: [Option<Stamp>; 2],
    roots: Arc<RootCertStore>,
    lists: Vec<CertificateRevocationListDer<'static>>,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Certificate and key that the server presents.
struct Own {
    stamps: [Stamp; 2],
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl TlsFiles {
    /// Reads the files for a server that has no revocation list.
    ///
    /// # Errors
    /// Returns a [`TlsError`] that says which file cannot be used.
    pub fn server(&self) -> Result<ServerTls, TlsError> {
        ServerFiles { tls: self.clone(), crl: None, node_name: None, tokens: false }.server()
    }
}

impl ServerFiles {
    /// Reads the files. The validity dates of the certificates are not checked.
    ///
    /// # Errors
    /// Returns a [`TlsError`] that says which file cannot be used.
    pub fn server(&self) -> Result<ServerTls, TlsError> {
        let trust = self.trust()?;
        let own = self.own()?;
        let newest = RwLock::new(self.newest(Arc::new(trust), Arc::new(own))?);
        Ok(ServerTls(Arc::new(Accepting { files: self.clone(), newest })))
    }

    fn trust(&self) -> Result<Trust, TlsError> {
        let stamps = self.trust_stamps();
        let ca = PemFile::authority(&self.tls.ca).read()?;
        let crl = self.crl.as_ref().map(|crl| PemFile::revoked(crl).read()).transpose()?;
        let trust = Trust::new(stamps, &ca, &crl.unwrap_or_default(), self.tokens);
        trust.map_err(|reason| self.unusable(&*reason))
    }

    fn own(&self) -> Result<Own, TlsError> {
        let stamps = self.own_stamps();
        let TlsFiles { cert, key, .. } = &self.tls;
        let cert = PemFile::certificate(cert).read()?;
        let key = PemFile::key(key).read()?;
        let chain = certificates(&cert).map_err(|reason| self.unusable(&*reason))?;
        let key = private_key(&key).map_err(|reason| self.unusable(&*reason))?;
        let own = Own { stamps, chain, key };
        match &self.node_name {
            // Other nodes would not accept this certificate for the node.
            Some(node) if !is_node_named(&own.chain, node) => {
                Err(TlsError::OtherName { cert: self.tls.cert.clone(), node: node.clone() })
            }
            _ => Ok(own),
        }
    }

    /// Combines the trusted authorities and the server's certificate into settings for handshakes.
    fn newest(&self, trust: Arc<Trust>, own: Arc<Own>) -> Result<Newest, TlsError> {
        Newest::new(trust, own).map_err(|reason| self.unusable(&*reason))
    }

    fn unusable(&self, reason: &dyn std::error::Error) -> TlsError {
        TlsError::unusable(&self.tls.cert, &self.tls.key, reason)
    }

    fn trust_stamps(&self) -> [Option<Stamp>; 2] {
        let crl = self.crl.as_ref().map(|crl| PemFile::revoked(crl).stamp());
        [Some(PemFile::authority(&self.tls.ca).stamp()), crl]
    }

    fn own_stamps(&self) -> [Stamp; 2] {
        [PemFile::certificate(&self.tls.cert).stamp(), PemFile::key(&self.tls.key).stamp()]
    }
}

impl Newest {
    fn new(trust: Arc<Trust>, own: Arc<Own>) -> Result<Self, Reason> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = builder.with_client_cert_verifier(trust.verifier.clone());
        let mut server = builder.with_single_cert(own.chain.clone(), own.key.clone_key())?;
        let mut http1_server = server.clone();
        http1_server.alpn_protocols.push(HTTP1_NAME.to_vec());
        server.alpn_protocols.push(HTTP2_NAME.to_vec());
        let verifier = WebPkiServerVerifier::builder_with_provider(trust.roots.clone(), provider.clone());
        let verifier = verifier.with_crls(trust.lists.clone()).only_check_end_entity_revocation();
        let verifier = verifier.allow_unknown_revocation_status().build()?;
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = builder.with_webpki_verifier(verifier);
        let mut client = builder.with_client_auth_cert(own.chain.clone(), own.key.clone_key())?;
        client.alpn_protocols.push(HTTP2_NAME.to_vec());
        Ok(Self {
            trust,
            own,
            acceptor: TlsAcceptor::from(Arc::new(server)),
            http1_acceptor: TlsAcceptor::from(Arc::new(http1_server)),
            connector: TlsConnector::from(Arc::new(client)),
        })
    }
}

impl Trust {
    fn new(stamps: [Option<Stamp>; 2], ca_pem: &[u8], crl_pem: &[u8], accepts_anonymous: bool) -> Result<Self, Reason> {
        let roots = Arc::new(authorities(ca_pem)?);
        let lists = revocation_lists(crl_pem)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), ring::default_provider().into());
        // A revocation list of one authority says nothing about certificates of another authority, so an unknown status
        // is allowed.
        let verifier = verifier.with_crls(lists.clone()).only_check_end_entity_revocation();
        let verifier = verifier.allow_unknown_revocation_status();
        let verifier = if accepts_anonymous { verifier.allow_unauthenticated() } else { verifier }.build()?;
        Ok(Self { stamps, roots, lists, verifier })
    }

    /// Checks whether peers that trust the same authorities accept a certificate at `now`.
    fn accepts(&self, chain: &[CertificateDer<'_>], now: Duration) -> Result<(), String> {
        let Some((own, between)) = chain.split_first() else { return Err("there is none".to_owned()) };
        let verified = self.verifier.verify_client_cert(own, between, UnixTime::since_unix_epoch(now));
        verified.map(drop).map_err(|error| error.to_string())
    }
}

impl ServerTls {
    /// Completes the handshake with a peer that has opened a connection. The peer must present a certificate of the
    /// cluster's authority. If the server accepts tokens, a peer without a certificate is also accepted.
    ///
    /// # Errors
    /// Returns an error if the peer has no such certificate, or does not speak TLS.
    pub async fn accept<IO: AsyncRead + AsyncWrite + Unpin>(&self, io: IO) -> io::Result<TlsStream<IO>> {
        let acceptor = self.newest().acceptor;
        acceptor.accept(io).await
    }

    /// Completes the same handshake with a client that speaks HTTP/1.1.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::accept`].
    pub async fn accept_http1<IO: AsyncRead + AsyncWrite + Unpin>(&self, io: IO) -> io::Result<TlsStream<IO>> {
        let acceptor = self.newest().http1_acceptor;
        acceptor.accept(io).await
    }

    /// Returns the paths of the files that this server reads.
    pub fn files(&self) -> &ServerFiles {
        &self.0.files
    }

    /// Checks whether peers that trust the same authorities accept this server's own certificate at `now`, which is the
    /// time since 1970.
    ///
    /// # Errors
    /// Returns the reason why the certificate is not accepted.
    pub fn accepts_itself(&self, now: Duration) -> Result<(), String> {
        let Newest { trust, own, .. } = self.newest();
        let files = &self.0.files.tls;
        trust.accepts(&own.chain, now).map_err(|reason| {
            let cert = files.cert.display();
            let ca = files.ca.display();
            format!("certificate {cert} is not accepted by the authorities in {ca} and their lists ({reason})")
        })
    }

    /// Returns the client side of the same node. It always uses the files that the server side has read most recently.
    pub fn client(&self) -> ClientTls {
        let tls = self.clone();
        ClientTls::by(move || tls.newest().connector)
    }

    /// Reads certificate files that have changed. Returns whether any new file is now in use, together with a
    /// description of each file that cannot be used. `now` is the time that has passed since 1970.
    pub fn look_again(&self, now: Duration) -> (bool, Vec<String>) {
        let files = &self.0.files;
        let before = self.newest();
        let mut complaints = Vec::new();
        let mut after = before.clone();
        if files.trust_stamps() != before.trust.stamps {
            match files
                .trust()
                .map_err(|error| error.to_string())
                .and_then(|trust| self.fitting(trust, &before.own, now))
            {
                Ok(newest) => after = newest,
                Err(error) => complaints.push(format!("the new authorities or revocation lists: {error}")),
            }
        }
        if files.own_stamps() != before.own.stamps {
            let own = files.own().map_err(|error| error.to_string());
            match own.and_then(|own| self.shown(&after.trust, own, now)) {
                Ok(newest) => after = newest,
                Err(error) => complaints.push(format!("the new certificate: {error}")),
            }
        }
        let has_changed = !(Arc::ptr_eq(&before.trust, &after.trust) && Arc::ptr_eq(&before.own, &after.own));
        if has_changed {
            *self.0.newest.write().unwrap_or_else(PoisonError::into_inner) = after;
        }
        (has_changed, complaints)
    }

    /// Checks that new authorities accept the node's own certificate. If they do not, the file of authorities may be
    /// incomplete or belong to another cluster, and the node must not use it.
    fn fitting(&self, trust: Trust, own: &Arc<Own>, now: Duration) -> Result<Newest, String> {
        // An expired certificate of the node itself must not delay revocations, so it is not compared with the new
        // authorities.
        let is_valid = own.chain.first().is_some_and(|own| refusal(own, now).is_none());
        if is_valid && let Err(reason) = trust.accepts(&own.chain, now) {
            let ca = self.0.files.tls.ca.display();
            return Err(format!("by {ca} and its lists, the node's own certificate is not accepted ({reason})"));
        }
        self.0.files.newest(Arc::new(trust), own.clone()).map_err(|error| error.to_string())
    }

    /// Checks a new certificate, which other nodes must accept.
    fn shown(&self, trust: &Arc<Trust>, own: Own, now: Duration) -> Result<Newest, String> {
        if let Err(reason) = trust.accepts(&own.chain, now) {
            return Err(format!(
                "{} is not accepted by the node's own authorities ({reason})",
                self.0.files.tls.cert.display()
            ));
        }
        self.0.files.newest(trust.clone(), Arc::new(own)).map_err(|error| error.to_string())
    }

    /// Checks whether a new handshake at the time `now` (since 1970) would accept a peer with these certificates. The
    /// first entry of `certificates` is the peer's own certificate. The list is empty for a peer without a certificate.
    ///
    /// # Errors
    /// Returns the reason why the peer would not be accepted.
    pub fn still_accepts(&self, certificates: &[CertificateDer<'_>], now: Duration) -> Result<(), String> {
        if certificates.is_empty() && self.0.files.tokens {
            Ok(())
        } else {
            self.newest().trust.accepts(certificates, now)
        }
    }

    fn newest(&self) -> Newest {
        self.0.newest.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
