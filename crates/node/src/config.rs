//! The settings of a node, as its operator gives them.
//!
//! Promises: a configuration that [`NodeConfig::check`] passes can be started; a setting that it refuses is named, with
//! what to write instead. Must not know: files (the command line reads them), what the settings are used for.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use firstseen_door::{DoorSettings, NotDoorSettings};
use firstseen_http_door::{HttpDoorSettings, NotHttpDoorSettings};
use firstseen_meta::RaftTiming;
use firstseen_wire::limits as wire_limits;
use firstseen_wire::proto::admin::Setting;
use firstseen_wire::tls::{ServerFiles, TlsFiles};

/// Least memory for cells that is of any use.
const MEMORY_MIN_BYTES: u64 = 1 << 20;

/// Least bytes under way: in the part kept for operators, the greatest message finds room beside small calls.
const INFLIGHT_MIN_BYTES: u64 = 32 * wire_limits::MESSAGE_BYTES_MAX as u64;

/// The settings of a node, as in its TOML file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// The name in its certificate; one node of the cluster has it.
    pub name: String,
    /// Datacenter or location.
    #[serde(default = "default_site")]
    pub site: String,
    /// Where it listens for producers, nodes and operators: `ip:port`.
    pub listen: SocketAddr,
    /// Where others reach it: `host:port`. The listening address where it is left out.
    #[serde(default)]
    pub advertise: Option<String>,
    /// Where it serves health and metrics over HTTP/1: `ip:port`; nowhere where it is left out.
    #[serde(default)]
    pub http_listen: Option<SocketAddr>,
    /// What it serves there, and whom.
    #[serde(default, skip_serializing_if = "HttpSettings::is_default")]
    pub http: HttpSettings,
    /// The folder that the node keeps its identity, the cluster's agreement and the journal of its slices in.
    pub data_dir: PathBuf,
    /// Bytes of cells that it may be given.
    pub memory_max_bytes: u64,
    /// Certificates; without them, every peer that can connect may do anything.
    #[serde(default)]
    pub tls: Option<TlsSettings>,
    /// Where it is written down who did what.
    #[serde(default)]
    pub audit: Option<AuditSettings>,
    /// The door for Redis clients. `None` means that the node has none.
    #[serde(default)]
    pub redis: Option<DoorSettings>,
    /// The door for HTTP clients. `None` means that the node has none.
    #[serde(default)]
    pub http_api: Option<HttpDoorSettings>,
    /// Allows listening beyond this machine without certificates.
    #[serde(default)]
    pub insecure: bool,
    /// Threads that own slices; one a core where it is left out.
    #[serde(default)]
    pub owners: Option<usize>,
    /// Upper bounds of what a node holds.
    #[serde(default)]
    pub limits: Limits,
    /// How patient the members of the cluster are with each other; the same on all nodes.
    #[serde(default)]
    pub timing: Timing,
    /// For tests of overload: events a second that each owner thread takes at most, as if it were that slow.
    #[serde(default)]
    pub owner_rate_max_events_per_s: Option<u64>,
}

/// What a node serves over HTTP beside health and metrics, and whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// Serves them beyond this machine, to whoever can connect.
    pub open: bool,
    /// Names by which it is asked, beside its addresses and the name in `advertise`: a page of a stranger cannot have a
    /// browser ask by another one.
    pub hosts: Vec<String>,
    /// Serves the console there too, which names nodes, filters and what is wrong with them.
    pub console: bool,
}

impl HttpSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where it is written down who did what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditSettings {
    /// The file that lines are appended to.
    pub file: PathBuf,
}

/// Where the certificates are (PEM).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// The authority of the cluster.
    pub ca: PathBuf,
    /// The node's certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Certificates of the authority that are accepted no more.
    #[serde(default)]
    pub crl: Option<PathBuf>,
    /// Whether callers may come without a certificate. They have to show a token with each call.
    #[serde(default)]
    pub tokens: bool,
}

