//! Determines how a command identifies itself to a cluster: by a certificate or by a token. A token is read from a file
//! or from an environment variable, and is never shown in a message. If a command connects with TLS and has neither of
//! them, the error message explains how to give one.

use std::env;
use std::fs::File;
use std::io::Read;

use firstseen_wire::net::TcpConnector;
use firstseen_wire::tls::{ClientTls, TlsFiles};
use firstseen_wire::token::Token;

use super::tls::TlsArgs;
use crate::exit::UsageError;

/// Environment variable that holds the token if no flag names a file.
const TOKEN_VARIABLE: &str = "FIRSTSEEN_TOKEN";
/// Maximum number of bytes that are read from a token file, which holds one token and perhaps blanks.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

impl TlsArgs {
    /// Returns a connector that opens connections with these certificates or with the token.
    ///
    /// # Errors
    /// Returns [`UsageError`] if a file cannot be used, or if neither a certificate nor a token is given.
    pub fn connector(&self) -> anyhow::Result<TcpConnector> {
        let token = self.token()?;
        let tls = match (&self.tls_ca, &self.tls_cert, &self.tls_key) {
            (None, ..) => None,
            (Some(ca), Some(cert), Some(key)) => {
                let files = TlsFiles { ca: ca.clone(), cert: cert.clone(), key: key.clone() };
                Some(files.client().map_err(|error| UsageError(error.to_string()))?)
            }
            (Some(ca), ..) if token.is_some() => {
                Some(ClientTls::trusting(ca).map_err(|error| UsageError(error.to_string()))?)
            }
            (Some(_), ..) => {
                let what = "with --tls-ca, say who connects: --tls-cert and --tls-key, or a token (--token-file, FIRSTSEEN_TOKEN)";
                return Err(UsageError(what.to_owned()).into());
            }
        };
        Ok(TcpConnector { tls, token })
    }

    fn token(&self) -> anyhow::Result<Option<Token>> {
        let (from, text) = match (&self.token_file, env::var(TOKEN_VARIABLE)) {
            (Some(file), _) => {
                let from = file.display().to_string();
                let mut text = String::new();
                let read = File::open(file).and_then(|file| file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text));
                read.map_err(|error| UsageError(format!("cannot read the token in {from}: {error}")))?;
                (from, text)
            }
            // If a certificate is given, a token variable that happens to be set is ignored rather than reported as a
            // conflict.
            (None, Ok(text)) if !text.is_empty() && self.tls_cert.is_none() => (TOKEN_VARIABLE.to_owned(), text),
            (None, _) => return Ok(None),
        };
        if text.trim().is_empty() {
            return Err(
                UsageError(format!("{from} is empty: it should hold a token (firstseen access token new)")).into()
            );
        }
        let token = text.trim().parse().map_err(|error| UsageError(format!("{from}: {error}")))?;
        Ok(Some(token))
    }
}
