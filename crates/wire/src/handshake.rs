//! The accepting end of TLS.
//!
//! Promises: no peer without a certificate of the cluster's authority gets past the handshake; files that have changed are
//! taken over when somebody looks, and where they cannot be used the former ones stay. The code that accepts connections
//! decides how many handshakes there may be, and for how long. Must not know: what the certificate lets a peer do.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
pub use tokio_rustls::server::TlsStream;

use crate::names::is_node_named;
use crate::pem::{HTTP2_NAME, PemFile, Reason, Stamp, authorities, certificates, private_key, revocation_lists};
use crate::tls_error::TlsError;
use crate::tls_files::TlsFiles;
use crate::validity::{Validity, refusal};

/// The files of an accepting end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// The authority, and this end's certificate with its key.
    pub tls: TlsFiles,
    /// Certificates that are accepted no more (a revocation list, PEM).
    pub crl: Option<PathBuf>,
    /// The node whose certificate it has to be; any where it is left out.
    pub node_name: Option<String>,
}

/// The settings of an accepting end. Clones share what they have read.
#[derive(Clone)]
pub struct ServerTls(Arc<Accepting>);

struct Accepting {
    files: ServerFiles,
    newest: RwLock<Newest>,
}

#[derive(Clone)]
struct Newest {
    stamps: [Option<Stamp>; 4],
    acceptor: TlsAcceptor,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl TlsFiles {
    /// Reads the files for being connected to, without a revocation list.
    ///
    /// # Errors
    /// [`TlsError`] says which file cannot be used.
    pub fn server(&self) -> Result<ServerTls, TlsError> {
        ServerFiles { tls: self.clone(), crl: None, node_name: None }.server()
    }
}

impl ServerFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] says which file cannot be used.
    pub fn server(&self) -> Result<ServerTls, TlsError> {
        let newest = RwLock::new(self.read()?);
        Ok(ServerTls(Arc::new(Accepting { files: self.clone(), newest })))
    }

    fn read(&self) -> Result<Newest, TlsError> {
        let (stamps, TlsFiles { ca, cert, key }) = (self.stamps(), &self.tls);
        let ca = PemFile::authority(ca).read()?;
        let (cert, key) = (PemFile::certificate(cert).read()?, PemFile::key(key).read()?);
        let crl = self.crl.as_ref().map(|crl| PemFile::revoked(crl).read()).transpose()?;
        let made = || {
            let provider = Arc::new(ring::default_provider());
            let verifier = WebPkiClientVerifier::builder_with_provider(authorities(&ca)?.into(), provider.clone());
            // A list of one authority says nothing of what another one has signed.
            let verifier = verifier
                .with_crls(revocation_lists(&crl.unwrap_or_default())?)
                .only_check_end_entity_revocation()
                .allow_unknown_revocation_status()
                .build()?;
            let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
            let builder = builder.with_client_cert_verifier(verifier.clone());
            let mut config = builder.with_single_cert(certificates(&cert)?, private_key(&key)?)?;
            config.alpn_protocols.push(HTTP2_NAME.to_vec());
            Ok(Newest { stamps, acceptor: TlsAcceptor::from(Arc::new(config)), verifier })
        };
        let newest = made().map_err(|reason: Reason| TlsError::unusable(&self.tls.cert, &self.tls.key, &*reason))?;
        self.check_name(&certificates(&cert).unwrap_or_default())?;
        Ok(newest)
    }

    /// Others would not take the node for itself.
    fn check_name(&self, certificates: &[CertificateDer<'_>]) -> Result<(), TlsError> {
        match &self.node_name {
            Some(node) if !is_node_named(certificates, node) => {
                Err(TlsError::OtherName { cert: self.tls.cert.clone(), node: node.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Whether the certificate is one that others accept at `now`, since 1970.
    fn check_dates(&self, now: Duration) -> Result<(), TlsError> {
        let bytes = PemFile::certificate(&self.tls.cert).read()?;
        let own = certificates(&bytes).unwrap_or_default();
        match own.first().and_then(|own| refusal(own, now)) {
            Some(Validity::Over(_) | Validity::NotYet(_)) => Err(TlsError::NotValid { cert: self.tls.cert.clone() }),
            Some(Validity::EndsSoon(_)) | None => Ok(()),
        }
    }

    fn stamps(&self) -> [Option<Stamp>; 4] {
        let TlsFiles { ca, cert, key } = &self.tls;
        let crl = self.crl.as_ref().map(|crl| PemFile::revoked(crl).stamp());
        let [ca, cert, key] =
            [PemFile::authority(ca).stamp(), PemFile::certificate(cert).stamp(), PemFile::key(key).stamp()];
        [Some(ca), Some(cert), Some(key), crl]
    }
}

impl ServerTls {
    /// The handshake with a peer that has connected: only one with a certificate of the authority gets past it.
    ///
    /// # Errors
    /// The peer has no such certificate, or does not speak TLS.
    pub async fn accept<IO: AsyncRead + AsyncWrite + Unpin>(&self, io: IO) -> io::Result<TlsStream<IO>> {
        let acceptor = self.newest().acceptor;
        acceptor.accept(io).await
    }

    /// The files that it reads.
    pub fn files(&self) -> &ServerFiles {
        &self.0.files
    }

    /// Takes over files that have changed; returns whether any has. `now` is the time since 1970.
    ///
    /// # Errors
    /// [`TlsError`] says which of the new files cannot be used: the former ones stay.
    pub fn look_again(&self, now: Duration) -> Result<bool, TlsError> {
        if self.0.files.stamps() == self.newest().stamps {
            return Ok(false);
        }
        let read = self.0.files.read()?;
        self.0.files.check_dates(now)?;
        *self.0.newest.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(true)
    }

    /// Whether a handshake at `now`, since 1970, would accept a peer with these certificates, its own first.
    ///
    /// # Errors
    /// Why not.
    pub fn still_accepts(&self, certificates: &[CertificateDer<'_>], now: Duration) -> Result<(), String> {
        let Some((own, between)) = certificates.split_first() else { return Err("it has shown none".to_owned()) };
        let now = UnixTime::since_unix_epoch(now);
        let verified = self.newest().verifier.verify_client_cert(own, between, now);
        verified.map(drop).map_err(|error| error.to_string())
    }

    fn newest(&self) -> Newest {
        self.0.newest.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
