//! Settings of the HTTP endpoint (`[http_api]` in a node's configuration).
//!
//! The HTTP endpoint listens only on the address in these settings. If a setting is wrong, the error names the setting
//! and says what to write in its place.
//!
//! This module does not depend on connections.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Default of `connections_max`.
const CONNECTIONS_MAX: u32 = 1024;
/// Default of `buffered_bytes_max`.
const BUFFERED_BYTES_MAX: u64 = 256 << 20;
/// Default and maximum of `body_bytes_max`.
const BODY_BYTES_MAX: u32 = 4 << 20;
const BODY_BYTES_LIMIT: u32 = 64 << 20;
/// Default of `verdict_timeout_ms`. The value is short because HTTP clients stop waiting after a few seconds and send
/// the request again.
const VERDICT_TIMEOUT_MS: u32 = 1_000;
/// Maximum of `verdict_timeout_ms`.
const VERDICT_TIMEOUT_MS_MAX: u32 = 60_000;
/// Default of `streams_max`.
const STREAMS_MAX: u32 = 16;
/// Maximum number of threads.
const THREADS_MAX: u16 = 256;
/// Maximum number of connections and of streams.
const PLACES_LIMIT: u32 = 1 << 20;

/// Settings of the HTTP endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpEndpointSettings {
    /// Address at which HTTP clients connect.
    pub listen: SocketAddr,
    /// Whether clients must use TLS. The endpoint then presents the certificate of the node.
    #[serde(default)]
    pub tls: bool,
    /// Number of threads that serve connections. The default is half the number of processors.
    #[serde(default)]
    pub threads: Option<u16>,
    /// Maximum number of open connections. Further connections are closed at once.
    #[serde(default = "connections_max")]
    pub connections_max: u32,
    /// Memory for bodies and replies of all connections together, in bytes.
    #[serde(default = "buffered_bytes_max")]
    pub buffered_bytes_max: u64,
    /// Maximum size of the body of a call, in bytes. The limit does not apply to `dedup`, because its body is never
    /// held as a whole.
    #[serde(default = "body_bytes_max")]
    pub body_bytes_max: u32,
    /// Time that the endpoint waits for a verdict, in milliseconds. An event without a verdict by then is undecided.
    #[serde(default = "verdict_timeout_ms")]
    pub verdict_timeout_ms: u32,
    /// Maximum number of `dedup` requests in progress.
    #[serde(default = "streams_max")]
    pub streams_max: u32,
    /// Additional host names by which clients without a token may address the endpoint. The addresses of the endpoint,
    /// `localhost` and the name in `advertise` are always allowed. Requests for any other host name are rejected,
    /// because a malicious web page could make a browser send them.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// Error returned when the settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidHttpSettings {
    /// The endpoint would accept clients from the network without TLS, so anyone could connect and read tokens.
    #[error(
        "http_api.listen {listen} is open to the network: anyone could connect, use filters, and read tokens in transit; \
         require TLS (tls = true in [http_api], with [tls]), listen on 127.0.0.1, or set insecure = true"
    )]
    Open {
        /// Address that would be open to the network.
        listen: SocketAddr,
    },
    /// TLS is required, but the node has no certificate.
    #[error("http_api.tls needs [tls]: the endpoint presents the node's certificate to HTTP clients")]
    NoCertificate,
    /// The node already listens on this address for another purpose.
    #[error("http_api.listen {listen} is an address on which the node already listens: give it another port")]
    Taken {
        /// Address that is used twice.
        listen: SocketAddr,
    },
    /// A number is out of its range.
    #[error("http_api.{field} = {value}: give 1 to {max}")]
    Range {
        /// Name of the setting.
        field: &'static str,
        /// Value of the setting.
        value: u64,
        /// Greatest allowed value.
        max: u64,
    },
}

impl InvalidHttpSettings {
    /// Returns the name of the setting that is wrong.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Open { .. } | Self::Taken { .. } => "listen",
            Self::NoCertificate => "tls",
            Self::Range { field, .. } => field,
        }
    }
}

