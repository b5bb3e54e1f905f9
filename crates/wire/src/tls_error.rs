//! Why TLS cannot be used.
//!
//! Promises: the file is named, and what to do. Must not know: who reads it.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

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
    /// The certificate of the authority is none.
    #[error("certificate {} of an authority cannot be used: {reason}", .ca.display())]
    Untrusted {
        /// The certificate.
        ca: PathBuf,
        /// What the TLS library says.
        reason: String,
    },
    /// Others would not take the node for itself.
    #[error(
        "certificate {} is not that of node `{node}`: it has to bear the names node.firstseen and {node}.node.firstseen \
         (firstseen certs --nodes {node} makes one)", .cert.display()
    )]
    OtherName {
        /// The certificate.
        cert: PathBuf,
        /// The node.
        node: String,
    },
}

impl TlsError {
    /// The certificate and its key cannot be used, as the TLS library says.
    pub(crate) fn unusable(cert: &Path, key: &Path, error: &dyn std::error::Error) -> Self {
        Self::Unusable { cert: cert.to_owned(), key: key.to_owned(), reason: with_source(error) }
    }

    /// The certificate of the authority cannot be used, as the TLS library says.
    pub(crate) fn untrusted(ca: &Path, error: &dyn std::error::Error) -> Self {
        Self::Untrusted { ca: ca.to_owned(), reason: with_source(error) }
    }
}

fn with_source(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
