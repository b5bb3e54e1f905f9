//! The settings of the door for Redis clients (`[redis]` in a node's configuration).
//!
//! Promises: nothing is opened or mapped that the settings do not name. This module must not depend on connections or on the filters of
//! the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Default of `connections_max`.
const CONNECTIONS_MAX: u32 = 512;
/// Default of `buffered_bytes_max`.
const BUFFERED_BYTES_MAX: u64 = 256 << 20;
/// Default of `verdict_timeout_ms`: clients stop waiting after a few seconds, and send the command again.
const VERDICT_TIMEOUT_MS: u32 = 1_000;
/// Greatest `verdict_timeout_ms`.
const VERDICT_TIMEOUT_MS_MAX: u32 = 60_000;
/// Greatest number of threads.
const THREADS_MAX: u64 = 256;
/// Greatest number of `[[redis.prefix]]` and of `[[redis.filter]]`.
const PREFIXES_MAX: usize = 256;

/// The settings of the door.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoorSettings {
    /// Where Redis clients connect.
    pub listen: SocketAddr,
    /// Whether they speak TLS, by the node's certificate.
    #[serde(default)]
    pub tls: bool,
    /// Threads that serve connections. The default is half the number of processors.
    #[serde(default)]
    pub threads: Option<u16>,
    /// Connections that may be open at the same time. Further ones get an error and are closed.
    #[serde(default = "connections_max")]
    pub connections_max: u32,
    /// Bytes that all connections together may hold: incomplete commands, commands that wait for `EXEC`, and claims.
    #[serde(default = "buffered_bytes_max")]
    pub buffered_bytes_max: u64,
    /// How long the door waits for a verdict. An event without one is undecided.
    #[serde(default = "verdict_timeout_ms")]
    pub verdict_timeout_ms: u32,
    /// The reply for an event that is undecided.
    #[serde(default)]
    pub undecided: UndecidedRule,
    /// The reply to a command that names a filter that does not exist.
    #[serde(default)]
    pub missing: MissingRule,
    /// The reply to `DEL` and `SREM` if the filter has no claims.
    #[serde(default)]
    pub forget: ForgetRule,
    /// The reply to `GET` of a mapped key.
    #[serde(default)]
    pub get: GetRule,
    /// The reply to `EXPIRE` of a recorded key.
    #[serde(default)]
    pub expire: ExpireRule,
    /// Whether `CLUSTER SLOTS` and the like reply that this door has all slots. Some clients then enter cluster mode by themselves.
    #[serde(default = "yes")]
    pub cluster: bool,
    /// Whether a command creates the filter that it names if there is none, and `DEL` and `FLUSHALL` drop such filters. For experiments.
    #[serde(default)]
    pub sandbox: bool,
    /// Which keys belong to which filter.
    #[serde(default)]
    pub prefix: Vec<PrefixSettings>,
    /// Settings for single filters.
    #[serde(default)]
    pub filter: Vec<FilterSettings>,
}

/// Settings for one filter, instead of those for all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterSettings {
    /// The filter.
    pub name: String,
    /// The reply for an undecided event of this filter. The default is `undecided` in `[redis]`.
    #[serde(default)]
    pub undecided: Option<UndecidedRule>,
    /// Who confirms the events that `SET NX` has claimed, if the filter has claims.
    #[serde(default)]
    pub claim: ClaimRule,
}

/// Who confirms an event that `SET NX` or `SETNX` has claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimRule {
    /// The client, by `FS.CONFIRM`. An event that is not confirmed is free again when its lease ends.
    #[default]
    Explicit,
    /// The door, shortly before the lease ends, unless `DEL` has released the event.
    OnExpiryConfirm,
}

/// The reply to a client that asks for the value of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GetRule {
    /// An error, because the door stores no values.
    #[default]
    Refuse,
    /// `1` if the key was seen or is held, nil if it is new.
    One,
}

/// The reply to `EXPIRE` of a recorded key, which stays for the window of its filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpireRule {
    /// An error, unless the command asks for the window itself.
    #[default]
    Refuse,
    /// 1 if the key is there and 0 if not; the key stays for the window.
    Window,
}

