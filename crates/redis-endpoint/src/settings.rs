//! Settings of the Redis endpoint (`[redis]` in a node's configuration).
//!
//! The Redis endpoint listens only on the addresses in these settings. It accepts a key only if the settings map a
//! prefix of that key to a filter.
//!
//! This module does not depend on connections or on the filters of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Default of `connections_max`.
const CONNECTIONS_MAX: u32 = 512;
/// Default of `buffered_bytes_max`.
const BUFFERED_BYTES_MAX: u64 = 256 << 20;
/// Default of `verdict_timeout_ms`. The value is short because Redis clients stop waiting after a few seconds and send
/// the command again.
const VERDICT_TIMEOUT_MS: u32 = 1_000;
/// Maximum of `verdict_timeout_ms`.
const VERDICT_TIMEOUT_MS_MAX: u32 = 60_000;
/// Maximum number of threads.
const THREADS_MAX: u64 = 256;
/// Maximum number of `[[redis.prefix]]` sections, and of `[[redis.filter]]` sections.
const PREFIXES_MAX: usize = 256;

/// Settings of the Redis endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedisEndpointSettings {
    /// Address at which Redis clients connect.
    pub listen: SocketAddr,
    /// Whether clients must use TLS. The endpoint then presents the certificate of the node.
    #[serde(default)]
    pub tls: bool,
    /// Number of threads that serve connections. The default is half the number of processors.
    #[serde(default)]
    pub threads: Option<u16>,
    /// Maximum number of open connections. Further connections get an error and are closed.
    #[serde(default = "connections_max")]
    pub connections_max: u32,
    /// Memory that all connections together may use, in bytes. It holds incomplete commands, commands that wait for
    /// `EXEC`, and claims.
    #[serde(default = "buffered_bytes_max")]
    pub buffered_bytes_max: u64,
    /// Time that the endpoint waits for a verdict, in milliseconds. An event without a verdict by then is undecided.
    #[serde(default = "verdict_timeout_ms")]
    pub verdict_timeout_ms: u32,
    /// Reply for an undecided event.
    #[serde(default)]
    pub undecided: UndecidedRule,
    /// Reply to a command that names a filter which does not exist.
    #[serde(default)]
    pub missing: MissingRule,
    /// Reply to `DEL` and `SREM` for a filter that does not allow claims.
    #[serde(default)]
    pub forget: ForgetRule,
    /// Reply to `GET` for a mapped key.
    #[serde(default)]
    pub get: GetRule,
    /// Reply to `EXPIRE` for a recorded key.
    #[serde(default)]
    pub expire: ExpireRule,
    /// Whether the endpoint supports clients in cluster mode. If this setting is on, `CLUSTER SLOTS` and similar
    /// commands report that this endpoint owns all slots. Some client libraries then switch to cluster mode
    /// automatically.
    #[serde(default = "yes")]
    pub cluster: bool,
    /// Whether the endpoint runs in sandbox mode, which is meant for experiments. In this mode, a command creates the
    /// filter that it names if that filter does not exist. The commands `DEL` and `FLUSHALL` drop filters that were
    /// created in this way.
    #[serde(default)]
    pub sandbox: bool,
    /// Mapping of key prefixes to filters.
    #[serde(default)]
    pub prefix: Vec<PrefixSettings>,
    /// Settings for single filters.
    #[serde(default)]
    pub filter: Vec<FilterSettings>,
}

/// Settings for one filter, which replace the settings for all filters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterSettings {
    /// Name of the filter.
    pub name: String,
    /// Reply for an undecided event of this filter. The default is `undecided` in `[redis]`.
    #[serde(default)]
    pub undecided: Option<UndecidedRule>,
    /// Party that confirms events which `SET NX` has claimed, if the filter allows claims.
    #[serde(default)]
    pub claim: ClaimRule,
}

/// Party that confirms an event which `SET NX` or `SETNX` has claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimRule {
    /// The client confirms the event with `FS.CONFIRM`. An event that is not confirmed becomes free again when its
    /// lease ends.
    #[default]
    Explicit,
    /// The endpoint confirms the event shortly before the lease ends, unless `DEL` has released it.
    OnExpiryConfirm,
}

/// Reply to a client that asks for the value of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GetRule {
    /// An error, because the endpoint stores no values.
    #[default]
    Refuse,
    /// `1` if the key was seen or is held, nil if it is new.
    One,
}

/// Reply to `EXPIRE` for a recorded key. The key stays for the window of its filter in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpireRule {
    /// An error, unless the requested time equals the window.
    #[default]
    Refuse,
    /// 1 if the key exists and 0 if it does not. The key stays for the window.
    Window,
}

/// Mapping of a key prefix to a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixSettings {
    /// Key prefix that this mapping applies to. If several prefixes match a key, the longest prefix is used. The empty
    /// prefix matches every key. If several filters have the same prefix, the endpoint selects the filter with the
    /// shortest window that covers the expiry of the key.
    #[serde(rename = "match")]
    pub beginning: String,
    /// Name of the filter.
    pub filter: String,
}

