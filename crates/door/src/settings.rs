//! What an operator says of the door.
//!
//! Promises: nothing is opened and nothing is mapped that was not asked for. Must not know: connections, filters of the cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Connections that are open at the same time, where nothing is said.
const CONNECTIONS_MAX: u32 = 512;
/// Bytes of half commands, of queues between `MULTI` and `EXEC`, and of claims over all connections, where nothing is said.
const BUFFERED_BYTES_MAX: u64 = 256 << 20;
/// Default of `verdict_timeout_ms`: clients stop waiting after a few seconds, and send the command again.
const VERDICT_TIMEOUT_MS: u32 = 1_000;
/// Greatest `verdict_timeout_ms`.
const VERDICT_TIMEOUT_MS_MAX: u32 = 60_000;
/// Most threads.
const THREADS_MAX: u64 = 256;
/// Most beginnings of keys that are mapped, and filters with rules of their own.
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
    /// Threads that attend to connections; half as many as the machine has processors where nothing is said.
    #[serde(default)]
    pub threads: Option<u16>,
    /// Connections that may be open at the same time.
    #[serde(default = "connections_max")]
    pub connections_max: u32,
    /// Bytes that may be held over all connections: of commands that have not come whole or wait for `EXEC`, and of claims.
    #[serde(default = "buffered_bytes_max")]
    pub buffered_bytes_max: u64,
    /// How long the door waits for a verdict. An event without one is undecided.
    #[serde(default = "verdict_timeout_ms")]
    pub verdict_timeout_ms: u32,
    /// The reply for an event that is undecided.
    #[serde(default)]
    pub undecided: UndecidedRule,
    /// The reply where no filter has the name that a command gives.
    #[serde(default)]
    pub missing: MissingRule,
    /// The reply to `DEL` and `SREM` where the filter has no claims.
    #[serde(default)]
    pub forget: ForgetRule,
    /// The reply to `GET` of a key that is mapped.
    #[serde(default)]
    pub get: GetRule,
    /// The reply to `EXPIRE` of a key that is recorded already.
    #[serde(default)]
    pub expire: ExpireRule,
    /// Whether clients in cluster mode are told that this door has all slots. Some clients go into cluster mode by themselves then.
    #[serde(default = "yes")]
    pub cluster: bool,
    /// Whether filters are made by whoever uses one that there is not, and dropped by `DEL` and `FLUSHALL`: for trying things.
    #[serde(default)]
    pub sandbox: bool,
    /// Which keys are events of which filter.
    #[serde(default)]
    pub prefix: Vec<PrefixSettings>,
    /// What is unlike the rest for one filter.
    #[serde(default)]
    pub filter: Vec<FilterSettings>,
}

/// What is unlike the rest for one filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterSettings {
    /// The filter.
    pub name: String,
    /// The reply for one of its events that is undecided; that of all where it is left out.
    #[serde(default)]
    pub undecided: Option<UndecidedRule>,
    /// Who confirms what `SET NX` has claimed, where the filter has claims.
    #[serde(default)]
    pub claim: ClaimRule,
}

/// Who confirms an event that `SET NX` or `SETNX` has claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimRule {
    /// The client, by `FS.CONFIRM`: without it the key is free again when its time is over.
    #[default]
    Explicit,
    /// The door, when the lease is nearly over, unless `DEL` has let the event go.
    OnExpiryConfirm,
}

/// What is said to who asks for the value of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GetRule {
    /// An error: there are no values.
    #[default]
    Refuse,
    /// `1` where it was seen, or is held, and nothing where it is new.
    One,
}

/// What is said to who gives a time to a key that is recorded already: its filter remembers it for the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpireRule {
    /// An error, unless that time is the window.
    #[default]
    Refuse,
    /// 1 where it is there, and 0 where it is not, as if its time were the window.
    Window,
}

/// Keys that begin so are events of a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixSettings {
    /// The beginning of a key; the longest that fits counts. Empty: every key. Where it has several filters, a key is an event
    /// of the one with the shortest window that is as long as it asks for.
    #[serde(rename = "match")]
    pub beginning: String,
    /// The filter.
    pub filter: String,
}

/// What is said of an event that is undecided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UndecidedRule {
    /// An error that no client retries by itself.
    #[default]
    Error,
    /// That it is new: it may be delivered twice, and is never lost.
    New,
    /// That it was seen: it may be lost, and is never delivered twice.
    Seen,
}

/// What is said where there is no such filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingRule {
    /// An error: `ERR not found`.
    #[default]
    Error,
    /// What Redis says of a key that is not there, to questions that record nothing.
    Zero,
}

/// What is said to who wants something forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForgetRule {
    /// An error: filters forget by time.
    #[default]
    Refuse,
    /// 0: nothing was removed.
    Ignore,
}

/// Why the settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotDoorSettings {
    /// Redis clients from other machines could be anybody.
    #[error(
        "redis.listen {listen} is open to the network: whoever connects may ask filters, and could read tokens on the way; let \
         clients speak TLS (tls = true in [redis], with [tls]), listen on 127.0.0.1, or set insecure = true"
    )]
    Open {
        /// The address.
        listen: SocketAddr,
    },
    /// There is no certificate to show.
    #[error("redis.tls needs [tls]: Redis clients are shown the node's certificate")]
    NoCertificate,
    /// The node listens there for others.
    #[error("redis.listen {listen} is listen or http_listen, too: give them different ports")]
    Taken {
        /// The address.
        listen: SocketAddr,
    },
    /// More threads than there may be.
    #[error("redis.threads is {0}, at most {THREADS_MAX} are possible")]
    Threads(u64),
    /// A bound is zero.
    #[error("redis.{0} has to be above 0")]
    Zero(&'static str),
    /// The door would wait for ever.
    #[error("redis.verdict_timeout_ms is {0}, at most {VERDICT_TIMEOUT_MS_MAX} are possible")]
    VerdictTimeout(u32),
    /// The same twice.
    #[error("redis.prefix names the filter `{filter}` twice for `{beginning}`")]
    Twice {
        /// The beginning.
        beginning: String,
        /// The filter.
        filter: String,
    },
    /// More entries than there may be.
    #[error("redis.prefix or redis.filter has {0} entries, at most {PREFIXES_MAX} are possible")]
    Many(usize),
    /// A filter has two sets of rules.
    #[error("redis.filter names `{0}` twice")]
    TwiceRuled(String),
    /// A prefix names no filter.
    #[error("redis.prefix `{0}` needs a filter")]
    NoFilter(String),
}

impl DoorSettings {
    /// A door at an address, with everything else as it is where nothing is said.
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

    /// Whether they can be used in a node that listens at these addresses, too, and has certificates or not; `insecure` allows
    /// what should not be.
    ///
    /// # Errors
    /// [`NotDoorSettings`] names the setting.
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