/// Maps keys with a prefix to a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixSettings {
    /// The prefix; of several that fit, the longest counts. The empty prefix fits every key. If one prefix has several filters, a key
    /// goes to the one with the shortest window that can keep it.
    #[serde(rename = "match")]
    pub beginning: String,
    /// The filter.
    pub filter: String,
}

/// The reply for an undecided event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UndecidedRule {
    /// An error that no client retries by itself.
    #[default]
    Error,
    /// The reply for a new event: it may be delivered twice, and is never lost.
    New,
    /// The reply for a seen event: it may be lost, and is never delivered twice.
    Seen,
}

/// The reply to a command whose filter does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingRule {
    /// An error: `ERR not found`.
    #[default]
    Error,
    /// What Redis replies for a key that does not exist, for commands that record nothing.
    Zero,
}

/// The reply to a client that wants an event forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForgetRule {
    /// An error, because filters forget by time only.
    #[default]
    Refuse,
    /// 0: nothing was removed.
    Ignore,
}

/// Why the settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotDoorSettings {
    /// Without TLS, anybody on the network could connect.
    #[error(
        "redis.listen {listen} is open to the network: whoever connects may ask filters, and could read tokens on the way; let \
         clients speak TLS (tls = true in [redis], with [tls]), listen on 127.0.0.1, or set insecure = true"
    )]
    Open {
        /// The address.
        listen: SocketAddr,
    },
    /// The node has no certificate for TLS.
    #[error("redis.tls needs [tls]: Redis clients are shown the node's certificate")]
    NoCertificate,
    /// The node listens on this address already.
    #[error("redis.listen {listen} is listen or http_listen, too: give them different ports")]
    Taken {
        /// The address.
        listen: SocketAddr,
    },
    /// Too many threads.
    #[error("redis.threads is {0}, at most {THREADS_MAX} are possible")]
    Threads(u64),
    /// A setting is 0.
    #[error("redis.{0} has to be above 0")]
    Zero(&'static str),
    /// The timeout is too long.
    #[error("redis.verdict_timeout_ms is {0}, at most {VERDICT_TIMEOUT_MS_MAX} are possible")]
    VerdictTimeout(u32),
    /// A prefix names one filter twice.
    #[error("redis.prefix names the filter `{filter}` twice for `{beginning}`")]
    Twice {
        /// The prefix.
        beginning: String,
        /// The filter.
        filter: String,
    },
    /// Too many entries.
    #[error("redis.prefix or redis.filter has {0} entries, at most {PREFIXES_MAX} are possible")]
    Many(usize),
    /// A filter has two entries.
    #[error("redis.filter names `{0}` twice")]
    TwiceRuled(String),
    /// A prefix names no filter.
    #[error("redis.prefix `{0}` needs a filter")]
    NoFilter(String),
}

impl NotDoorSettings {
    /// Returns the setting that is wrong.
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

impl DoorSettings {
    /// Settings for a door at this address, with the defaults for everything else.
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

    /// How long the door waits for a verdict.
    pub fn verdict_timeout(&self) -> Duration {
        Duration::from_millis(u64::from(self.verdict_timeout_ms))
    }

