//! The configuration of a node, as its operator writes it.
//!
//! # Guarantees
//! - A node can be started with every configuration that [`NodeConfig::check`] accepts.
//! - If `check` rejects a configuration, the error names the setting and says which values are allowed.
//!
//! This module does not read files. The command line reads the file and passes the settings.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use firstseen_http_endpoint::{HttpEndpointSettings, InvalidHttpSettings};
use firstseen_meta::RaftTiming;
use firstseen_redis_endpoint::{InvalidRedisSettings, RedisEndpointSettings};
use firstseen_wire::limits as wire_limits;
use firstseen_wire::proto::admin::Setting;
use firstseen_wire::tls::{ServerFiles, TlsFiles};

/// Minimum cell memory that a node can be configured with, in bytes.
const MEMORY_MIN_BYTES: u64 = 1 << 20;

/// Minimum value of the setting `inflight_bytes_max`, which limits the memory for calls in flight. A sixteenth of that
/// memory is reserved for operators. At the minimum, this sixteenth has room for one message of the maximum size and
/// for a few small calls, so operators can always administer the node.
const INFLIGHT_MIN_BYTES: u64 = 32 * wire_limits::MESSAGE_BYTES_MAX as u64;

/// The settings of a node. The fields have the names of the settings in the node's TOML file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Name of the node, as in its certificate. No two nodes of a cluster have the same name.
    pub name: String,
    /// Datacenter or location of the node.
    #[serde(default = "default_site")]
    pub site: String,
    /// Address on which the node listens for producers, other nodes and operators, as `ip:port`.
    pub listen: SocketAddr,
    /// Address under which other nodes and clients can connect to this node, as `host:port`. Set it if they cannot use
    /// the address that the node listens on, for example behind a port mapping. If this setting is left out, the node
    /// advertises the address that it listens on.
    #[serde(default)]
    pub advertise: Option<String>,
    /// Address on which the node serves health checks and metrics over HTTP/1, as `ip:port`. If this setting is left
    /// out, the node serves neither health checks nor metrics.
    #[serde(default)]
    pub http_listen: Option<SocketAddr>,
    /// What the node serves on `http_listen`, and to which clients.
    #[serde(default, skip_serializing_if = "HttpSettings::is_default")]
    pub http: HttpSettings,
    /// Data folder of the node. It holds the identity of the node, the consensus log with the cluster map, and the
    /// journal of the slices on this node.
    pub data_dir: PathBuf,
    /// Maximum memory for the cells of all slices on this node, in bytes.
    pub memory_max_bytes: u64,
    /// Certificates of the node. Without certificates, every client that can connect to the node has all rights.
    #[serde(default)]
    pub tls: Option<TlsSettings>,
    /// Audit file, which records which principal made which change.
    #[serde(default)]
    pub audit: Option<AuditSettings>,
    /// Settings of the Redis endpoint. `None` means that the node does not serve Redis clients.
    #[serde(default)]
    pub redis: Option<RedisEndpointSettings>,
    /// Settings of the HTTP endpoint. `None` means that the node does not serve HTTP clients.
    #[serde(default)]
    pub http_api: Option<HttpEndpointSettings>,
    /// Allows the node to listen on addresses other than loopback without certificates.
    #[serde(default)]
    pub insecure: bool,
    /// Number of threads that own slices. If this setting is left out, the node starts one thread for each core.
    #[serde(default)]
    pub owners: Option<usize>,
    /// Upper bounds on the resources that a node uses.
    #[serde(default)]
    pub limits: Limits,
    /// Timeouts between the members of a cluster. All nodes of a cluster must have the same values.
    #[serde(default)]
    pub timing: Timing,
    /// Maximum number of events per second that each owner thread processes. This setting exists only for tests: it
    /// makes a node artificially slow, so that a test can overload the node with few events.
    #[serde(default)]
    pub owner_rate_max_events_per_s: Option<u64>,
}

/// What a node serves over HTTP in addition to health checks and metrics, and to which clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// Serves health checks and metrics on addresses other than loopback. Every client that can connect may then read
    /// them.
    pub open: bool,
    /// Host names that the node accepts in the `Host` header of an HTTP request, in addition to its own addresses and
    /// the name in `advertise`. Requests with any other host name are rejected. This check stops DNS rebinding, an
    /// attack in which a malicious web page makes a visitor's browser read data from the node under a host name that
    /// belongs to the page.
    pub hosts: Vec<String>,
    /// Also serves the web console. The console shows the names of nodes and filters, and all active alarms.
    pub console: bool,
}

impl HttpSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Settings of the audit file, which records which principal made which change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditSettings {
    /// Path of the audit file. The node appends one line for each audited action.
    pub file: PathBuf,
}

