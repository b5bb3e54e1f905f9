//! Parts that the Redis endpoint and the HTTP endpoint of a node have in common: authentication, access rights, and the
//! client through which an endpoint sends requests to the cluster. An endpoint gives its clients no more rights than
//! they would have if they connected to the node's gRPC service themselves.

pub(crate) mod own_client;
pub(crate) mod threads;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firstseen_backend::{ClientSession, CountFuture, Host, NewFilter, OperationFuture, Refused};
use firstseen_filter::{FilterSpec, GrowthSpec, Kind, Limit, Window};
use firstseen_meta::{self as meta, Change, Meta, propose_for, slice_bytes};
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{
    ClusterMap, FilterPolicies, FilterVerb, Reading, Reason, SecretMaterial, SlicedDefinition, Slicing,
};
use firstseen_wire::tls::{CertificateDer, ServerTls};
use firstseen_wire::token::Token;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::authenticated_caller::{AuthenticatedCaller, Call, Needs};
use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::edges::{Vouched, random};
use crate::fullness::recorded_events;
use crate::ids::Ids;
use crate::open_counts::OpenEndpoints;
use crate::owner::Owners;
use crate::quotas::{Quotas, Spent};
use crate::roles::{Caller, Role};
use crate::tokens;
use crate::view::Views;
use own_client::OwnClients;

/// Maximum time that a closing endpoint waits until its replies are sent, and the interval at which it checks.
pub(crate) const REPLIES_MAX: Duration = Duration::from_secs(2);
pub(crate) const REPLIES_LOOK: Duration = Duration::from_millis(5);
/// Time after which a principal may try again if its quota allows no more unanswered batches.
const BATCHES_PAUSE: Duration = Duration::from_millis(500);
/// Maximum time that a request waits until this node acts on a change that the cluster has agreed on.
const APPLY_MAX: Duration = Duration::from_secs(5);
/// Growth of a sandbox filter: it may add three generations, each as large as the first.
const GROWTH: GrowthSpec = GrowthSpec { ratio: 1.0, generations_max: 4, limit: Limit::Cardinality };
/// Interval between two checks whether the certificate of an active connection is still accepted, in seconds.
const LOOK_AGAIN_S: u64 = 3;

/// Waits until all connections of a closing endpoint have ended, for at most [`REPLIES_MAX`].
pub(crate) async fn replied(open: impl Fn() -> u64) {
    let until = Instant::now() + REPLIES_MAX;
    while open() > 0 && Instant::now() < until {
        sleep(REPLIES_LOOK).await;
    }
}

/// Services of the node that its endpoints use.
pub(crate) struct EndpointContext {
    pub(crate) meta: Meta,
    pub(crate) ids: Arc<Ids>,
    pub(crate) views: Views,
    pub(crate) owners: Arc<Owners>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clocks: Arc<Clocks>,
    /// Whether callers of the node authenticate with certificates.
    pub(crate) is_secure: bool,
    pub(crate) rules: Rules,
}

impl EndpointContext {
    fn map(&self) -> Arc<ClusterMap> {
        self.views.borrow().map.clone()
    }
}

/// The environment in which an endpoint runs.
pub(crate) struct EndpointLimits {
    pub(crate) node: Arc<EndpointContext>,
    pub(crate) clients: Arc<OwnClients>,
    pub(crate) endpoints: Arc<OpenEndpoints>,
    /// Cancelled when the endpoint closes. The endpoint then accepts no new requests, and replies to the requests in
    /// progress.
    pub(crate) stop: CancellationToken,
}

/// The node from the point of view of an endpoint.
pub(crate) struct NodeServices {
    node: Arc<EndpointContext>,
    /// Name of the endpoint's calls in the audit log.
    call: &'static str,
    /// TLS configuration that decides whether the certificates of open connections are still accepted.
    tls: Option<ServerTls>,
}

/// Certificates of an open connection. They may be revoked or expire while the connection is open.
struct Shown {
    tls: ServerTls,
    certificates: Vec<CertificateDer<'static>>,
    looked_s: AtomicU64,
    is_accepted: AtomicBool,
}

impl Shown {
    /// Returns whether the certificates are still accepted, according to a recent check.
    fn is_accepted(&self, now_s: u64) -> bool {
        let looked_s = self.looked_s.load(Ordering::Relaxed);
        if now_s >= looked_s.saturating_add(LOOK_AGAIN_S) {
            self.looked_s.store(now_s, Ordering::Relaxed);
            let accepted = self.tls.still_accepts(&self.certificates, Duration::from_secs(now_s));
            self.is_accepted.store(accepted.is_ok(), Ordering::Relaxed);
        }
        self.is_accepted.load(Ordering::Relaxed)
    }
}

