//! A node from start to end.
//!
//! Promises: a node that has started serves operators at once, and producers and peers when it belongs to a cluster; a
//! node that is shut down replies to all batches that it has admitted, within its limit of time. Must not know: what
//! services do.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firstseen_client::Levels;
use firstseen_meta::{Meta, MetaConfig, NodeProfile};
use firstseen_routing::rules::Rule;
use firstseen_routing::{Climb, OwnerLimits, Proposal};
use firstseen_wire::tls::ServerTls;
use firstseen_wire::watch;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agreement::{self, Closing, Doubts, Follower, MissingGroups};
use crate::audit::Audit;
use crate::budget::Budget;
use crate::clocks::{self, Clocks};
use crate::config::NodeConfig;
use crate::edges::{Edges, Incoming};
use crate::folder_watch::{self, FolderWatch};
use crate::ids::Ids;
use crate::keeper::{self, Keeper, Yielding};
use crate::lease::{self, Downs, SharedLease};
use crate::links::Links;
use crate::metrics::Metrics;
use crate::node_error::NodeError;
use crate::owner::{self, OwnerLoss, Owners, Surroundings, Worker, WorkerParts};
use crate::shared::{Departure, OpenCounts, Shared};
use crate::uplink::CLIMBS_WAITING_MAX;
use crate::view::View;
use crate::{http, http_api, redis, serve, stopping, uplink};

/// Proposals that may wait.
const PROPOSALS_MAX: usize = 64;

/// How often a node that drains looks whether it is done.
const DRAIN_LOOK: Duration = Duration::from_millis(10);

/// How long connections may take to end once their streams have.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// A node that runs.
pub struct Node {
    shared: Arc<Shared>,
    http_address: Option<SocketAddr>,
    redis_address: Option<SocketAddr>,
    http_api_address: Option<SocketAddr>,
    /// Ends the listener.
    stop: CancellationToken,
    look_at_certificates: Arc<Notify>,
    server: Option<JoinHandle<()>>,
}

impl Node {
    /// Starts a node.
    ///
    /// # Errors
    /// [`NodeError`]: what is wrong, and with which setting.
    pub async fn start(config: NodeConfig, edges: Edges) -> Result<Self, NodeError> {
        Self::starting(config, edges).await
    }

    /// In a box, so that the node is compiled here, and not again in each crate that waits for it.
    fn starting(config: NodeConfig, edges: Edges) -> Pin<Box<dyn Future<Output = Result<Self, NodeError>> + Send>> {
        Box::pin(Self::start_here(config, edges))
    }

