//! Flags that name certificates, or a token.
//!
//! Promises: a token is in no flag, where others could read it. Must not know: what the files hold, which command connects.

use std::fmt;
use std::path::PathBuf;

use clap::Args;

/// The heading of these flags. One for the whole group would also stand above flags that a command lists after it.
const TLS: &str = "TLS";

/// Certificates for connecting to a cluster that asks for them.
#[derive(Clone, Debug, Default, Args)]
pub struct TlsArgs {
    /// Certificate of the authority of the nodes' certificates (PEM)
    #[arg(long, help_heading = TLS, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Own certificate (PEM)
    #[arg(long, help_heading = TLS, value_name = "FILE", requires = "tls_ca", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, help_heading = TLS, value_name = "FILE", requires = "tls_ca", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// A token, for who has no certificate; or set FIRSTSEEN_TOKEN
    #[arg(long, help_heading = TLS, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl TlsArgs {
    /// Whether any of them is given.
    pub(crate) fn is_given(&self) -> bool {
        self.tls_ca.is_some() || self.token_file.is_some()
    }
}

impl fmt::Display for TlsArgs {
    /// The flags as they are written on a command line, each after a blank.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [
            ("--tls-ca", &self.tls_ca),
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
            ("--token-file", &self.token_file),
        ];
        let given = flags.iter().filter_map(|(flag, file)| Some((flag, file.as_ref()?)));
        given.into_iter().try_for_each(|(flag, file)| write!(f, " {flag} {}", file.display()))
    }
}
