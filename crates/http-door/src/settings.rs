//! The settings of the door for HTTP, as its operator gives them.
//!
//! Promises: nothing is opened that was not asked for; a setting that is refused is named, with what to write instead. This module
//! must not depend on connections.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Default of `connections_max`.
const CONNECTIONS_MAX: u32 = 1024;
/// Default of `buffered_bytes_max`.
const BUFFERED_BYTES_MAX: u64 = 256 << 20;
/// Default of `body_bytes_max`, and its greatest value.
const BODY_BYTES_MAX: u32 = 4 << 20;
const BODY_BYTES_LIMIT: u32 = 64 << 20;
/// Default of `verdict_timeout_ms`: clients stop waiting after a few seconds, and send the request again.
const VERDICT_TIMEOUT_MS: u32 = 1_000;
/// Greatest `verdict_timeout_ms`.
const VERDICT_TIMEOUT_MS_MAX: u32 = 60_000;
/// Default of `streams_max`.
const STREAMS_MAX: u32 = 16;
/// Greatest number of threads.
const THREADS_MAX: u16 = 256;
/// Greatest number of connections and of streams.
const PLACES_LIMIT: u32 = 1 << 20;

/// The settings of the door for HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpDoorSettings {
    /// Where HTTP clients connect.
    pub listen: SocketAddr,
    /// Whether they speak TLS, by the node's certificate.
    #[serde(default)]
    pub tls: bool,
    /// Threads that serve connections. The default is half the number of processors.
    #[serde(default)]
    pub threads: Option<u16>,
    /// Connections that may be open at the same time. Further ones are closed at once.
    #[serde(default = "connections_max")]
    pub connections_max: u32,
    /// Bytes of bodies and replies that may be held over all connections.
    #[serde(default = "buffered_bytes_max")]
    pub buffered_bytes_max: u64,
    /// Bytes of the body of a call, except those of a `dedup`, which is never held as a whole.
    #[serde(default = "body_bytes_max")]
    pub body_bytes_max: u32,
    /// How long the door waits for a verdict. An event without one is undecided.
    #[serde(default = "verdict_timeout_ms")]
    pub verdict_timeout_ms: u32,
    /// Calls of `dedup` that may be under way at the same time.
    #[serde(default = "streams_max")]
    pub streams_max: u32,
    /// Names by which the door is asked without a token, in addition to its addresses, `localhost` and the name in `advertise`: a
    /// web page cannot have a browser ask by another name.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// Why the settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotHttpDoorSettings {
    /// HTTP clients from other machines could be anybody.
    #[error(
        "http_api.listen {listen} is open to the network: whoever connects may ask filters, and could read tokens on the way; let \
         clients speak TLS (tls = true in [http_api], with [tls]), listen on 127.0.0.1, or set insecure = true"
    )]
    Open {
        /// The address.
        listen: SocketAddr,
    },
    /// There is no certificate to show.
    #[error("http_api.tls needs [tls]: HTTP clients are shown the node's certificate")]
    NoCertificate,
    /// The node listens there for others.
    #[error("http_api.listen {listen} is an address on which the node listens already: give it another port")]
    Taken {
        /// The address.
        listen: SocketAddr,
    },
    /// A number out of its range.
    #[error("http_api.{field} = {value}: give 1 to {max}")]
    Range {
        /// The field.
        field: &'static str,
        /// What it says.
        value: u64,
        /// The greatest.
        max: u64,
    },
}

impl NotHttpDoorSettings {
    /// Returns the setting that is wrong.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Open { .. } | Self::Taken { .. } => "listen",
            Self::NoCertificate => "tls",
            Self::Range { field, .. } => field,
        }
    }
}

impl HttpDoorSettings {
    /// A door at an address, with the defaults of all other settings.
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

    /// How long the door waits for a verdict.
    pub fn verdict_timeout(&self) -> Duration {
        Duration::from_millis(u64::from(self.verdict_timeout_ms))
    }

    /// Checks whether they can be used in a node that listens at these other addresses, and has certificates or not; `insecure`
    /// allows what should not be.
    ///
    /// # Errors
    /// [`NotHttpDoorSettings`] names the setting.
    pub fn check(&self, others: &[SocketAddr], has_tls: bool, insecure: bool) -> Result<(), NotHttpDoorSettings> {
        let listen = self.listen;
        if self.tls && !has_tls {
            return Err(NotHttpDoorSettings::NoCertificate);
        }
        if !listen.ip().is_loopback() && !self.tls && !insecure {
            return Err(NotHttpDoorSettings::Open { listen });
        }
        if listen.port() != 0 && others.contains(&listen) {
            return Err(NotHttpDoorSettings::Taken { listen });
        }
        range("threads", self.threads.unwrap_or(1).into(), THREADS_MAX.into())?;
        range("connections_max", self.connections_max.into(), PLACES_LIMIT.into())?;
        range("buffered_bytes_max", self.buffered_bytes_max, u64::MAX)?;
        range("body_bytes_max", self.body_bytes_max.into(), BODY_BYTES_LIMIT.into())?;
        range("verdict_timeout_ms", self.verdict_timeout_ms.into(), VERDICT_TIMEOUT_MS_MAX.into())?;
        range("streams_max", self.streams_max.into(), PLACES_LIMIT.into())
    }
}

fn range(field: &'static str, value: u64, max: u64) -> Result<(), NotHttpDoorSettings> {
    if (1..=max).contains(&value) { Ok(()) } else { Err(NotHttpDoorSettings::Range { field, value, max }) }
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

    #[test]
    fn settings_that_cannot_be_used_are_refused() {
        let settings = || HttpDoorSettings::at(([127, 0, 0, 1], 7480).into());
        let open = || HttpDoorSettings::at(([10, 0, 0, 1], 7480).into());
        let others = [([127, 0, 0, 1], 7400).into()];
        settings().check(&others, false, false).unwrap();
        let fails = |settings: HttpDoorSettings| settings.check(&others, false, false).unwrap_err().to_string();
        assert!(fails(open()).contains("open to the network"));
        open().check(&others, false, true).unwrap();
        assert!(fails(HttpDoorSettings { tls: true, ..open() }).contains("needs [tls]"));
        HttpDoorSettings { tls: true, ..open() }.check(&others, true, false).unwrap();
        assert!(fails(HttpDoorSettings::at(others[0])).contains("another port"));
        for (field, settings) in [
            ("threads", HttpDoorSettings { threads: Some(0), ..settings() }),
            ("threads", HttpDoorSettings { threads: Some(257), ..settings() }),
            ("connections_max", HttpDoorSettings { connections_max: 0, ..settings() }),
            ("buffered_bytes_max", HttpDoorSettings { buffered_bytes_max: 0, ..settings() }),
            ("body_bytes_max", HttpDoorSettings { body_bytes_max: u32::MAX, ..settings() }),
            ("verdict_timeout_ms", HttpDoorSettings { verdict_timeout_ms: 60_001, ..settings() }),
            ("streams_max", HttpDoorSettings { streams_max: 0, ..settings() }),
        ] {
            assert!(fails(settings).starts_with(&format!("http_api.{field} = ")), "{field}");
        }
    }
}