/// How patient the members of a cluster are with each other. The defaults are for nodes in one region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// Between two signs of life of the leader. Above the round trip between the farthest nodes.
    pub heartbeat_ms: u64,
    /// A silent leader is replaced after about twice this long.
    pub election_base_ms: u64,
    /// How much longer each node waits than the one before it, so that two do not stand for election at once.
    pub election_width_ms: u64,
    /// A node that another has not reached for so long is not waited for, and is down once more than half of the others
    /// report that.
    pub unreachable_after_ms: u64,
    /// How far the clocks of two nodes may differ.
    pub clock_skew_max_ms: u64,
    /// How long a node records without word from a majority of the cluster; the same on all nodes.
    pub lease_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        let RaftTiming { heartbeat_ms, election_base_ms, election_width_ms, .. } = RaftTiming::default();
        Self {
            heartbeat_ms,
            election_base_ms,
            election_width_ms,
            unreachable_after_ms: 1_000,
            clock_skew_max_ms: 1_000,
            lease_ms: 10_000,
        }
    }
}

impl Timing {
    pub(crate) fn raft(&self) -> RaftTiming {
        let Self { heartbeat_ms, election_base_ms, election_width_ms, .. } = *self;
        RaftTiming { heartbeat_ms, election_base_ms, election_width_ms, ..RaftTiming::default() }
    }

    /// All of them, which must be the same on all nodes of a cluster.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let settings = [
            ("timing.heartbeat_ms", self.heartbeat_ms),
            ("timing.election_base_ms", self.election_base_ms),
            ("timing.election_width_ms", self.election_width_ms),
            ("timing.unreachable_after_ms", self.unreachable_after_ms),
            ("timing.clock_skew_max_ms", self.clock_skew_max_ms),
            ("timing.lease_ms", self.lease_ms),
        ];
        settings.map(|(name, value)| Setting { name: name.to_owned(), value }).into()
    }

    fn check(&self) -> Result<(), ConfigError> {
        range("timing.heartbeat_ms", self.heartbeat_ms, 1, 60_000)?;
        range("timing.election_base_ms", self.election_base_ms, self.heartbeat_ms * 2, 600_000)?;
        range("timing.election_width_ms", self.election_width_ms, 1, 60_000)?;
        range("timing.unreachable_after_ms", self.unreachable_after_ms, 1, 3_600_000)?;
        range("timing.clock_skew_max_ms", self.clock_skew_max_ms, 0, 3_600_000)?;
        // The next leader must be found within this time.
        range("timing.lease_ms", self.lease_ms, self.election_base_ms, 3_600_000)
    }
}

impl TlsSettings {
    /// The same for connecting to others.
    pub fn files(&self) -> TlsFiles {
        TlsFiles { ca: self.ca.clone(), cert: self.cert.clone(), key: self.key.clone() }
    }

    /// The same for being connected to, as the node of this name.
    pub fn server_files(&self, node_name: &str) -> ServerFiles {
        ServerFiles {
            tls: self.files(),
            crl: self.crl.clone(),
            node_name: Some(node_name.to_owned()),
            tokens: self.tokens,
        }
    }
}