    async fn start_here(config: NodeConfig, edges: Edges) -> Result<Self, NodeError> {
        config.check()?;
        let Edges {
            incoming,
            address,
            http,
            redis: door,
            http_api: http_door,
            connector,
            tls,
            audit,
            clock,
            owners: spawner,
            ..
        } = edges;
        let (owner_limits, storage, seed) = (edges.owner_limits, edges.storage, edges.seed);
        let address = config.advertise.clone().unwrap_or(address);
        let profile = NodeProfile {
            name: config.name.clone(),
            site: config.site.clone(),
            address: address.clone(),
            memory_bytes: config.memory_max_bytes,
        };
        let (audit, written) = Audit::new(clock.clone(), audit);
        let (writer, agreed) = written.unzip();
        writer.map_or(Ok(()), |writer| spawner.spawn(format!("{}-audit", config.name), writer.write()))?;
        let (timing, same_on_all) = (config.timing.raft(), config.timing.settings());
        let meta_config = MetaConfig { storage, profile, timing, same_on_all, audit: agreed, seed };
        let meta = Meta::open(meta_config, connector.clone()).await?;
        let metrics = Arc::new(Metrics::new());
        let folder = Arc::new(FolderWatch::over(edges.kept_files));
        let disk = Yielding::over(edges.journal, [meta.short_of_room(), folder.is_missing()]);
        let (proposals, proposed) = mpsc::channel(PROPOSALS_MAX);
        let (climbs, climbing) = mpsc::channel(CLIMBS_WAITING_MAX);
        let keeper = Arc::new(Keeper::new(disk, edges.journal_segment_bytes, clock.clone(), config.owner_threads()));
        let kept = CancellationToken::new();
        spawner.spawn(format!("{}-journal", config.name), keeper::write(keeper.clone(), kept.clone()))?;
        let lease = Arc::<SharedLease>::default();
        let skew_max_ms = config.timing.clock_skew_max_ms;
        let clocks = Arc::new(Clocks::new(skew_max_ms, owner_limits.rules, edges.last_time, lease.clone()));
        let surroundings = Surroundings {
            clock: clock.clone(),
            metrics: metrics.clone(),
            proposals,
            climbs,
            keeper: keeper.clone(),
            lease,
            clocks: clocks.clone(),
        };
        let owners = spawn_owners(&config, (spawner, owner_limits), &surroundings)?;
        let (publish, views) = watch::channel(Arc::new(View::default()));
        let ids = Ids::new(seed);
        let shared = Arc::new(Shared {
            address,
            is_secure: tls.is_some(),
            meta: meta.clone(),
            owners,
            keeper,
            folder,
            departure: Departure { kept, ..Departure::default() },
            views,
            clocks,
            downs: Downs::default(),
            levels: Levels::new(connector.clone(), u128::from_le_bytes(ids.next())),
            connector,
            clock,
            metrics,
            audit,
            ids,
            rules: owner_limits.rules,
            budget: Budget::new(config.limits.inflight_bytes_max),
            open: OpenCounts::default(),
            config,
        });
        let follower = Follower { meta, links: Links::new(), views: publish };
        act_on_map(&shared, follower, proposed, climbing);
        report_to_cluster(&shared);
        let http_address = http.as_ref().and_then(|listener| listener.local_addr().ok());
        http.map(|listener| tokio::spawn(http::serve(listener, shared.clone())));
        let redis_address = redis::open(door, tls.clone(), &shared);
        let http_api_address = http_api::open(http_door, tls.clone(), &shared);
        let (stop, look_at_certificates) = (CancellationToken::new(), Arc::<Notify>::default());
        let tls = tls.map(|tls| (tls, look_at_certificates.clone()));
        let server = tokio::spawn(serve_nodes(shared.clone(), tls, incoming, stop.clone()));
        Ok(Self {
            shared,
            http_address,
            redis_address,
            http_api_address,
            stop,
            look_at_certificates,
            server: Some(server),
        })
    }

    /// Where others reach the node.
    pub fn addr(&self) -> &str {
        &self.shared.address
    }

    /// Where the node serves health and metrics.
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Where the node serves Redis clients.
    pub fn redis_addr(&self) -> Option<SocketAddr> {
        self.redis_address
    }

    /// Where the node serves HTTP clients.
    pub fn http_api_addr(&self) -> Option<SocketAddr> {
        self.http_api_address
    }

    /// Why the node cannot serve all that it should; none where it can.
    pub fn not_ready(&self) -> Option<String> {
        self.shared.not_ready()
    }

    /// Whether records wait for the disk, or it is full: what lookups have found in memory may be lost with the process.
    pub fn awaits_disk(&self) -> bool {
        self.shared.keeper.is_full() || self.shared.keeper.waiting_bytes() > 0
    }

    /// The version of the map that the node acts on; 0 while it knows none.
    pub fn map_version(&self) -> u64 {
        self.shared.view().map.version
    }

    /// The text of `/metrics`, gathered now; empty where it cannot be shown.
    pub async fn metrics(&self) -> String {
        self.shared.metrics_text().await.unwrap_or_default()
    }

    /// Whether the process works; where it does not, it must be started again.
    pub fn is_alive(&self) -> bool {
        self.shared.not_alive().is_none()
    }

