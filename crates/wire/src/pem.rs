//! Certificates and keys as their files have them.
//!
//! Promises: whether files have changed is told without reading them. Must not know: what the certificates are for.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use tokio_rustls::rustls::RootCertStore;

use crate::tls_error::TlsError;

/// What is negotiated in TLS.
pub(crate) const HTTP2_NAME: &[u8] = b"h2";
/// The same for HTTP/1.1.
pub(crate) const HTTP1_NAME: &[u8] = b"http/1.1";

/// What the TLS library says.
pub(crate) type Reason = Box<dyn Error + Send + Sync>;

/// Where a file is, and what it is for.
#[derive(Clone, Debug)]
pub(crate) struct PemFile {
    pub(crate) what: &'static str,
    pub(crate) path: PathBuf,
    /// What a line of it should say.
    expected: &'static str,
}

impl PemFile {
    pub(crate) fn authority(path: &Path) -> Self {
        Self { what: "certificate authority", path: path.to_owned(), expected: "BEGIN CERTIFICATE" }
    }

    pub(crate) fn certificate(path: &Path) -> Self {
        Self { what: "certificate", path: path.to_owned(), expected: "BEGIN CERTIFICATE" }
    }

    pub(crate) fn key(path: &Path) -> Self {
        Self { what: "private key", path: path.to_owned(), expected: "PRIVATE KEY" }
    }

    pub(crate) fn revoked(path: &Path) -> Self {
        Self { what: "revocation list", path: path.to_owned(), expected: "BEGIN X509 CRL" }
    }

    /// The file's bytes.
    pub(crate) fn read(&self) -> Result<Vec<u8>, TlsError> {
        let Self { what, path, expected } = self;
        let bytes = fs::read(path).map_err(|source| TlsError::Read { what, path: path.clone(), source })?;
        if bytes.windows(expected.len()).any(|window| window == expected.as_bytes()) {
            Ok(bytes)
        } else {
            Err(TlsError::NotPem { what, path: path.clone(), expected })
        }
    }

    /// By what a changed file is told from the one before.
    pub(crate) fn stamp(&self) -> Stamp {
        let metadata = fs::metadata(&self.path).ok();
        Stamp(metadata.map(|metadata| (metadata.modified().ok(), metadata.len())))
    }
}

/// When a file was written last, and how long it is; nothing where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Option<(Option<SystemTime>, u64)>);

/// All certificates in a file.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Reason> {
    Ok(CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?)
}

/// The authorities in a file: there may be several, while one takes the place of another.
pub(crate) fn authorities(pem: &[u8]) -> Result<RootCertStore, Reason> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(pem)?);
    Ok(roots)
}

/// The key in a file.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Reason> {
    Ok(PrivateKeyDer::from_pem_slice(pem)?)
}

/// The revocation lists in a file: one for each authority.
pub(crate) fn revocation_lists(pem: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, Reason> {
    Ok(CertificateRevocationListDer::pem_slice_iter(pem).collect::<Result<_, _>>()?)
}