    /// Checks the settings for a node that also listens on the addresses in `others`. `has_tls` tells whether it has certificates;
    /// `insecure` permits listening without TLS on any address.
    ///
    /// # Errors
    /// [`NotDoorSettings`] names the setting that is wrong.
    pub fn check(&self, others: &[SocketAddr], has_tls: bool, insecure: bool) -> Result<(), NotDoorSettings> {
        let listen = self.listen;
        if self.tls && !has_tls {
            return Err(NotDoorSettings::NoCertificate);
        }
        if !listen.ip().is_loopback() && !self.tls && !insecure {
            return Err(NotDoorSettings::Open { listen });
        }
        if listen.port() != 0 && others.contains(&listen) {
            return Err(NotDoorSettings::Taken { listen });
        }
        let threads = self.threads.map_or(1, u64::from);
        if threads > THREADS_MAX {
            return Err(NotDoorSettings::Threads(threads));
        }
        if self.verdict_timeout_ms > VERDICT_TIMEOUT_MS_MAX {
            return Err(NotDoorSettings::VerdictTimeout(self.verdict_timeout_ms));
        }
        for (name, value) in [
            ("threads", threads),
            ("connections_max", u64::from(self.connections_max)),
            ("buffered_bytes_max", self.buffered_bytes_max),
            ("verdict_timeout_ms", u64::from(self.verdict_timeout_ms)),
        ] {
            if value == 0 {
                return Err(NotDoorSettings::Zero(name));
            }
        }
        let entries = self.prefix.len().max(self.filter.len());
        if entries > PREFIXES_MAX {
            return Err(NotDoorSettings::Many(entries));
        }
        let mut ruled = BTreeSet::new();
        if let Some(again) = self.filter.iter().find(|filter| !ruled.insert(&filter.name)) {
            return Err(NotDoorSettings::TwiceRuled(again.name.clone()));
        }
        let mut seen = BTreeSet::new();
        for PrefixSettings { beginning, filter } in &self.prefix {
            if filter.is_empty() {
                return Err(NotDoorSettings::NoFilter(beginning.clone()));
            }
            if !seen.insert((beginning, filter)) {
                return Err(NotDoorSettings::Twice { beginning: beginning.clone(), filter: filter.clone() });
            }
        }
        Ok(())
    }
}

/// The rules for all filters, and for those that have their own.
pub(crate) struct Rules {
    undecided: UndecidedRule,
    by_filter: BTreeMap<String, (UndecidedRule, ClaimRule)>,
}

impl Rules {
    pub(crate) fn new(settings: &DoorSettings) -> Self {
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

    /// Whether the door confirms the claims of any filter.
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
        let settings = || DoorSettings::at(([127, 0, 0, 1], 6379).into());
        let prefix =
            |beginning: &str, filter: &str| PrefixSettings { beginning: beginning.into(), filter: filter.into() };
        let others = [([127, 0, 0, 1], 7400).into()];
        settings().check(&others, false, false).unwrap();
        let fails = |settings: DoorSettings| settings.check(&others, false, false).unwrap_err().to_string();
        let open = || DoorSettings::at(([10, 0, 0, 1], 6379).into());
        assert!(fails(open()).contains("open to the network"));
        open().check(&others, false, true).unwrap();
        assert!(fails(DoorSettings { tls: true, ..open() }).contains("needs [tls]"));
        DoorSettings { tls: true, ..open() }.check(&others, true, false).unwrap();
        assert!(fails(DoorSettings::at(others[0])).contains("different ports"));
        assert!(fails(DoorSettings { connections_max: 0, ..settings() }).contains("connections_max"));
        assert!(fails(DoorSettings { threads: Some(0), ..settings() }).contains("threads"));
        assert!(fails(DoorSettings { threads: Some(257), ..settings() }).contains("257"));
        assert!(fails(DoorSettings { buffered_bytes_max: 0, ..settings() }).contains("buffered_bytes_max"));
        assert!(fails(DoorSettings { verdict_timeout_ms: 0, ..settings() }).contains("verdict_timeout_ms"));
        assert!(fails(DoorSettings { verdict_timeout_ms: 60_001, ..settings() }).contains("at most 60000"));
        assert!(
            fails(DoorSettings { prefix: vec![prefix("a", "f"), prefix("a", "f")], ..settings() }).contains("twice")
        );
        assert!(fails(DoorSettings { prefix: vec![prefix("a", "")], ..settings() }).contains("needs a filter"));
        assert!(fails(DoorSettings { prefix: vec![prefix("a", "f"); 257], ..settings() }).contains("257"));
        let ruled = FilterSettings { name: "f".into(), undecided: None, claim: ClaimRule::Explicit };
        assert!(fails(DoorSettings { filter: vec![ruled.clone(), ruled], ..settings() }).contains("`f` twice"));
    }
}
