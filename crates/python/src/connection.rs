//! How a program connects to a cluster.

use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::str::FromStr;

use firstseen_client::{Client, ConnectOptions, Filter, FilterError, TlsFiles};

/// Environment variable that holds the token if no setting names a file, as for the command `firstseen`.
const TOKEN_VARIABLE: &str = "FIRSTSEEN_TOKEN";
/// Maximum number of bytes that are read from a token file, which holds one token and perhaps blanks.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Settings of a connection.
pub(crate) struct ConnectSettings {
    pub(crate) addresses: Vec<String>,
    pub(crate) site: Option<String>,
    pub(crate) tls_ca: Option<PathBuf>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) timeout_ms: u64,
}

/// A connection to a cluster, and the filter that it uses.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) filter: Filter,
}

impl ConnectSettings {
    /// Returns the options of the client. The error names the setting that is wrong.
    pub(crate) fn options(self) -> Result<ConnectOptions, String> {
        let mut options = ConnectOptions { deadline_ms: self.timeout_ms, ..ConnectOptions::from(self.addresses) };
        if let Some(text) = token_text(self.token_file, self.tls_cert.is_some())? {
            options.token = Some(parsed(text.trim())?);
        }
        match (self.tls_ca, self.tls_cert, self.tls_key) {
            (None, None, None) => {}
            (Some(ca), Some(cert), Some(key)) => options.tls = Some(TlsFiles { ca, cert, key }),
            (Some(ca), None, None) if options.token.is_some() => options.tls_ca = Some(ca),
            (Some(_), None, None) => {
                return Err("tls_ca: say who connects, too: with tls_cert and tls_key, or with token_file".to_owned());
            }
            _ => return Err("tls_ca, tls_cert and tls_key: a certificate needs all three of them".to_owned()),
        }
        options.site = self.site;
        Ok(options)
    }
}

/// Error about a connection that cannot be opened. The text says what failed and what to do.
pub(crate) enum OpenError {
    /// The filter has no place for the site of the program.
    Site(String),
    Cluster(String),
}

impl Connection {
    /// Connects to a cluster and opens a filter.
    pub(crate) async fn open(options: ConnectOptions, filter: String) -> Result<Self, OpenError> {
        let client = Client::connect(options).await.map_err(|error| OpenError::Cluster(error.to_string()))?;
        let filter = client.filter(&filter).await.map_err(|error| match error {
            FilterError::NoPlace { .. } | FilterError::NoLeaf { .. } => OpenError::Site(error.to_string()),
            _ => OpenError::Cluster(error.to_string()),
        })?;
        Ok(Self { client, filter })
    }
}

/// Returns the text of the token, which is never part of an error. A variable that happens to be set has no effect on a
/// program that has a certificate.
fn token_text(file: Option<PathBuf>, has_certificate: bool) -> Result<Option<String>, String> {
    let Some(path) = file else {
        let text = env::var(TOKEN_VARIABLE).ok().filter(|text| !text.is_empty() && !has_certificate);
        return Ok(text);
    };
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text));
    match read {
        Err(error) => Err(format!("token_file: cannot read the token in {}: {error}", path.display())),
        Ok(_) if text.trim().is_empty() => {
            Err(format!("token_file: {} is empty: it should hold a token (firstseen access token new)", path.display()))
        }
        Ok(_) => Ok(Some(text)),
    }
}

/// Parses a token. The error does not contain the text.
fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error| format!("token: {error}"))
}