impl HttpEndpointSettings {
    /// Returns settings for an endpoint at this address, with the defaults for everything else.
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            tls: false,
            threads: None,
            connections_max: CONNECTIONS_MAX,
            buffered_bytes_max: BUFFERED_BYTES_MAX,
            body_bytes_max: BODY_BYTES_MAX,
            verdict_timeout_ms: VERDICT_TIMEOUT_MS,
            streams_max: STREAMS_MAX,
            hosts: Vec::new(),
        }
    }

    /// Returns how long the endpoint waits for a verdict.
    pub fn verdict_timeout(&self) -> Duration {
        Duration::from_millis(u64::from(self.verdict_timeout_ms))
    }

    /// Checks the settings of the HTTP endpoint. `others` contains the addresses on which the node already listens,
    /// which the endpoint must not use. `has_tls` tells whether the node has certificates. Without TLS, the endpoint
    /// may listen only on loopback addresses, unless `insecure` permits all addresses.
    ///
    /// # Errors
    /// Returns a [`InvalidHttpSettings`] that names the setting that is wrong.
    pub fn check(&self, others: &[SocketAddr], has_tls: bool, insecure: bool) -> Result<(), InvalidHttpSettings> {
        let listen = self.listen;
        if self.tls && !has_tls {
            return Err(InvalidHttpSettings::NoCertificate);
        }
        if !listen.ip().is_loopback() && !self.tls && !insecure {
            return Err(InvalidHttpSettings::Open { listen });
        }
        if listen.port() != 0 && others.contains(&listen) {
            return Err(InvalidHttpSettings::Taken { listen });
        }
        range("threads", self.threads.unwrap_or(1).into(), THREADS_MAX.into())?;
        range("connections_max", self.connections_max.into(), PLACES_LIMIT.into())?;
        range("buffered_bytes_max", self.buffered_bytes_max, u64::MAX)?;
        range("body_bytes_max", self.body_bytes_max.into(), BODY_BYTES_LIMIT.into())?;
        range("verdict_timeout_ms", self.verdict_timeout_ms.into(), VERDICT_TIMEOUT_MS_MAX.into())?;
        range("streams_max", self.streams_max.into(), PLACES_LIMIT.into())
    }
}

fn range(field: &'static str, value: u64, max: u64) -> Result<(), InvalidHttpSettings> {
    if (1..=max).contains(&value) { Ok(()) } else { Err(InvalidHttpSettings::Range { field, value, max }) }
}

fn connections_max() -> u32 {
    CONNECTIONS_MAX
}

fn buffered_bytes_max() -> u64 {
    BUFFERED_BYTES_MAX
}

fn body_bytes_max() -> u32 {
    BODY_BYTES_MAX
}

fn verdict_timeout_ms() -> u32 {
    VERDICT_TIMEOUT_MS
}

fn streams_max() -> u32 {
    STREAMS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns settings with an address that only this machine can reach.
    fn settings() -> HttpEndpointSettings {
        HttpEndpointSettings::at(([127, 0, 0, 1], 7480).into())
    }

    /// Returns settings with an address that other machines can reach.
    fn open() -> HttpEndpointSettings {
        HttpEndpointSettings::at(([10, 0, 0, 1], 7480).into())
    }

    /// Returns the address on which the node of these tests listens for its peers.
    fn others() -> [SocketAddr; 1] {
        [([127, 0, 0, 1], 7400).into()]
    }

    /// Returns the error for settings of a node without certificates.
    fn fails(settings: HttpEndpointSettings) -> String {
        settings.check(&others(), false, false).unwrap_err().to_string()
    }

    #[test]
    fn settings_that_cannot_be_used_are_refused() {
        let others = others();
        settings().check(&others, false, false).unwrap();
        assert!(fails(open()).contains("open to the network"));
        open().check(&others, false, true).unwrap();
        assert!(fails(HttpEndpointSettings { tls: true, ..open() }).contains("needs [tls]"));
        HttpEndpointSettings { tls: true, ..open() }.check(&others, true, false).unwrap();
        assert!(fails(HttpEndpointSettings::at(others[0])).contains("another port"));
        for (field, settings) in [
            ("threads", HttpEndpointSettings { threads: Some(0), ..settings() }),
            ("threads", HttpEndpointSettings { threads: Some(257), ..settings() }),
            ("connections_max", HttpEndpointSettings { connections_max: 0, ..settings() }),
            ("buffered_bytes_max", HttpEndpointSettings { buffered_bytes_max: 0, ..settings() }),
            ("body_bytes_max", HttpEndpointSettings { body_bytes_max: u32::MAX, ..settings() }),
            ("verdict_timeout_ms", HttpEndpointSettings { verdict_timeout_ms: 60_001, ..settings() }),
            ("streams_max", HttpEndpointSettings { streams_max: 0, ..settings() }),
        ] {
            assert!(fails(settings).starts_with(&format!("http_api.{field} = ")), "{field}");
        }
    }
}