    /// Waits until the node cannot go on: an owner has panicked, and the state of its slices is lost, or the agreement
    /// has stopped, as where its disk fails, and the node would act on an old map for ever. The node is to be shut down
    /// and started again.
    pub async fn failure(&self) -> NodeError {
        tokio::select! {
            biased;
            lost = self.shared.owners.loss().happened() => NodeError::OwnerLost(lost),
            error = self.shared.keeper.failed() => NodeError::Journal(error),
            () = self.shared.meta.agreement_stopped() => NodeError::AgreementStopped,
        }
    }

    /// Has the node look at its certificates now; it does so every ten seconds.
    pub fn look_at_certificates(&self) {
        self.look_at_certificates.notify_one();
    }

    /// The node's part in the cluster.
    pub fn meta(&self) -> &Meta {
        &self.shared.meta
    }

    /// Stops the node: it goes on while other copies fetch cells that only it has, then takes no new batches, replies
    /// to those it has, sends its peers what they need to know, and ends its streams. Work that is not done within
    /// `drain_max_ms` is given up.
    pub async fn shutdown(mut self) {
        let shared = self.shared.clone();
        let limit = Duration::from_millis(shared.config.limits.drain_max_ms);
        let until = tokio::time::Instant::now() + limit;
        shared.departure.leaving.store(true, Ordering::Relaxed);
        if shared.not_alive().is_none() {
            stopping::wait_for_copies(&shared, limit).await;
        }
        tokio::join!(redis::close(&shared, limit / 4), http_api::close(&shared));
        shared.departure.draining.store(true, Ordering::Relaxed);
        shared.departure.drained.cancel();
        // The rest of the time is for the journal, and for the agreement.
        if tokio::time::timeout_at(until - limit / 8, drain(&shared)).await.is_err() {
            let batches = shared.open.batches.load(Ordering::Relaxed);
            tracing::warn!(batches, ?limit, "the node stops before all is done");
            warn_of_journals(&shared).await;
        }
        stopping::log_losses(&shared);
        shared.departure.stopping.cancel();
        self.stop.cancel();
        if let Some(server) = self.server.take() {
            let ending = server.abort_handle();
            if tokio::time::timeout(CLOSE_MAX, server).await.is_err() {
                ending.abort();
            }
        }
        shared.departure.kept.cancel();
        if tokio::time::timeout_at(until, shared.keeper.written()).await.is_err() {
            tracing::warn!(?limit, "the node stops before its journal is written");
        }
        // Where the disk hangs, records that are still to be written are lost as in a crash.
        if tokio::time::timeout_at(until, shared.meta.shutdown()).await.is_err() {
            tracing::warn!(?limit, "the node stops before the cluster's agreement is closed");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.departure.stopping.cancel();
        self.shared.departure.kept.cancel();
        self.stop.cancel();
    }
}

/// Logs what is lost with this process: events that were decided without the level above, and have not climbed.
async fn warn_of_journals(shared: &Shared) {
    // An owner that is held up has not drained either.
    let Ok(looks) = tokio::time::timeout(CLOSE_MAX, shared.owners.look(None)).await else { return };
    let view = shared.view();
    for look in looks.iter().filter(|look| look.state.owed.waiting_events > 0) {
        let (events, group) = (look.state.owed.waiting_events, look.group);
        let filter = view.map.filters.get(&look.filter).map_or("", |record| &record.name);
        tracing::warn!(
            filter,
            group,
            events,
            "called first-seen while the level above was out of reach, and lost to it"
        );
    }
}

/// Serves nodes, producers and operators until the node stops.
async fn serve_nodes(
    shared: Arc<Shared>,
    tls: Option<(ServerTls, Arc<Notify>)>,
    incoming: Incoming,
    stop: CancellationToken,
) {
    if let Err(error) = serve::serve(shared, tls, incoming, stop).await {
        tracing::error!(%error, "the node serves no longer");
    }
}

/// Waits until all batches that were admitted have their replies.
async fn drain(shared: &Shared) {
    while shared.open.batches.load(Ordering::Relaxed) > 0 {
        tokio::time::sleep(DRAIN_LOOK).await;
    }
    shared.owners.drain().await;
    let view = shared.view();
    while view.links.values().any(|link| link.waiting() > 0) {
        tokio::time::sleep(DRAIN_LOOK).await;
    }
}

/// Follows the map and carries out commands of owners that concern other levels and the agreement, until the node
/// stops.
fn act_on_map(
    shared: &Arc<Shared>,
    follower: Follower,
    proposed: mpsc::Receiver<Proposal>,
    climbing: mpsc::Receiver<Climb>,
) {
    let stopping = || shared.departure.stopping.clone();
    tokio::spawn(stopping().run_until_cancelled_owned(follower.run(shared.clone())));
    tokio::spawn(stopping().run_until_cancelled_owned(agreement::propose(shared.clone(), proposed)));
    tokio::spawn(stopping().run_until_cancelled_owned(uplink::bring_up(shared.clone(), climbing)));
}

/// Reports to the cluster what changes here, until the node stops.
fn report_to_cluster(shared: &Arc<Shared>) {
    let stopping = || shared.departure.stopping.clone();
    tokio::spawn(stopping().run_until_cancelled_owned(agreement::report(shared.clone(), Doubts::default())));
    tokio::spawn(stopping().run_until_cancelled_owned(agreement::report(shared.clone(), MissingGroups)));
    tokio::spawn(stopping().run_until_cancelled_owned(agreement::report(shared.clone(), Closing::default())));
    tokio::spawn(stopping().run_until_cancelled_owned(lease::keep(shared.clone())));
    tokio::spawn(stopping().run_until_cancelled_owned(clocks::keep(shared.clone())));
    if let Some(files) = shared.folder.files() {
        tokio::spawn(stopping().run_until_cancelled_owned(folder_watch::keep(files, shared.folder.clone())));
    }
    if shared.rules.keep(Rule::GivesUpHungDisks) {
        let patience = keeper::patience(Duration::from_millis(shared.config.timing.unreachable_after_ms));
        let looking = keeper::look_after(shared.keeper.clone(), patience);
        tokio::spawn(stopping().run_until_cancelled_owned(looking));
        let meta = shared.meta.clone();
        let looking = async move { meta.look_after_disk(patience).await };
        tokio::spawn(stopping().run_until_cancelled_owned(looking));
    }
}

fn spawn_owners(
    config: &NodeConfig,
    (spawner, owner_limits): (crate::OwnerSpawner, OwnerLimits),
    surroundings: &Surroundings,
) -> Result<Owners, NodeError> {
    let (owners, limits) = (config.owner_threads(), &config.limits);
    let mut queues = Vec::with_capacity(owners);
    let loss = Arc::new(OwnerLoss::default());
    for index in 0..owners {
        let (queue, inbox) = owner::queue(limits.queue_events_max);
        let worker = Worker::new(WorkerParts {
            index,
            owners,
            inbox,
            limits: OwnerLimits {
                batch_events_max: limits.batch_events_max as usize,
                inflight_events_max: limits.inflight_events_max as usize,
                guard_bytes_max: limits.guard_bytes_max,
                claims_bytes_max: limits.claims_bytes_max,
                owed_events_max: limits.journal_events_max as usize,
                clock_skew_max_ms: config.timing.clock_skew_max_ms,
                node_lease_ms: Some(config.timing.lease_ms),
                ..owner_limits
            },
            queue_age_max_ms: limits.queue_age_max_ms,
            rate_max_events_per_s: config.owner_rate_max_events_per_s,
            surroundings: surroundings.clone(),
        });
        let name = format!("{}-owner-{index}", config.name);
        spawner.spawn(name.clone(), loss.clone().watch(name, worker.run()))?;
        queues.push(queue);
    }
    Ok(Owners::new(queues, loss))
}