/// Upper bounds of what a node holds; beyond them, work is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Events that wait for one owner thread.
    pub queue_events_max: u64,
    /// How long an event may wait for its owner.
    pub queue_age_max_ms: u64,
    /// Batches of one stream that may be unanswered (the credit of a producer).
    pub inflight_batches_max: u32,
    /// Events of a batch.
    pub batch_events_max: u32,
    /// How long a batch may be in flight between nodes, whatever its producer asks.
    pub batch_deadline_max_ms: u32,
    /// Events of one divided group that may be in flight between nodes.
    pub inflight_events_max: u32,
    /// Bytes that the replay guards of all groups may take together.
    pub guard_bytes_max: u64,
    /// Bytes that the claims of all groups may take together, 75 at most for each event that is held.
    pub claims_bytes_max: u64,
    /// Events that each group of a tree's level may owe to its parent: the level has decided them by itself, and they
    /// have still to climb. These are in memory: the limit has nothing to do with the node's journal, whatever its name
    /// says.
    pub journal_events_max: u32,
    /// Connections that are open at the listening address, a quarter of them kept for nodes and a sixteenth for operators.
    /// With `handshakes_max` below the files that the process may have open (`ulimit -n`).
    pub connections_max: u32,
    /// Connections in their handshake beside those; without TLS, those that have made no call.
    pub handshakes_max: u32,
    /// Bytes of calls, messages and batches that are under way, a quarter of them kept for nodes, a
    /// sixteenth for their agreement, and as much for operators.
    pub inflight_bytes_max: u64,
    /// Producer streams.
    pub streams_max: u32,
    /// Streams on which the map is sent.
    pub watches_max: u32,
    /// Messages that wait for one peer.
    pub link_queue_max: u32,
    /// How long a node that is stopped waits for events in flight.
    pub drain_max_ms: u64,
    /// Slices of one filter that have series of their own in the metrics. Of a filter with more slices here, only sums
    /// and extremes are shown.
    pub metrics_slices_max: u32,
}

/// Of the 1,024 files that a process usually may have open, the number that is left when data, links to other nodes,
/// health and metrics have theirs.
const CONNECTIONS_MAX: u32 = 768;

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_events_max: 256 << 10,
            queue_age_max_ms: 1000,
            inflight_batches_max: wire_limits::INFLIGHT_BATCHES_MAX,
            batch_events_max: wire_limits::BATCH_EVENTS_MAX,
            batch_deadline_max_ms: 30_000,
            inflight_events_max: 64 << 10,
            guard_bytes_max: 512 << 20,
            claims_bytes_max: 128 << 20,
            journal_events_max: 64 << 10,
            connections_max: CONNECTIONS_MAX,
            handshakes_max: 64,
            inflight_bytes_max: 512 << 20,
            streams_max: 1024,
            watches_max: 1024,
            link_queue_max: 16 << 10,
            drain_max_ms: 10_000,
            metrics_slices_max: 256,
        }
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A name that is empty, too long, or not a name in DNS.
    #[error("{field} `{value}`: give 1 to 63 letters, digits and hyphens (it becomes part of a certificate's name)")]
    Name {
        /// The field.
        field: &'static str,
        /// What it says.
        value: String,
    },
    /// The settings of the door.
    #[error(transparent)]
    Redis(#[from] NotDoorSettings),
    /// The settings of the door for HTTP.
    #[error(transparent)]
    HttpApi(#[from] NotHttpDoorSettings),
    /// Two listeners, one address.
    #[error("listen and http_listen are both {0}: give them different ports")]
    SameAddress(SocketAddr),
    /// Others cannot connect to this.
    #[error("advertise: nobody can connect to `{0}`; give `advertise = \"host:port\"` as other nodes reach this one")]
    Advertise(String),
    /// Open to the network without certificates.
    #[error(
        "listen {address} is open to the network, but without `[tls]` anybody who connects may do anything; give \
         `[tls]` with ca, cert and key, listen on 127.0.0.1, or say `insecure = true` on a network you trust"
    )]
    Insecure {
        /// What it says.
        address: SocketAddr,
    },
    /// Health and metrics open to the network.
    #[error(
        "http_listen {address} is open to the network: whoever connects may read health and metrics, which hold no secrets; \
         say `open = true` in `[http]`, or listen on 127.0.0.1"
    )]
    OpenHttp {
        /// What it says.
        address: SocketAddr,
    },
    /// The console open to the network.
    #[error(
        "console in [http]: http_listen {address} is open to the network, and asks for no certificate: whoever connects would see \
         which nodes and filters there are, and what is wrong with them; listen on 127.0.0.1, or say `insecure = true` on a network \
         you trust"
    )]
    OpenConsole {
        /// What it says.
        address: SocketAddr,
    },
    /// A console that is nowhere.
    #[error(
        "console in [http]: the node serves no HTTP; give `http_listen = \"127.0.0.1:7401\"`, or leave `console` out"
    )]
    ConsoleNowhere,
    /// A number out of its range.
    #[error("{field} = {value}: give {min} to {max}")]
    Range {
        /// The field.
        field: &'static str,
        /// What it says.
        value: u64,
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
}