/// Paths of the certificates and of the private key, all in PEM format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// Certificate of the cluster's certificate authority.
    pub ca: PathBuf,
    /// Certificate of this node.
    pub cert: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Revocation list of the certificate authority. The node rejects the certificates that this list names.
    #[serde(default)]
    pub crl: Option<PathBuf>,
    /// Whether clients may connect without a certificate. A client without a certificate must send a token with each
    /// call.
    #[serde(default)]
    pub tokens: bool,
}

/// Timeouts between the members of a cluster. The defaults suit nodes in one region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timing {
    /// Interval between two heartbeats that the leader of the consensus group sends, in milliseconds. It must be longer
    /// than the round trip between the two nodes that are farthest apart. Otherwise the leader would send the next
    /// heartbeat before the reply to the previous one can arrive.
    pub heartbeat_ms: u64,
    /// Base of the election timeout, in milliseconds. A leader that stays silent is replaced after about twice this
    /// time.
    pub election_base_ms: u64,
    /// Difference between the election timeouts of two nodes with consecutive slot numbers, in milliseconds. Because
    /// the timeouts differ, two nodes rarely become candidates at the same time and split the votes.
    pub election_width_ms: u64,
    /// Time after which this node counts another node as unreachable, in milliseconds. If this node has not reached the
    /// other node for this time, operations no longer wait for that node. The cluster map marks a node as down when
    /// more than half of the other nodes report it as unreachable.
    pub unreachable_after_ms: u64,
    /// Maximum difference between the clocks of two nodes, in milliseconds.
    pub clock_skew_max_ms: u64,
    /// Duration of a node's lease, in milliseconds. The lease is the node's permission to record events, and a majority
    /// of the cluster must renew it repeatedly. If it is not renewed for this time, the node stops recording events.
    /// All nodes of a cluster must have the same value.
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

    /// Returns all timing settings with their names. The cluster compares them, because they must be the same on all
    /// nodes.
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
        // The cluster must be able to elect a new leader before leases end.
        range("timing.lease_ms", self.lease_ms, self.election_base_ms, 3_600_000)
    }
}

impl TlsSettings {
    /// Returns the files that the node uses when it connects to other nodes.
    pub fn files(&self) -> TlsFiles {
        TlsFiles { ca: self.ca.clone(), cert: self.cert.clone(), key: self.key.clone() }
    }

    /// Returns the files that the node uses when it accepts connections. `node_name` is the name that its certificate
    /// must have.
    pub fn server_files(&self, node_name: &str) -> ServerFiles {
        ServerFiles {
            tls: self.files(),
            crl: self.crl.clone(),
            node_name: Some(node_name.to_owned()),
            tokens: self.tokens,
        }
    }
}

/// Upper bounds on the resources that a node uses. The node rejects work that would exceed a bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Maximum number of events that wait for one owner thread.
    pub queue_events_max: u64,
    /// Maximum time that an event waits for its owner thread, in milliseconds.
    pub queue_age_max_ms: u64,
    /// Maximum number of unanswered batches on one producer stream. This number is the credit that a producer receives.
    pub inflight_batches_max: u32,
    /// Maximum number of events in a batch.
    pub batch_events_max: u32,
    /// Maximum time that a batch may spend in flight between nodes, in milliseconds. If a producer asks for a longer
    /// deadline, this limit applies.
    pub batch_deadline_max_ms: u32,
    /// Maximum number of events of one slice group that may be in flight between nodes at the same time. This limit
    /// applies only to vertically sliced filters, in which several slices decide an event together and must exchange
    /// messages about it.
    pub inflight_events_max: u32,
    /// Maximum memory for the replay guards of all slice groups on this node together, in bytes. A replay guard stores
    /// the replies to recent batches. If a producer sends one of these batches again, the guard returns the stored
    /// reply instead of deciding the events twice.
    pub guard_bytes_max: u64,
    /// Maximum memory of the claims of all slice groups together, in bytes. Each claimed event takes at most 75 bytes.
    pub claims_bytes_max: u64,
    /// Maximum number of events that each slice group of a tree level may hold for its parent level. The level has
    /// decided these events without the parent, and must still send them to the parent. The events are kept in memory,
    /// and also in the journal if the filter has one. Release 0.1 called this setting `journal_events_max`.
    #[serde(alias = "journal_events_max")]
    pub owed_events_max: u32,
    /// Maximum number of open connections on the listening address. A quarter of these connections is reserved for
    /// nodes, and a sixteenth for operators. The sum of this setting and `handshakes_max` must be smaller than the
    /// number of files that the operating system lets the process open (`ulimit -n`).
    pub connections_max: u32,
    /// Maximum number of connections whose TLS handshake is not complete yet. These connections are allowed in addition
    /// to `connections_max`, so that clients that never finish a handshake cannot take the place of working clients.
    /// If the node does not use TLS, this limit applies to connections that have not made a call yet.
    pub handshakes_max: u32,
    /// Maximum memory for all calls, messages and batches in flight on this node, in bytes. A quarter of this memory is
    /// reserved for links between nodes, a sixteenth for the consensus group, and a sixteenth for operators.
    pub inflight_bytes_max: u64,
    /// Maximum number of producer streams.
    pub streams_max: u32,
    /// Maximum number of streams on which clients receive the cluster map.
    pub watches_max: u32,
    /// Maximum number of messages that wait for one other node.
    pub link_queue_max: u32,
    /// Maximum time that a stopping node waits for events in flight, in milliseconds.
    pub drain_max_ms: u64,
    /// Maximum number of slices of one filter that have their own metric series. If this node has more slices of a
    /// filter than that, the metrics show only sums, means and extremes over these slices, so that the number of series
    /// stays bounded.
    pub metrics_slices_max: u32,
}

