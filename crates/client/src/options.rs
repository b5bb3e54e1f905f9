//! Options of a client, with their units, and the parts that tests and simulations replace.
//!
//! While a client runs, every limit in its options is at least 1.

use std::path::PathBuf;
use std::sync::Arc;

use firstseen_routing::rules::Rules;
use firstseen_wire::limits::BATCH_EVENTS_MAX;
use firstseen_wire::net::{Connector, TcpConnector};
use firstseen_wire::tls::{ClientTls, TlsFiles};
use firstseen_wire::token::Token;

use crate::cluster_time::WallClock;
use crate::error::ConnectError;
use crate::retry::OVERLOAD_RETRIES_MAX;
use crate::trace::CurrentTrace;

/// Options of a [`Client`](crate::Client). A list of seed nodes converts to options in which everything else has its
/// default.
///
/// ```
/// use firstseen_client::{Client, ConnectOptions};
/// # firstseen_fake::run(async |seed| {
/// let options = ConnectOptions { deadline_ms: 2_000, ..ConnectOptions::from([seed]) };
/// let client = Client::connect(options).await?;
/// # Ok(())
/// # });
/// ```
#[derive(Clone)]
pub struct ConnectOptions {
    /// Seed nodes that the client connects to first, as `host:port`. The client needs an answer from only one of them,
    /// and learns the other nodes from the cluster map.
    pub seeds: Vec<String>,
    /// Certificate, private key and certificate authority for TLS. If neither this option nor [`Self::tls_ca`] is set,
    /// the client does not encrypt its connections, and nodes that require TLS refuse them.
    pub tls: Option<TlsFiles>,
    /// Certificate of the authority that signed the nodes' certificates. It is meant for a client that has no
    /// certificate of its own and authenticates with a [`Self::token`]. If [`Self::tls`] is set, this option has no
    /// effect.
    pub tls_ca: Option<PathBuf>,
    /// Token that authenticates each call, as printed by `firstseen access token new`. On a connection without TLS, the
    /// client sends the token only to nodes on the same machine.
    pub token: Option<Token>,
    /// Site of this producer. In filters that form a tree, events go to the leaf with this name. Without a site they go
    /// to the root.
    pub site: Option<String>,
    /// Time after which an event without an answer becomes `Undecided`, in milliseconds (default 5,000). Until this
    /// deadline, the client retries batches that fail. If the reason of an undecided event is
    /// [`Reason::Unknown`](crate::Reason::Unknown), a node may nevertheless have recorded the event.
    pub deadline_ms: u64,
    /// Maximum number of events that are queued or in flight in this client (default 262,144). When the limit is
    /// reached, calls wait.
    pub queued_events_max: u32,
    /// Maximum number of batches of one filter that one node may leave unanswered (default 16). A node can impose a
    /// lower limit.
    pub inflight_batches_max: u32,
    /// Number of batches in flight at which the client stops sending small batches (default 2). When a filter has this
    /// number of unanswered batches at a node, the node is busy. The client then collects further events until they
    /// fill a batch, because a busy node processes full batches more efficiently.
    pub gathering_batches_max: u32,
    /// Maximum number of events in a batch (default 2,048). A node can impose a lower limit.
    pub batch_events_max: u32,
    /// Time for which a node must be unreachable before the client asks another node to relay its batches, in
    /// milliseconds (default 500).
    pub relay_after_ms: u64,
    /// Maximum number of retries of a batch that a node has refused because of overload (default 2). The client waits
    /// 20 ms before the first retry, 160 ms before the second, and 1.3 s before each further retry. Every retry adds
    /// load, so raise this limit only for producers that can wait.
    pub overload_retries_max: u32,
    /// Share of keys that the client audits (default 0, which disables the audit). The client compares the verdicts on
    /// these keys with an exact list of the keys that it has sent. [`Filter::audit`](crate::Filter::audit) returns the
    /// result. A share of `1.0 / 1024.0` has no measurable cost.
    pub audit_rate: f64,
    /// Maximum number of keys that the audit of one filter remembers (default 262,144, about 20 MB). When more keys
    /// arrive, the audit ends, and its report says so.
    pub audit_keys_max: usize,
    /// Memory, in bytes, in which this client remembers first-seen events of each filter (default 0, which disables the
    /// memory). If a program submits a remembered event again, the client answers `Duplicate` itself and does not ask a
    /// node. The client always asks a node about events with an idempotency key from the caller.
    pub local_bytes_max: usize,
    /// Function that returns the trace context of a call, so that the nodes' spans appear in the caller's trace. The
    /// client calls the function once for each call, on the calling task or thread, so the function must not block. If
    /// a batch combines events of several calls, it carries the first trace context that is available. Without this
    /// option, no trace context is sent.
    pub traceparent: Option<CurrentTrace>,
    /// Function from which the client gets the time of day, in milliseconds since 1970 (default: the clock of the
    /// machine). If a node reports a later time, the client uses the node's time instead.
    pub wall_clock: Option<WallClock>,
    /// Incarnation number of this producer (default: 16 random bytes). Each run of a program must use a different
    /// number, because nodes use it to tell runs apart. The number also seeds the random waiting times between retries.
    pub incarnation: Option<u128>,
    /// Connector that opens connections in place of TCP. The connector is then also responsible for TLS, and
    /// [`Self::tls`] has no effect.
    pub connector: Option<Arc<dyn Connector>>,
    /// Protocol rules that the client follows. All rules are on by default. Simulations switch single rules off to show
    /// what then goes wrong.
    #[doc(hidden)]
    pub rules: Rules,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            seeds: Vec::new(),
            tls: None,
            tls_ca: None,
            token: None,
            site: None,
            deadline_ms: 5_000,
            queued_events_max: 1 << 18,
            inflight_batches_max: 16,
            gathering_batches_max: 2,
            batch_events_max: 2048,
            relay_after_ms: 500,
            overload_retries_max: OVERLOAD_RETRIES_MAX,
            audit_rate: 0.0,
            audit_keys_max: 1 << 18,
            local_bytes_max: 0,
            traceparent: None,
            wall_clock: None,
            incarnation: None,
            connector: None,
            rules: Rules::default(),
        }
    }
}

