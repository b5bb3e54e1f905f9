//! Reads certificates and keys from PEM files.
//!
//! To detect that a certificate file has changed, the module compares the metadata of the file. It reads the file only
//! if the metadata differ.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use tokio_rustls::rustls::RootCertStore;

use crate::tls_error::TlsError;

/// Name of HTTP/2 in the protocol negotiation of TLS (ALPN).
pub(crate) const HTTP2_NAME: &[u8] = b"h2";
/// Name of HTTP/1.1 in the protocol negotiation of TLS (ALPN).
pub(crate) const HTTP1_NAME: &[u8] = b"http/1.1";

/// Error of the TLS library.
pub(crate) type Reason = Box<dyn Error + Send + Sync>;

/// Path of a file, and the purpose of the file.
#[derive(Clone, Debug)]
pub(crate) struct PemFile {
    pub(crate) what: &'static str,
    pub(crate) path: PathBuf,
    /// Text that a valid file contains in one of its lines.
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

    /// Reads the file.
    pub(crate) fn read(&self) -> Result<Vec<u8>, TlsError> {
        let Self { what, path, expected } = self;
        let bytes = fs::read(path).map_err(|source| TlsError::Read { what, path: path.clone(), source })?;
        if bytes.windows(expected.len()).any(|window| window == expected.as_bytes()) {
            Ok(bytes)
        } else {
            Err(TlsError::NotPem { what, path: path.clone(), expected })
        }
    }

    /// Returns a stamp that changes when the file changes.
    pub(crate) fn stamp(&self) -> Stamp {
        let metadata = fs::metadata(&self.path).ok();
        Stamp(metadata.map(|metadata| (metadata.modified().ok(), metadata.len())))
    }
}

/// Modification time and length of a file. `None` means that the file does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Option<(Option<SystemTime>, u64)>);

/// Parses all certificates in a file.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Reason> {
    Ok(CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?)
}

/// Parses the certificate authorities in a file. There may be several, for example while a new authority replaces an
/// old one.
pub(crate) fn authorities(pem: &[u8]) -> Result<RootCertStore, Reason> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(pem)?);
    Ok(roots)
}

/// Parses the private key in a file.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Reason> {
    Ok(PrivateKeyDer::from_pem_slice(pem)?)
}

/// Parses the revocation lists in a file, which has one list for each authority.
pub(crate) fn revocation_lists(pem: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, Reason> {
    Ok(CertificateRevocationListDer::pem_slice_iter(pem).collect::<Result<_, _>>()?)
}