/// Default for `connections_max`. Many systems let a process open 1,024 files. The node needs some of them for data,
/// for links to other nodes, and for health checks and metrics, and this default leaves enough files for these
/// purposes.
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
            owed_events_max: 64 << 10,
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

/// Reason why a configuration is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A name is empty, too long, or not a valid DNS name.
    #[error("{field} `{value}`: give 1 to 63 letters, digits and hyphens (it becomes part of a certificate's name)")]
    Name {
        /// The setting.
        field: &'static str,
        /// The rejected value.
        value: String,
    },
    /// The settings of the Redis endpoint are invalid.
    #[error(transparent)]
    Redis(#[from] InvalidRedisSettings),
    /// The settings of the HTTP endpoint are invalid.
    #[error(transparent)]
    HttpApi(#[from] InvalidHttpSettings),
    /// Two listeners have the same address.
    #[error("listen and http_listen are both {0}: give them different ports")]
    SameAddress(SocketAddr),
    /// Other nodes cannot connect to the advertised address.
    #[error("advertise: nobody can connect to `{0}`; give `advertise = \"host:port\"` as other nodes reach this one")]
    Advertise(String),
    /// The node would listen on the network without certificates.
    #[error(
        "listen {address} is open to the network, but without `[tls]` every client that connects has all rights; give \
         `[tls]` with ca, cert and key, listen on 127.0.0.1, or set `insecure = true` on a network you trust"
    )]
    Insecure {
        /// The rejected address.
        address: SocketAddr,
    },
    /// Health checks and metrics would be readable from the network without an explicit permission in the
    /// configuration.
    #[error(
        "http_listen {address} is open to the network: every client that connects may read health and metrics, which \
         contain no secrets; set `open = true` in `[http]`, or listen on 127.0.0.1"
    )]
    OpenHttp {
        /// The rejected address.
        address: SocketAddr,
    },
    /// The console would be readable from the network.
    #[error(
        "console in [http]: http_listen {address} is open to the network without certificates, so every client that \
         connects could see all nodes, filters and alarms; listen on 127.0.0.1, or set `insecure = true` on a network \
         you trust"
    )]
    OpenConsole {
        /// The rejected address.
        address: SocketAddr,
    },
    /// The console is enabled, but the node does not serve HTTP.
    #[error(
        "console in [http]: the node does not serve HTTP; give `http_listen = \"127.0.0.1:7401\"`, or remove `console`"
    )]
    ConsoleNowhere,
    /// A number is outside of its allowed range.
    #[error("{field} = {value}: give {min} to {max}")]
    Range {
        /// The setting.
        field: &'static str,
        /// The rejected value.
        value: u64,
        /// The smallest allowed value.
        min: u64,
        /// The largest allowed value.
        max: u64,
    },
}

impl ConfigError {
    /// Returns the key of the setting that is wrong, including its sections. An example is `limits.streams_max`.
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
    /// Creates the settings of a node with all optional settings at their defaults.
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

    /// Checks whether a node can be started with these settings.
    ///
    /// # Errors
    /// [`ConfigError`] names the first setting that is wrong and says which values are allowed.
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
            // Health checks and metrics contain no secrets, but every client can read them without a certificate. The
            // operator must therefore allow that explicitly.
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

    /// Checks the settings of the web console. The setting `open` allows the node to show health checks and metrics to
    /// the network. The console reveals more than that, so it may listen on a public address only if `insecure` is set.
    fn check_console(&self) -> Result<(), ConfigError> {
        match self.http_listen {
            _ if !self.http.console => Ok(()),
            None => Err(ConfigError::ConsoleNowhere),
            Some(address) if !address.ip().is_loopback() && !self.insecure => Err(ConfigError::OpenConsole { address }),
            Some(_) => Ok(()),
        }
    }

    /// Returns the number of threads that own slices.
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
        range("limits.owed_events_max", u64::from(self.owed_events_max), 0, 1 << 24)?;
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
