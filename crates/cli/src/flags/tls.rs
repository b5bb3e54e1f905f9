//! Flags that name the files with certificates or with a token. A token cannot be given as a flag itself, because every
//! user of the machine can see the command line of a process.

use std::fmt;
use std::path::PathBuf;

use clap::Args;

/// Help heading under which the flags of this group are listed. Every flag of the group sets this heading separately. A
/// heading that is set for the whole group would also apply to the flags that a command lists after the group.
const TLS: &str = "TLS";

/// Flags with certificates for connecting to a cluster that requires them.
#[derive(Clone, Debug, Default, Args)]
pub struct TlsArgs {
    /// Certificate of the authority that issued the nodes' certificates (PEM)
    #[arg(long, help_heading = TLS, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Certificate of this client (PEM)
    #[arg(long, help_heading = TLS, value_name = "FILE", requires = "tls_ca", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the client's certificate (PEM)
    #[arg(long, help_heading = TLS, value_name = "FILE", requires = "tls_ca", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// File with a token, for clients without a certificate (or FIRSTSEEN_TOKEN)
    #[arg(long, help_heading = TLS, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl TlsArgs {
    /// Returns whether any of these flags is given.
    pub(crate) fn is_given(&self) -> bool {
        self.tls_ca.is_some() || self.token_file.is_some()
    }
}

impl fmt::Display for TlsArgs {
    /// Writes the flags as on a command line, each after a blank.
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
