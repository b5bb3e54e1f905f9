//! Paths of the certificate files for TLS.
//!
//! This module does not depend on the contents of the files.

use std::path::PathBuf;

/// Paths of the certificate files, which are in PEM format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate of the authority that signed all certificates of the cluster.
    pub ca: PathBuf,
    /// Certificate (chain) of this side.
    pub cert: PathBuf,
    /// Private key of this side's certificate.
    pub key: PathBuf,
}
