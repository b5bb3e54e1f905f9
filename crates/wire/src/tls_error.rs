//! Errors of setting up TLS.
//!
//! Every error names the file and says what to do.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Error returned when TLS cannot be set up.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {what} {}: {source}; give the path of a PEM file that this user may read", .path.display())]
    Read {
        /// Purpose of the file.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file does not contain what it should.
    #[error("{what} {} holds no PEM block `{expected}`; is it in DER, or another file?", .path.display())]
    NotPem {
        /// Purpose of the file.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Text that a valid file contains in one of its lines.
        expected: &'static str,
    },
    /// The certificate and its key cannot be used, for example because they do not match.
    #[error("certificate {} and key {} cannot be used: {reason}", .cert.display(), .key.display())]
    Unusable {
        /// Path of the certificate.
        cert: PathBuf,
        /// Path of the key.
        key: PathBuf,
        /// Error text of the TLS library.
        reason: String,
    },
    /// The file does not contain a valid certificate of an authority.
    #[error("certificate {} of an authority cannot be used: {reason}", .ca.display())]
    Untrusted {
        /// Path of the authority's certificate.
        ca: PathBuf,
        /// Error text of the TLS library.
        reason: String,
    },
    /// The certificate is for another name, so other nodes would not accept it for this node.
    #[error(
        "certificate {} is not that of node `{node}`: it has to bear the names node.firstseen and {node}.node.firstseen \
         (firstseen certs --nodes {node} makes one)", .cert.display()
    )]
    OtherName {
        /// Path of the certificate.
        cert: PathBuf,
        /// Name of the node.
        node: String,
    },
}

impl TlsError {
    /// Creates the error for a certificate and key that the TLS library rejects.
    pub(crate) fn unusable(cert: &Path, key: &Path, error: &dyn std::error::Error) -> Self {
        Self::Unusable { cert: cert.to_owned(), key: key.to_owned(), reason: with_source(error) }
    }

    /// Creates the error for an authority's certificate that the TLS library rejects.
    pub(crate) fn untrusted(ca: &Path, error: &dyn std::error::Error) -> Self {
        Self::Untrusted { ca: ca.to_owned(), reason: with_source(error) }
    }
}

fn with_source(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
