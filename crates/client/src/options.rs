//! The options of a client: limits with their units, and the edges that tests and simulations replace.
//!
//! Promises: every limit is at least 1 when a client runs. Must not know: what limits are used for.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use firstseen_routing::rules::Rules;
use firstseen_wire::limits::BATCH_EVENTS_MAX;
use firstseen_wire::net::{Connector, TcpConnector};
use firstseen_wire::tls::{ClientTls, TlsFiles};
use firstseen_wire::token::Token;

use crate::client::Client;
use crate::error::ConnectError;
use crate::present::WallClock;
use crate::retry::OVERLOAD_RETRIES_MAX;
use crate::trace::{CurrentTrace, TraceParent};

/// Limits of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    pub(crate) deadline_ms: u64,
    pub(crate) queued_events_max: u32,
    pub(crate) inflight_batches_max: u32,
    pub(crate) gathering_batches_max: u32,
    pub(crate) batch_events_max: u32,
    pub(crate) relay_after_ms: u64,
    pub(crate) audit_rate: f64,
    pub(crate) audit_keys_max: usize,
    pub(crate) local_bytes_max: usize,
    pub(crate) overload_retries_max: u32,
    pub(crate) rules: Rules,
    /// Callers wait for slices that are down, but only once in each outage.
    pub(crate) waits_for_slices: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            deadline_ms: 5_000,
            queued_events_max: 1 << 18,
            inflight_batches_max: 16,
            gathering_batches_max: 2,
            batch_events_max: 2048,
            relay_after_ms: 500,
            audit_rate: 0.0,
            audit_keys_max: 1 << 18,
            local_bytes_max: 0,
            overload_retries_max: OVERLOAD_RETRIES_MAX,
            rules: Rules::default(),
            waits_for_slices: true,
        }
    }
}

/// Puts a client together; [`Client::builder`].
pub struct Builder {
    pub(crate) seeds: Vec<String>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) tls_ca: Option<PathBuf>,
    pub(crate) token: Option<Token>,
    pub(crate) connector: Option<Arc<dyn Connector>>,
    pub(crate) incarnation: Option<u128>,
    pub(crate) current_trace: Option<CurrentTrace>,
    pub(crate) site: Option<String>,
    pub(crate) wall_clock: Option<WallClock>,
    pub(crate) limits: Limits,
}

impl Builder {
    pub(crate) fn new() -> Self {
        let limits = Limits::default();
        Self {
            seeds: Vec::new(),
            tls: None,
            tls_ca: None,
            token: None,
            connector: None,
            incarnation: None,
            current_trace: None,
            site: None,
            wall_clock: None,
            limits,
        }
    }

    /// Nodes to start from, as `host:port`; one that answers is enough.
    #[must_use]
    pub fn seeds<S: Into<String>>(mut self, seeds: impl IntoIterator<Item = S>) -> Self {
        self.seeds.extend(seeds.into_iter().map(Into::into));
        self
    }

    /// Certificates; without them connections are plain, and nodes that demand them refuse.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// The certificate of the authority that has signed the nodes' certificates, for a client that has none of its own and
    /// shows a token instead: [`Self::token`]. [`Self::tls`] comes before it.
    #[must_use]
    pub fn tls_ca(mut self, ca: impl Into<PathBuf>) -> Self {
        self.tls_ca = Some(ca.into());
        self
    }

    /// The token that each call shows, as `firstseen access token new` has printed it. Without TLS it is sent to this machine
    /// only.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// Milliseconds after which an answer that has not come is `Undecided` (5,000). Until then a batch is tried again;
    /// [`firstseen_routing::Reason::Unknown`] says that the event may have been recorded.
    #[must_use]
    pub fn deadline_ms(mut self, deadline_ms: u64) -> Self {
        self.limits.deadline_ms = deadline_ms;
        self
    }

    /// Events that may wait in this client, sent or not (262,144); beyond that, calls wait.
    #[must_use]
    pub fn queued_events_max(mut self, events: u32) -> Self {
        self.limits.queued_events_max = events;
        self
    }

    /// Batches of one filter that may be unanswered by one node (16). A node may allow less.
    #[must_use]
    pub fn inflight_batches_max(mut self, batches: u32) -> Self {
        self.limits.inflight_batches_max = batches;
        self
    }

    /// While so many batches of a filter are unanswered by a node, events for it gather until they fill a batch (2).
    #[must_use]
    pub fn gathering_batches_max(mut self, batches: u32) -> Self {
        self.limits.gathering_batches_max = batches;
        self
    }

    /// Events of a batch (2,048). A node may allow less.
    #[must_use]
    pub fn batch_events_max(mut self, events: u32) -> Self {
        self.limits.batch_events_max = events.min(BATCH_EVENTS_MAX);
        self
    }

