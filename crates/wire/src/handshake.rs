//! The accepting end of TLS.
//!
//! Promises: no peer without a certificate of the cluster's authority gets past the handshake; the code that accepts
//! connections decides how many handshakes there may be, and for how long. Must not know: what the certificate lets a
//! peer do.

use std::error::Error;
use std::io;
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
pub use tokio_rustls::server::TlsStream;

use crate::pem::Pem;

/// What is negotiated in TLS.
const HTTP2_NAME: &[u8] = b"h2";

/// The settings of an accepting end.
#[derive(Clone)]
pub struct ServerTls(TlsAcceptor);

impl ServerTls {
    pub(crate) fn new(pem: &Pem) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(&pem.ca)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone()).build()?;
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let key = PrivateKeyDer::from_pem_slice(&pem.key)?;
        let mut config = builder.with_client_cert_verifier(verifier).with_single_cert(certificates(&pem.cert)?, key)?;
        config.alpn_protocols.push(HTTP2_NAME.to_vec());
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// The handshake with a peer that has connected: only one with a certificate of the authority gets past it.
    ///
    /// # Errors
    /// The peer has no such certificate, or does not speak TLS.
    pub async fn accept<IO: AsyncRead + AsyncWrite + Unpin>(&self, io: IO) -> io::Result<TlsStream<IO>> {
        self.0.accept(io).await
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, rustls_pki_types::pem::Error> {
    CertificateDer::pem_slice_iter(pem).collect()
}
