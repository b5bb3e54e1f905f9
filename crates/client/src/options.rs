//! The options of a client: limits with their units, and the edges that tests and simulations replace.
//!
//! Promises: every limit is at least 1 when a client runs. Must not know: what limits are used for.

use std::path::PathBuf;
use std::sync::Arc;

use firstseen_routing::rules::Rules;
use firstseen_wire::limits::BATCH_EVENTS_MAX;
use firstseen_wire::net::{Connector, TcpConnector};
use firstseen_wire::tls::{ClientTls, TlsFiles};
use firstseen_wire::token::Token;

use crate::error::ConnectError;
use crate::present::WallClock;
use crate::retry::OVERLOAD_RETRIES_MAX;
use crate::trace::CurrentTrace;

/// Options of a [`Client`](crate::Client). A list of nodes is options too, with all others as by default.
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
    /// Nodes to start from, as `host:port`; one that answers is enough.
    pub seeds: Vec<String>,
    /// Certificates; without them connections are plain, and nodes that demand them refuse.
    pub tls: Option<TlsFiles>,
    /// The certificate of the authority that has signed the nodes' certificates, for a client that has none of its own and
    /// shows a [`Self::token`] instead. [`Self::tls`] comes before it.
    pub tls_ca: Option<PathBuf>,
    /// The token that each call shows, as `firstseen access token new` has printed it. Without TLS it is sent to this machine
    /// only.
    pub token: Option<Token>,
    /// The site of this producer: for filters in a tree, events go to the leaf of this name. Without a site they go to the
    /// root.
    pub site: Option<String>,
    /// Milliseconds after which an answer that has not come is `Undecided` (5,000). Until then a batch is tried again;
    /// [`Reason::Unknown`](crate::Reason::Unknown) says that the event may have been recorded.
    pub deadline_ms: u64,
    /// Events that may wait in this client, sent or not (262,144); beyond that, calls wait.
    pub queued_events_max: u32,
    /// Batches of one filter that may be unanswered by one node (16). A node may allow less.
    pub inflight_batches_max: u32,
    /// While this many batches of a filter are unanswered by a node, events for it gather until they fill a batch (2).
    pub gathering_batches_max: u32,
    /// Events of a batch (2,048). A node may allow less.
    pub batch_events_max: u32,
    /// Milliseconds for which a node may be unreachable before another one is asked to relay (500).
    pub relay_after_ms: u64,
    /// How often a batch is sent again that a node has refused for overload; 2 by default, after 20 and 160 ms, then
    /// after 1.3 s each. Allow more only for producers that can wait, as every try is load.
    pub overload_retries_max: u32,
    /// The share of keys whose verdicts are checked against an exact memory of this producer (none);
    /// [`Filter::audit`](crate::Filter::audit). `1.0 / 1024.0` costs nothing that can be measured.
    pub audit_rate: f64,
    /// Keys that the audit of one filter may remember (262,144, about 20 MB); when there are more it ends, and says so.
    pub audit_keys_max: usize,
    /// Bytes for each filter in which this client remembers events with the verdict first-seen, and answers their duplicates
    /// without asking a node: the client's own level of a tree. Submissions that are named by the caller are always asked
    /// about. 0, as by default, remembers nothing.
    pub local_bytes_max: usize,
    /// Gives the trace context of a call, which goes on in the spans of the nodes that the call's events touch. The function is
    /// asked once a call, in the task or thread that calls, and must not wait. A batch with events of several calls has the
    /// context of the first that has one. Without this option no context is sent.
    pub traceparent: Option<CurrentTrace>,
    /// Gives the time of day, in milliseconds since 1970; without this option it is the machine's. Where nodes send a later
    /// one, theirs counts.
    pub wall_clock: Option<WallClock>,
    /// The incarnation of this producer, instead of 16 random bytes: no two runs may share one. Waiting times between tries
    /// follow from it too.
    pub incarnation: Option<u128>,
    /// Opens connections, instead of TCP; then [`Self::tls`] is left to the connector.
    pub connector: Option<Arc<dyn Connector>>,
    /// The rules that the client keeps: all of them, but where a simulation shows what goes wrong without one.
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
    /// Checks the limits, and cuts those that are greater than can be of use.
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