    /// Milliseconds for which a node may be unreachable before another one is asked to relay (500).
    #[must_use]
    pub fn relay_after_ms(mut self, relay_after_ms: u64) -> Self {
        self.limits.relay_after_ms = relay_after_ms;
        self
    }

    /// The share of keys whose verdicts are checked against an exact memory of this producer (none);
    /// [`crate::Filter::audit`]. `1.0 / 1024.0` costs nothing that can be measured.
    #[must_use]
    pub fn audit(mut self, rate: f64) -> Self {
        self.limits.audit_rate = rate.clamp(0.0, 1.0);
        self
    }

    /// Keys that the audit of one filter may remember (262,144, about 20 MB); when there are more it ends, and says so.
    #[must_use]
    pub fn audit_keys_max(mut self, keys: usize) -> Self {
        self.limits.audit_keys_max = keys;
        self
    }

    /// Opens connections, instead of TCP; then [`Self::tls`] is left to the connector.
    #[must_use]
    pub fn connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.connector = Some(connector);
        self
    }

    /// Gives the trace context of a call, which goes on in the spans of the nodes that the call's events touch. The
    /// function is asked once a call, in the task or thread that calls, and must not wait. A batch with events of
    /// several calls has the context of the first that has one. Without this option no context is sent.
    #[must_use]
    pub fn traceparent(mut self, current: impl Fn() -> Option<TraceParent> + Send + Sync + 'static) -> Self {
        self.current_trace = Some(Arc::new(current));
        self
    }

    /// Gives the time of day, in milliseconds since 1970; without this option it is the machine's. Where nodes send a
    /// later one, theirs counts.
    #[must_use]
    pub fn wall_clock(mut self, wall_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.wall_clock = Some(Arc::new(wall_ms));
        self
    }

    /// Remembers events with the verdict first-seen, in so many bytes for each filter, and answers their duplicates
    /// without asking a node: the client's own level of a tree. Submissions that are named by the caller are always
    /// asked about. 0, as by default, remembers nothing.
    #[must_use]
    pub fn local_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.local_bytes_max = bytes;
        self
    }

    /// How often a batch is sent again that a node has refused for overload; 2 by default, after 20 and 160 ms, then
    /// after 1.3 s each. Allow more only for producers that can wait, as every try is load.
    #[must_use]
    pub fn overload_retries_max(mut self, retries: u32) -> Self {
        self.limits.overload_retries_max = retries;
        self
    }

    /// The rules that the client keeps: all of them, but where a simulation shows what goes wrong without one.
    #[doc(hidden)]
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.limits.rules = rules;
        self
    }

    /// The site of this producer: for filters in a tree, events go to the leaf of this name. Without a site they go to
    /// the root.
    #[must_use]
    pub fn site(mut self, site: impl Into<String>) -> Self {
        self.site = Some(site.into());
        self
    }

    /// The incarnation of this producer, instead of 16 random bytes: no two runs may share one. Waiting times between
    /// tries follow from it too.
    #[must_use]
    pub fn incarnation(mut self, incarnation: u128) -> Self {
        self.incarnation = Some(incarnation);
        self
    }

    /// Waits for the first map, for at most the deadline.
    ///
    /// # Errors
    /// [`ConnectError`]: what is missing, or that no node answered.
    pub async fn connect(self) -> Result<Client, ConnectError> {
        self.connecting().await
    }

    /// In a box, so that the client is compiled here, and not again in each crate that waits for it.
    fn connecting(self) -> Pin<Box<dyn Future<Output = Result<Client, ConnectError>> + Send>> {
        Box::pin(Client::start(self))
    }

    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        let limits = &self.limits;
        let counts = [
            ("deadline_ms", limits.deadline_ms),
            ("queued_events_max", limits.queued_events_max.into()),
            ("inflight_batches_max", limits.inflight_batches_max.into()),
            ("gathering_batches_max", limits.gathering_batches_max.into()),
            ("batch_events_max", limits.batch_events_max.into()),
        ];
        match counts.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(ConnectError::Limit(name)),
            None if self.seeds.is_empty() => Err(ConnectError::NoSeed),
            None => Ok(()),
        }
    }

    pub(crate) fn take_connector(&mut self) -> Result<Arc<dyn Connector>, ConnectError> {
        if let Some(connector) = self.connector.take() {
            return Ok(connector);
        }
        let tls = match (&self.tls, &self.tls_ca) {
            (Some(files), _) => Some(files.client()?),
            (None, Some(ca)) => Some(ClientTls::trusting(ca)?),
            (None, None) => None,
        };
        Ok(Arc::new(TcpConnector { tls, token: self.token.clone() }))
    }

    pub(crate) fn take_incarnation(&self) -> Result<u128, ConnectError> {
        match self.incarnation {
            Some(incarnation) => Ok(incarnation),
            None => {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes).map_err(ConnectError::Random)?;
                Ok(u128::from_le_bytes(bytes))
            }
        }
    }
}