impl ConfigError {
    /// Returns the key of the setting that is wrong, with its sections, as `limits.streams_max`.
    pub fn key(&self) -> String {
        match self {
            Self::Name { field, .. } | Self::Range { field, .. } => (*field).to_owned(),
            Self::Redis(error) => format!("redis.{}", error.key()),
            Self::HttpApi(error) => format!("http_api.{}", error.key()),
            Self::SameAddress(_) | Self::Insecure { .. } => "listen".to_owned(),
            Self::Advertise(_) => "advertise".to_owned(),
            Self::OpenHttp { .. } => "http_listen".to_owned(),
            Self::OpenConsole { .. } | Self::ConsoleNowhere => "http.console".to_owned(),
        }
    }
}

impl NodeConfig {
    /// The settings of a node that has nothing but defaults.
    ///
    /// ```
    /// use firstseen_node::NodeConfig;
    /// let config = NodeConfig::new("a", "127.0.0.1:7400".parse().unwrap(), "/var/lib/firstseen");
    /// assert_eq!(config.check(), Ok(()));
    /// let open = NodeConfig { listen: "0.0.0.0:7400".parse().unwrap(), ..config };
    /// assert!(open.check().unwrap_err().to_string().starts_with("listen 0.0.0.0:7400 is open to the network"));
    /// ```
    pub fn new(name: &str, listen: SocketAddr, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            site: default_site(),
            listen,
            advertise: None,
            http_listen: None,
            redis: None,
            http_api: None,
            http: HttpSettings::default(),
            data_dir: data_dir.into(),
            memory_max_bytes: 1 << 30,
            tls: None,
            audit: None,
            insecure: false,
            owners: None,
            limits: Limits::default(),
            timing: Timing::default(),
            owner_rate_max_events_per_s: None,
        }
    }

    /// Whether a node can be started with it.
    ///
    /// # Errors
    /// [`ConfigError`]: the field, and what to write instead.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_name("name", &self.name)?;
        check_name("site", &self.site)?;
        self.check_listeners()?;
        let cores_max = 1024;
        range("memory_max_bytes", self.memory_max_bytes, MEMORY_MIN_BYTES, 1 << 50)?;
        range("owners", self.owners.unwrap_or(1) as u64, 1, cores_max)?;
        range("owner_rate_max_events_per_s", self.owner_rate_max_events_per_s.unwrap_or(1), 1, u64::MAX)?;
        self.timing.check()?;
        self.limits.check()
    }

    fn check_listeners(&self) -> Result<(), ConfigError> {
        let listeners = [("listen", Some(self.listen)), ("http_listen", self.http_listen)];
        for (field, address) in listeners {
            let Some(address) = address.filter(|address| !address.ip().is_loopback()) else { continue };
            // Health and metrics hold no secrets, but neither do they ask for a certificate.
            if field == "http_listen" && !self.insecure && !self.http.open {
                return Err(ConfigError::OpenHttp { address });
            }
            if field == "listen" && !self.insecure && self.tls.is_none() {
                return Err(ConfigError::Insecure { address });
            }
        }
        self.check_console()?;
        if self.http_listen == Some(self.listen) && self.listen.port() != 0 {
            return Err(ConfigError::SameAddress(self.listen));
        }
        if let Some(redis) = &self.redis {
            let others = [Some(self.listen), self.http_listen];
            redis.check(&others.map(|address| address.unwrap_or(self.listen)), self.tls.is_some(), self.insecure)?;
        }
        if let Some(http_api) = &self.http_api {
            let redis = self.redis.as_ref().map(|redis| redis.listen);
            let others: Vec<SocketAddr> = [Some(self.listen), self.http_listen, redis].into_iter().flatten().collect();
            http_api.check(&others, self.tls.is_some(), self.insecure)?;
        }
        match &self.advertise {
            Some(advertise) => check_address(advertise),
            None if self.listen.ip().is_unspecified() => Err(ConfigError::Advertise(self.listen.to_string())),
            None => Ok(()),
        }
    }

    /// Health and metrics may be open to the network alone; the console may not, as it says more.
    fn check_console(&self) -> Result<(), ConfigError> {
        match self.http_listen {
            _ if !self.http.console => Ok(()),
            None => Err(ConfigError::ConsoleNowhere),
            Some(address) if !address.ip().is_loopback() && !self.insecure => Err(ConfigError::OpenConsole { address }),
            Some(_) => Ok(()),
        }
    }

    /// Threads that own slices.
    pub fn owner_threads(&self) -> usize {
        self.owners.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Limits {
    fn check(&self) -> Result<(), ConfigError> {
        let batch_events = u64::from(self.batch_events_max);
        range("limits.batch_events_max", batch_events, 1, u64::from(wire_limits::BATCH_EVENTS_MAX))?;
        range("limits.queue_events_max", self.queue_events_max, batch_events, 1 << 32)?;
        range("limits.queue_age_max_ms", self.queue_age_max_ms, 1, 3_600_000)?;
        let credits = u64::from(self.inflight_batches_max);
        range("limits.inflight_batches_max", credits, 1, u64::from(wire_limits::INFLIGHT_BATCHES_MAX))?;
        range("limits.batch_deadline_max_ms", u64::from(self.batch_deadline_max_ms), 1, 3_600_000)?;
        range("limits.inflight_events_max", u64::from(self.inflight_events_max), batch_events, 1 << 24)?;
        range("limits.guard_bytes_max", self.guard_bytes_max, 1 << 16, 1 << 40)?;
        range("limits.claims_bytes_max", self.claims_bytes_max, 1 << 16, 1 << 40)?;
        range("limits.journal_events_max", u64::from(self.journal_events_max), 0, 1 << 24)?;
        range("limits.connections_max", u64::from(self.connections_max), 1, 1 << 20)?;
        range("limits.handshakes_max", u64::from(self.handshakes_max), 1, 1 << 20)?;
        range("limits.inflight_bytes_max", self.inflight_bytes_max, INFLIGHT_MIN_BYTES, 1 << 40)?;
        range("limits.metrics_slices_max", u64::from(self.metrics_slices_max), 0, 1 << 20)?;
        range("limits.streams_max", u64::from(self.streams_max), 1, 1 << 20)?;
        range("limits.watches_max", u64::from(self.watches_max), 1, 1 << 20)?;
        range("limits.link_queue_max", u64::from(self.link_queue_max), 16, 1 << 20)?;
        range("limits.drain_max_ms", self.drain_max_ms, 0, 3_600_000)
    }
}

fn default_site() -> String {
    "default".to_owned()
}

fn range(field: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(ConfigError::Range { field, value, min, max }) }
}

fn check_name(field: &'static str, value: &str) -> Result<(), ConfigError> {
    let letters = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if letters && (1..=63).contains(&value.len()) {
        Ok(())
    } else {
        Err(ConfigError::Name { field, value: value.to_owned() })
    }
}

fn check_address(address: &str) -> Result<(), ConfigError> {
    let (host, port) = address.rsplit_once(':').unwrap_or_default();
    let is_anywhere = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
    let is_host = !host.is_empty() && !host.contains(['/', ' ']) && !is_anywhere;
    if is_host && port.parse::<u16>().is_ok_and(|port| port != 0) {
        Ok(())
    } else {
        Err(ConfigError::Advertise(address.to_owned()))
    }
}

#[cfg(test)]
mod tests;