/// Reply for an undecided event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UndecidedRule {
    /// An error that no client library retries automatically.
    #[default]
    Error,
    /// The reply for a new event. The event may be delivered twice, but is never lost.
    New,
    /// The reply for a seen event. The event may be lost, but is never delivered twice.
    Seen,
}

/// Reply to a command whose filter does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingRule {
    /// The error `ERR not found`.
    #[default]
    Error,
    /// For commands that record nothing, the reply that Redis gives for a key that does not exist.
    Zero,
}

/// Reply to a client that wants to delete an event from a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForgetRule {
    /// An error, because filters forget events only by time.
    #[default]
    Refuse,
    /// The reply 0, which says that nothing was removed.
    Ignore,
}

/// Error returned when the settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidRedisSettings {
    /// The endpoint would accept clients from the network without TLS, so anyone could connect and read tokens.
    #[error(
        "redis.listen {listen} is open to the network: anyone could connect, use filters, and read tokens in transit; \
         require TLS (tls = true in [redis], with [tls]), listen on 127.0.0.1, or set insecure = true"
    )]
    Open {
        /// Address that would be open to the network.
        listen: SocketAddr,
    },
    /// TLS is required, but the node has no certificate.
    #[error("redis.tls needs [tls]: the endpoint presents the node's certificate to Redis clients")]
    NoCertificate,
    /// The node already listens on this address for another purpose.
    #[error("redis.listen {listen} is also the address of listen or http_listen: give them different ports")]
    Taken {
        /// Address that is used twice.
        listen: SocketAddr,
    },
    /// The number of threads exceeds the limit.
    #[error("redis.threads is {0}, at most {THREADS_MAX} are possible")]
    Threads(u64),
    /// The setting with this name is 0.
    #[error("redis.{0} has to be above 0")]
    Zero(&'static str),
    /// The timeout exceeds the limit.
    #[error("redis.verdict_timeout_ms is {0}, at most {VERDICT_TIMEOUT_MS_MAX} are possible")]
    VerdictTimeout(u32),
    /// A prefix names the same filter twice.
    #[error("redis.prefix names the filter `{filter}` twice for `{beginning}`")]
    Twice {
        /// Prefix of the mapping.
        beginning: String,
        /// Filter of the mapping.
        filter: String,
    },
    /// The settings have too many entries.
    #[error("redis.prefix or redis.filter has {0} entries, at most {PREFIXES_MAX} are possible")]
    Many(usize),
    /// Two entries set rules for the same filter.
    #[error("redis.filter names `{0}` twice")]
    TwiceRuled(String),
    /// A prefix names no filter.
    #[error("redis.prefix `{0}` needs a filter")]
    NoFilter(String),
}

impl InvalidRedisSettings {
    /// Returns the name of the setting that is wrong.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Open { .. } | Self::Taken { .. } => "listen",
            Self::NoCertificate => "tls",
            Self::Threads(_) => "threads",
            Self::Zero(name) => name,
            Self::VerdictTimeout(_) => "verdict_timeout_ms",
            Self::Twice { .. } | Self::Many(_) | Self::NoFilter(_) => "prefix",
            Self::TwiceRuled(_) => "filter",
        }
    }
}

impl RedisEndpointSettings {
    /// Returns settings for an endpoint at this address, with the defaults for everything else.
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            tls: false,
            threads: None,
            connections_max: CONNECTIONS_MAX,
            buffered_bytes_max: BUFFERED_BYTES_MAX,
            verdict_timeout_ms: VERDICT_TIMEOUT_MS,
            undecided: UndecidedRule::default(),
            missing: MissingRule::default(),
            forget: ForgetRule::default(),
            get: GetRule::default(),
            expire: ExpireRule::default(),
            cluster: true,
            sandbox: false,
            prefix: Vec::new(),
            filter: Vec::new(),
        }
    }

    /// Returns how long the endpoint waits for a verdict.
    pub fn verdict_timeout(&self) -> Duration {
        Duration::from_millis(u64::from(self.verdict_timeout_ms))
    }

    /// Checks the settings of the Redis endpoint. `others` contains the addresses on which the node already listens,
    /// which the endpoint must not use. `has_tls` tells whether the node has certificates. Without TLS, the endpoint
    /// may listen only on loopback addresses, unless `insecure` permits all addresses.
    ///
    /// # Errors
    /// Returns a [`InvalidRedisSettings`] that names the setting that is wrong.
    pub fn check(&self, others: &[SocketAddr], has_tls: bool, insecure: bool) -> Result<(), InvalidRedisSettings> {
        let listen = self.listen;
        if self.tls && !has_tls {
            return Err(InvalidRedisSettings::NoCertificate);
        }
        if !listen.ip().is_loopback() && !self.tls && !insecure {
            return Err(InvalidRedisSettings::Open { listen });
        }
        if listen.port() != 0 && others.contains(&listen) {
            return Err(InvalidRedisSettings::Taken { listen });
        }
        let threads = self.threads.map_or(1, u64::from);
        if threads > THREADS_MAX {
            return Err(InvalidRedisSettings::Threads(threads));
        }
        if self.verdict_timeout_ms > VERDICT_TIMEOUT_MS_MAX {
            return Err(InvalidRedisSettings::VerdictTimeout(self.verdict_timeout_ms));
        }
        for (name, value) in [
            ("threads", threads),
            ("connections_max", u64::from(self.connections_max)),
            ("buffered_bytes_max", self.buffered_bytes_max),
            ("verdict_timeout_ms", u64::from(self.verdict_timeout_ms)),
        ] {
            if value == 0 {
                return Err(InvalidRedisSettings::Zero(name));
            }
        }
        let entries = self.prefix.len().max(self.filter.len());
        if entries > PREFIXES_MAX {
            return Err(InvalidRedisSettings::Many(entries));
        }
        let mut ruled = BTreeSet::new();
        if let Some(again) = self.filter.iter().find(|filter| !ruled.insert(&filter.name)) {
            return Err(InvalidRedisSettings::TwiceRuled(again.name.clone()));
        }
        let mut seen = BTreeSet::new();
        for PrefixSettings { beginning, filter } in &self.prefix {
            if filter.is_empty() {
                return Err(InvalidRedisSettings::NoFilter(beginning.clone()));
            }
            if !seen.insert((beginning, filter)) {
                return Err(InvalidRedisSettings::Twice { beginning: beginning.clone(), filter: filter.clone() });
            }
        }
        Ok(())
    }
}

