//! Flags that name certificates.
//!
//! Promises: all three files are given or none. Must not know: what they hold, which command connects.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(feature = "full")]
use firstseen_wire::net::TcpConnector;
#[cfg(feature = "full")]
use firstseen_wire::tls::TlsFiles;

#[cfg(feature = "full")]
use crate::exit::UsageError;

/// The heading of these flags. One for the whole group would also stand above flags that a command lists after it.
const TLS: &str = "TLS";

/// Certificates for connecting to a cluster that asks for them.
#[derive(Clone, Debug, Default, Args)]
pub struct TlsArgs {
    /// Certificate of the authority that has signed the nodes' certificates (PEM)
    #[arg(long, help_heading = TLS, value_name = "FILE", requires = "tls_cert", requires = "tls_key")]
    pub tls_ca: Option<PathBuf>,
    /// Own certificate (PEM)
    #[arg(long, help_heading = TLS, value_name = "FILE", requires = "tls_ca", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, help_heading = TLS, value_name = "FILE", requires = "tls_ca", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Authority, certificate and key, where they are given.
    pub(crate) fn given(&self) -> Option<[&Path; 3]> {
        Some([self.tls_ca.as_deref()?, self.tls_cert.as_deref()?, self.tls_key.as_deref()?])
    }
}

#[cfg(feature = "full")]
impl TlsArgs {
    /// The files, where they are given.
    pub fn files(&self) -> Option<TlsFiles> {
        let [ca, cert, key] = self.given()?.map(Path::to_owned);
        Some(TlsFiles { ca, cert, key })
    }

    /// The connector that opens connections with these certificates.
    ///
    /// # Errors
    /// [`UsageError`] where a file cannot be used.
    pub fn connector(&self) -> anyhow::Result<TcpConnector> {
        let tls = self.files().map(|files| files.client()).transpose();
        Ok(TcpConnector { tls: tls.map_err(|error| UsageError(error.to_string()))? })
    }
}

impl fmt::Display for TlsArgs {
    /// The flags as they are written on a command line, each after a blank.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [("--tls-ca", &self.tls_ca), ("--tls-cert", &self.tls_cert), ("--tls-key", &self.tls_key)];
        let given = flags.iter().filter_map(|(flag, file)| Some((flag, file.as_ref()?)));
        given.into_iter().try_for_each(|(flag, file)| write!(f, " {flag} {}", file.display()))
    }
}
