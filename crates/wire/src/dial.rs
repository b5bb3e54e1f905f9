//! Client side of TLS connections.
//!
//! An administrator can replace a certificate file without closing the open channels. Before each new TLS connection,
//! this module checks whether the files have changed, and if so reads them again. If the new files cannot be used, new
//! connections continue to use the previous files.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::limits::CONNECT_TIMEOUT;
use crate::pem::{HTTP2_NAME, PemFile, Reason, Stamp, authorities, certificates, private_key};
use crate::tls_error::TlsError;
use crate::tls_files::TlsFiles;

/// TLS settings of a client. Clones share the files that they have read.
#[derive(Clone)]
pub struct ClientTls(Arc<dyn Fn() -> TlsConnector + Send + Sync>);

/// Certificate files of a client.
#[derive(Clone)]
struct Files {
    ca: PathBuf,
    /// Paths of the client's certificate and of its key. `None` means that the client presents no certificate.
    own: Option<[PathBuf; 2]>,
}

/// Files that were read most recently.
struct Newest {
    stamps: Vec<Stamp>,
    config: Arc<ClientConfig>,
}

impl TlsFiles {
    /// Reads the files for connections to other nodes.
    ///
    /// # Errors
    /// Returns a [`TlsError`] that says which file cannot be used.
    pub fn client(&self) -> Result<ClientTls, TlsError> {
        ClientTls::open(Files { ca: self.ca.clone(), own: Some([self.cert.clone(), self.key.clone()]) })
    }
}

impl ClientTls {
    /// Creates settings for a client that presents no certificate, and trusts certificates that the authority in `ca`
    /// has signed.
    ///
    /// # Errors
    /// Returns a [`TlsError`] that says what is wrong with the file.
    pub fn trusting(ca: &Path) -> Result<Self, TlsError> {
        Self::open(Files { ca: ca.to_owned(), own: None })
    }

    fn open(files: Files) -> Result<Self, TlsError> {
        let newest = Mutex::new(Newest { stamps: files.stamps(), config: files.config()? });
        Ok(Self::by(move || {
            let mut newest = newest.lock().unwrap_or_else(PoisonError::into_inner);
            let stamps = files.stamps();
            if stamps != newest.stamps
                && let Ok(config) = files.config()
            {
                *newest = Newest { stamps, config };
            }
            TlsConnector::from(newest.config.clone())
        }))
    }

    /// Creates settings that ask `connector` for the current configuration before each handshake.
    pub(crate) fn by(connector: impl Fn() -> TlsConnector + Send + Sync + 'static) -> Self {
        Self(Arc::new(connector))
    }

    /// Returns the configuration for the next handshake.
    pub(crate) fn connector(&self) -> TlsConnector {
        (self.0)()
    }

    /// Returns a channel to a peer that must have this name in its certificate.
    pub(crate) fn channel(&self, endpoint: &Endpoint, peer: ServerName<'static>) -> Channel {
        let tls = self.clone();
        endpoint.connect_with_connector_lazy(service_fn(move |uri: Uri| {
            let connector = tls.connector();
            let peer = peer.clone();
            let connecting = async move { connect(connector, peer, &uri).await.map(TokioIo::new) };
            Box::pin(connecting) as Pin<Box<dyn Future<Output = io::Result<TokioIo<TlsStream<TcpStream>>>> + Send>>
        }))
    }
}

async fn connect(connector: TlsConnector, peer: ServerName<'static>, uri: &Uri) -> io::Result<TlsStream<TcpStream>> {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or_default();
    let connecting = async {
        let stream = match host.parse::<IpAddr>() {
            Ok(address) => TcpStream::connect((address, port)).await?,
            Err(_) => TcpStream::connect((host, port)).await?,
        };
        // Without this option small messages wait up to 40 ms for an acknowledgement.
        stream.set_nodelay(true)?;
        connector.connect(peer, stream).await
    };
    timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

impl Files {
    fn stamps(&self) -> Vec<Stamp> {
        let own =
            self.own.iter().flat_map(|[cert, key]| [PemFile::certificate(cert).stamp(), PemFile::key(key).stamp()]);
        [PemFile::authority(&self.ca).stamp()].into_iter().chain(own).collect()
    }

    fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let ca = PemFile::authority(&self.ca).read()?;
        let Some([cert, key]) = &self.own else {
            let builder = trusting(&ca).map_err(|reason| TlsError::untrusted(&self.ca, &*reason))?;
            return Ok(ready(builder.with_no_client_auth()));
        };
        let cert_pem = PemFile::certificate(cert).read()?;
        let key_pem = PemFile::key(key).read()?;
        let config = with_own_certificate(&ca, &cert_pem, &key_pem);
        config.map(ready).map_err(|reason| TlsError::unusable(cert, key, &*reason))
    }
}

/// Begins a configuration that trusts these authorities.
fn trusting(ca_pem: &[u8]) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Reason> {
    let builder = ClientConfig::builder_with_provider(ring::default_provider().into());
    Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(authorities(ca_pem)?))
}

fn with_own_certificate(ca_pem: &[u8], cert_pem: &[u8], key_pem: &[u8]) -> Result<ClientConfig, Reason> {
    Ok(trusting(ca_pem)?.with_client_auth_cert(certificates(cert_pem)?, private_key(key_pem)?)?)
}

fn ready(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols.push(HTTP2_NAME.to_vec());
    Arc::new(config)
}