/// Rules that apply to all filters, and rules for single filters.
pub(crate) struct Rules {
    undecided: UndecidedRule,
    by_filter: BTreeMap<String, (UndecidedRule, ClaimRule)>,
}

impl Rules {
    pub(crate) fn new(settings: &RedisEndpointSettings) -> Self {
        let undecided = settings.undecided;
        let rules = settings.filter.iter().map(|of| (of.name.clone(), (of.undecided.unwrap_or(undecided), of.claim)));
        Self { undecided, by_filter: rules.collect() }
    }

    pub(crate) fn undecided(&self, filter: &str) -> UndecidedRule {
        self.by_filter.get(filter).map_or(self.undecided, |(undecided, _)| *undecided)
    }

    pub(crate) fn claim(&self, filter: &str) -> ClaimRule {
        self.by_filter.get(filter).map(|(_, claim)| *claim).unwrap_or_default()
    }

    /// Returns whether the endpoint confirms the claims of any filter.
    pub(crate) fn has_confirms(&self) -> bool {
        self.by_filter.values().any(|(_, claim)| *claim == ClaimRule::OnExpiryConfirm)
    }
}

fn yes() -> bool {
    true
}

fn connections_max() -> u32 {
    CONNECTIONS_MAX
}

fn buffered_bytes_max() -> u64 {
    BUFFERED_BYTES_MAX
}

fn verdict_timeout_ms() -> u32 {
    VERDICT_TIMEOUT_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let settings = || RedisEndpointSettings::at(([127, 0, 0, 1], 6379).into());
        let prefix =
            |beginning: &str, filter: &str| PrefixSettings { beginning: beginning.into(), filter: filter.into() };
        let others = [([127, 0, 0, 1], 7400).into()];
        settings().check(&others, false, false).unwrap();
        let fails = |settings: RedisEndpointSettings| settings.check(&others, false, false).unwrap_err().to_string();
        let open = || RedisEndpointSettings::at(([10, 0, 0, 1], 6379).into());
        assert!(fails(open()).contains("open to the network"));
        open().check(&others, false, true).unwrap();
        assert!(fails(RedisEndpointSettings { tls: true, ..open() }).contains("needs [tls]"));
        RedisEndpointSettings { tls: true, ..open() }.check(&others, true, false).unwrap();
        assert!(fails(RedisEndpointSettings::at(others[0])).contains("different ports"));
        assert!(fails(RedisEndpointSettings { connections_max: 0, ..settings() }).contains("connections_max"));
        assert!(fails(RedisEndpointSettings { threads: Some(0), ..settings() }).contains("threads"));
        assert!(fails(RedisEndpointSettings { threads: Some(257), ..settings() }).contains("257"));
        assert!(fails(RedisEndpointSettings { buffered_bytes_max: 0, ..settings() }).contains("buffered_bytes_max"));
        assert!(fails(RedisEndpointSettings { verdict_timeout_ms: 0, ..settings() }).contains("verdict_timeout_ms"));
        assert!(fails(RedisEndpointSettings { verdict_timeout_ms: 60_001, ..settings() }).contains("at most 60000"));
        assert!(
            fails(RedisEndpointSettings { prefix: vec![prefix("a", "f"), prefix("a", "f")], ..settings() })
                .contains("twice")
        );
        assert!(
            fails(RedisEndpointSettings { prefix: vec![prefix("a", "")], ..settings() }).contains("needs a filter")
        );
        assert!(fails(RedisEndpointSettings { prefix: vec![prefix("a", "f"); 257], ..settings() }).contains("257"));
        let ruled = FilterSettings { name: "f".into(), undecided: None, claim: ClaimRule::Explicit };
        assert!(
            fails(RedisEndpointSettings { filter: vec![ruled.clone(), ruled], ..settings() }).contains("`f` twice")
        );
    }
}