/// An authenticated client of an endpoint.
struct Visitor {
    node: Arc<EndpointContext>,
    guest: AuthenticatedCaller,
    shown: Option<Shown>,
}

impl NodeServices {
    /// Creates the environment of an endpoint. `call` is the name of its calls in the audit log. If `tls` is set, its
    /// clients use TLS.
    pub(crate) fn new(node: Arc<EndpointContext>, call: &'static str, tls: Option<ServerTls>) -> Self {
        Self { node, call, tls }
    }

    /// Records in the audit log that a client was rejected.
    fn audit_denied(&self, from: SocketAddr, reason: &str) {
        self.node.audit.denied_stranger(Some(from), self.call, reason);
    }

    /// Opens the session of a client that has identified itself, even if its principal has no right at the moment.
    /// Each request checks the right that it needs, so a principal without rights learns which right is missing. If
    /// this function required a right, that client would be told to authenticate, as if its credentials were invalid.
    fn open_session(&self, caller: Caller, from: SocketAddr, shown: Option<Shown>) -> Option<Arc<dyn ClientSession>> {
        let needs = Needs { role: Role::Producer, right: None };
        let EndpointContext { audit, .. } = &*self.node;
        let who = audit.who(&caller, Some(from));
        let call = Call { path: self.call, needs };
        let guest = AuthenticatedCaller::enter(caller, Some(from), call, &self.node.map(), audit).ok()?;
        if !guest.caller().is_unchecked() {
            audit.came(&who, guest.caller().token().map(|token| token.id()));
        }
        Some(Arc::new(Visitor { node: self.node.clone(), guest, shown }))
    }

    /// Returns the client of a connection for which a simulated network vouches in place of a certificate.
    pub(crate) fn vouched_for(&self, vouched: Vouched, from: SocketAddr) -> Option<Arc<dyn ClientSession>> {
        self.open_session(Caller::vouched_for(vouched), from, None)
    }
}

impl Host for NodeServices {
    fn known(
        &self,
        certificates: Option<&[CertificateDer<'static>]>,
        from: SocketAddr,
    ) -> Option<Arc<dyn ClientSession>> {
        match certificates {
            Some([]) => None,
            Some(certificates) => {
                let shown = self.tls.clone().map(|tls| Shown {
                    tls,
                    certificates: certificates.to_vec(),
                    looked_s: AtomicU64::new(0),
                    is_accepted: AtomicBool::new(true),
                });
                self.open_session(Caller::showing(Some(Arc::new(certificates.to_vec()))), from, shown)
            }
            // Without TLS, a client cannot present a certificate. If access control is enabled, the client must
            // therefore present a token.
            None if self.node.map().access.is_enabled => None,
            None if self.node.is_secure && !from.ip().is_loopback() => None,
            None => self.open_session(Caller::showing(None), from, None),
        }
    }

    fn enter(&self, user: Option<&[u8]>, token: &[u8], from: SocketAddr) -> Option<Arc<dyn ClientSession>> {
        let token = std::str::from_utf8(token).ok().and_then(|token| token.parse::<Token>().ok());
        let Some(token) = token else {
            self.audit_denied(from, "it presented no token");
            return None;
        };
        match tokens::of(&token, &self.node.map().access, self.node.audit.now_s()) {
            Ok(shown) if user.is_some_and(|user| user != shown.principal.as_bytes()) => {
                self.audit_denied(from, "it presented the token of another principal than it named");
                None
            }
            Ok(shown) => self.open_session(Caller::showing(Some(Arc::default())).by_token(shown), from, None),
            Err(status) => {
                self.audit_denied(from, status.message());
                None
            }
        }
    }

    fn cell_bytes(&self, filter: &str) -> Option<u64> {
        let map = self.node.map();
        let (_, record) = map.filter_named(filter)?;
        Some(slice_bytes(&record.definition).ok()?.saturating_mul(record.all_copies().count() as u64))
    }

    fn recorded_events<'a>(&'a self, filter: &'a str) -> CountFuture<'a> {
        Box::pin(async move {
            let map = self.node.map();
            let (id, record) = map.filter_named(filter)?;
            let looks = self.node.owners.look(Some(id)).await;
            recorded_events(&record.definition, looks.iter().flat_map(|look| &look.state.slices))
        })
    }

    fn now_ms(&self) -> Result<u64, Reason> {
        let EndpointContext { clock, clocks, rules, .. } = &*self.node;
        if !rules.keep(Rule::EndpointStampsByVerifiedTime) {
            return Ok(clock.wall_ms());
        }
        let Reading { moment, doubt } = clocks.time_of_day().read(clock.now());
        doubt.map_or(Ok(moment.wall_ms), Err)
    }
}

impl Visitor {
    /// Returns whether the client must authenticate again before its next request. There are two possible reasons.
    /// Access control may have been enabled after the client had connected without credentials, or the client's
    /// credentials may have expired or been revoked.
    fn is_stale(&self, map: &ClusterMap) -> bool {
        let is_late = self.guest.caller().is_unchecked() && map.access.is_enabled;
        is_late || self.shown.as_ref().is_some_and(|shown| !shown.is_accepted(self.node.audit.now_s()))
    }