impl<I> From<I> for ConnectOptions
where
    I: IntoIterator,
    I::Item: Into<String>,
{
    fn from(seeds: I) -> Self {
        Self { seeds: seeds.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

impl ConnectOptions {
    /// Checks that each limit is at least 1, and lowers limits that are greater than useful.
    pub(crate) fn checked(self) -> Result<Self, ConnectError> {
        let limits = [
            ("deadline_ms", self.deadline_ms),
            ("queued_events_max", self.queued_events_max.into()),
            ("inflight_batches_max", self.inflight_batches_max.into()),
            ("gathering_batches_max", self.gathering_batches_max.into()),
            ("batch_events_max", self.batch_events_max.into()),
        ];
        if let Some((name, _)) = limits.iter().find(|(_, limit)| *limit == 0) {
            return Err(ConnectError::Limit(name));
        }
        if self.seeds.is_empty() {
            return Err(ConnectError::NoSeed);
        }
        Ok(Self {
            batch_events_max: self.batch_events_max.min(BATCH_EVENTS_MAX),
            audit_rate: self.audit_rate.clamp(0.0, 1.0),
            ..self
        })
    }

    pub(crate) fn connector(&self) -> Result<Arc<dyn Connector>, ConnectError> {
        if let Some(connector) = &self.connector {
            return Ok(connector.clone());
        }
        let tls = match (&self.tls, &self.tls_ca) {
            (Some(files), _) => Some(files.client()?),
            (None, Some(ca)) => Some(ClientTls::trusting(ca)?),
            (None, None) => None,
        };
        Ok(Arc::new(TcpConnector { tls, token: self.token.clone() }))
    }

    pub(crate) fn incarnation(&self) -> Result<u128, ConnectError> {
        if let Some(incarnation) = self.incarnation {
            return Ok(incarnation);
        }
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(ConnectError::Random)?;
        Ok(u128::from_le_bytes(bytes))
    }
}
