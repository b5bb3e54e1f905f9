//! Where the files of an end of TLS are.
//!
//! Must not know: what they hold.

use std::path::PathBuf;

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