    /// Proposes a change to the cluster, and waits until this node acts on it.
    async fn change(&self, change: Change) -> Result<(), String> {
        let EndpointContext { meta, ids, views, .. } = &*self.node;
        let done = propose_for(meta, self.guest.asked_by(), ids.next(), change).await;
        done.map_err(|error| error.to_string())?;
        let agreed = meta.map().borrow().version;
        let mut views = views.clone();
        let applied = views.wait_for(|view| view.map.version >= agreed);
        let applied = timeout(APPLY_MAX, applied).await.is_ok_and(|view| view.is_ok());
        if applied { Ok(()) } else { Err("it is done, but this node does not act on it yet".to_owned()) }
    }
}

impl ClientSession for Visitor {
    fn requires_authentication(&self) -> bool {
        self.is_stale(&self.node.map())
    }

    fn sees(&self, filter: &str) -> bool {
        let map = self.node.map();
        !self.is_stale(&map) && self.guest.check_filter_right(&map, FilterVerb::Describe, filter).is_ok()
    }

    fn make<'a>(&'a self, new: NewFilter<'a>) -> OperationFuture<'a> {
        Box::pin(async move {
            let growth = new.grows.then_some(GROWTH);
            let spec = FilterSpec {
                capacity_events: Some(new.capacity_events),
                rate: new.rate,
                growth,
                ..FilterSpec::new(Kind::Bloom, Window::Unbounded)
            };
            let definition = SlicedDefinition::new(&spec, Slicing::NONE).map_err(|error| error.to_string())?;
            let secret = SecretMaterial(random().map_err(|error| error.to_string())?);
            let name = new.name.to_owned();
            let policies = FilterPolicies::default();
            let asked = meta::NewFilter { name, definition, policies, secret, if_absent: false, tree: None };
            self.change(Change::CreateFilter(asked)).await
        })
    }

    fn drop_filter<'a>(&'a self, name: &'a str) -> OperationFuture<'a> {
        Box::pin(self.change(Change::DropFilter { name: name.to_owned() }))
    }

    fn may_confirm(&self, filter: &str) -> Result<(), Refused> {
        if !self.node.rules.keep(Rule::EndpointChecksRightsAtConfirm) {
            return Ok(());
        }
        self.guest.check_principal_filter_right(&self.node.map(), FilterVerb::Observe, filter).map_err(|missing| {
            self.guest.note_refused(&missing);
            Refused::Forbidden(missing)
        })
    }

    fn may(&self, verb: FilterVerb, filter: &str, events: u32) -> Result<(), Refused> {
        let map = self.node.map();
        if self.is_stale(&map) {
            return Err(Refused::Unknown);
        }
        self.guest.check_filter_right(&map, verb, filter).map_err(|missing| {
            self.guest.note_refused(&missing);
            Refused::Forbidden(missing)
        })?;
        let Some((name, quota)) = self.guest.quota(&map).filter(|_| events > 0) else { return Ok(()) };
        let now_ms = self.node.clock.monotonic_ms();
        let usage = self.node.quotas.of(name, now_ms);
        match usage.take(&quota, events, now_ms) {
            // A connection has only one call in progress, and the number of connections is limited. Unanswered batches
            // are therefore not counted here.
            Ok(()) => {
                usage.give_back(1);
                Ok(())
            }
            Err(Spent::Batches) => Err(Refused::Spent(BATCHES_PAUSE)),
            Err(Spent::Events { retry_after_ms }) => Err(Refused::Spent(Duration::from_millis(retry_after_ms.into()))),
        }
    }
}
