//! The life of a node, from its start to its shutdown.
//!
//! # Guarantees
//! - A node serves operators as soon as it has started. It serves producers and other nodes as soon as it belongs to a
//!   cluster.
//! - A node that is shut down replies to all batches that it has admitted, unless the time limit for the shutdown ends
//!   first.

mod parts;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firstseen_client::Levels;
use firstseen_meta::{Meta, MetaConfig, NodeProfile};
use firstseen_routing::OwnerLimits;
use firstseen_wire::watch;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::budget::Budget;
use crate::clocks::Clocks;
use crate::config::NodeConfig;
use crate::edges::{Edges, Incoming, OwnerSpawner};
use crate::folder_watch::FolderWatch;
use crate::health::Health;
use crate::ids::Ids;
use crate::journal_writer::{self, GatedDisk, JournalWriter};
use crate::lease::SharedLease;
use crate::metrics::Metrics;
use crate::node_error::NodeError;
use crate::owner::{self, NodeContext, OwnerLoss, Owners, Worker, WorkerParts};
use crate::parent_queries::CLIMBS_WAITING_MAX;
use crate::serve::{ListenerTls, Services};
use crate::shutdown::Shutdown;
use crate::view::View;
use crate::{http, http_api, redis, stopping};
use parts::Parts;

/// Maximum number of queued proposals to the consensus group.
const PROPOSALS_MAX: usize = 64;

/// Interval at which a draining node checks whether it has finished.
const DRAIN_LOOK: Duration = Duration::from_millis(10);

/// Maximum time that connections may take to close after their streams have ended.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// A running node.
pub struct Node {
    parts: Arc<Parts>,
    http_address: Option<SocketAddr>,
    redis_address: Option<SocketAddr>,
    http_api_address: Option<SocketAddr>,
    /// Stops the listener when it is cancelled.
    stop: CancellationToken,
    look_at_certificates: Arc<Notify>,
    server: Option<JoinHandle<()>>,
}

impl Node {
    /// Starts a node.
    ///
    /// # Errors
    /// [`NodeError`] says what is wrong and names the setting that causes the error.
    pub fn start(config: NodeConfig, edges: Edges) -> Pin<Box<dyn Future<Output = Result<Self, NodeError>> + Send>> {
        // The future is boxed so that its code is compiled in this crate. Otherwise each crate that awaits the future
        // would compile it again.
        Box::pin(Self::start_here(config, edges))
    }

    async fn start_here(config: NodeConfig, edges: Edges) -> Result<Self, NodeError> {
        config.check()?;
        let Edges { incoming, address, http, redis, http_api, connector, tls, audit, clock, owners: spawner, .. } =
            edges;
        let owner_limits = edges.owner_limits;
        let seed = edges.seed;
        let address = config.advertise.clone().unwrap_or(address);
        let (audit, written) = Audit::new(clock.clone(), audit);
        let (writer, agreed) = written.unzip();
        writer.map_or(Ok(()), |writer| spawner.spawn(format!("{}-audit", config.name), writer.write()))?;
        let profile = NodeProfile {
            name: config.name.clone(),
            site: config.site.clone(),
            address: address.clone(),
            memory_bytes: config.memory_max_bytes,
        };
        let meta_config = MetaConfig {
            storage: edges.storage,
            profile,
            timing: config.timing.raft(),
            same_on_all: config.timing.settings(),
            audit: agreed,
            seed,
        };
        let meta = Meta::open(meta_config, connector.clone()).await?;
        let metrics = Arc::new(Metrics::new());
        let folder = Arc::new(FolderWatch::over(edges.kept_files));
        let disk = GatedDisk::over(edges.journal, [meta.nearly_full(), folder.is_missing()]);
        let (proposals, proposed) = mpsc::channel(PROPOSALS_MAX);
        let (climbs, climbing) = mpsc::channel(CLIMBS_WAITING_MAX);
        let keeper =
            Arc::new(JournalWriter::new(disk, edges.journal_segment_bytes, clock.clone(), config.owner_threads()));
        let kept = CancellationToken::new();
        spawner.spawn(format!("{}-journal", config.name), journal_writer::write(keeper.clone(), kept.clone()))?;
        let lease = Arc::<SharedLease>::default();
        let skew_max_ms = config.timing.clock_skew_max_ms;
        let clocks = Arc::new(Clocks::new(skew_max_ms, owner_limits.rules, edges.last_time, lease.clone()));
        let node_context = NodeContext {
            clock: clock.clone(),
            metrics: metrics.clone(),
            proposals,
            climbs,
            keeper: keeper.clone(),
            lease,
            clocks: clocks.clone(),
        };
        let owners = Arc::new(spawn_owners(&config, spawner, owner_limits, &node_context)?);
        let (publish, views) = watch::channel(Arc::new(View::default()));
        let ids = Arc::new(Ids::new(seed));
        let departure = Arc::new(Shutdown { kept, ..Shutdown::default() });
        let rules = owner_limits.rules;
        let health = Health { meta, owners, keeper, folder, views, clock, clocks, departure, rules };
        let parts = Arc::new(Parts {
            address,
            is_secure: tls.is_some(),
            health: Arc::new(health),
            levels: Arc::new(Levels::new(connector.clone(), u128::from_le_bytes(ids.next()))),
            connector,
            down_nodes: Arc::default(),
            metrics,
            audit,
            ids,
            budget: Budget::new(config.limits.inflight_bytes_max),
            quotas: Arc::default(),
            open: Arc::default(),
            endpoints: Arc::default(),
            config: Arc::new(config),
        });
        parts.act_on_map(publish, proposed, climbing);
        parts.report_to_cluster();
        let http_address = http.as_ref().and_then(|listener| listener.local_addr().ok());
        http.map(|listener| tokio::spawn(http::serve(listener, parts.http())));
        let streams = parts.streams();
        let redis_address = parts.open_redis(redis, tls.clone(), &streams);
        let http_api_address = parts.open_http_api(http_api, tls.clone(), &streams);
        let stop = CancellationToken::new();
        let look_at_certificates = Arc::<Notify>::default();
        let tls = tls.map(|tls| ListenerTls { tls, look: look_at_certificates.clone() });
        let server = tokio::spawn(serve_nodes(parts.services(streams), tls, incoming, stop.clone()));
        Ok(Self {
            parts,
            http_address,
            redis_address,
            http_api_address,
            stop,
            look_at_certificates,
            server: Some(server),
        })
    }

    /// Returns the address under which other nodes and clients reach this node.
    pub fn addr(&self) -> &str {
        &self.parts.address
    }

    /// Returns the address of the listener for health checks and metrics. `None` means that the node does not serve
    /// them.
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Returns the address of the Redis endpoint. `None` means that the node has no Redis endpoint.
    pub fn redis_addr(&self) -> Option<SocketAddr> {
        self.redis_address
    }

    /// Returns the address of the HTTP endpoint. `None` means that the node has no HTTP endpoint.
    pub fn http_api_addr(&self) -> Option<SocketAddr> {
        self.http_api_address
    }

    /// Returns the reason why the node is not fully ready. `None` means that the node can serve everything that it
    /// should.
    pub fn not_ready(&self) -> Option<String> {
        self.parts.health.not_ready()
    }

    /// Returns whether the disk of this node lags behind its memory. This is the case if records wait to be written to
    /// the journal, or if the disk is full. While this method returns `true`, the result of a lookup may depend on
    /// events that are only in memory. If the process ends at such a moment, these events are lost.
    pub fn awaits_disk(&self) -> bool {
        let keeper = &self.parts.health.keeper;
        keeper.is_full() || keeper.waiting_bytes() > 0
    }

    /// Returns the version of the cluster map that the node acts on. The version is 0 until the node knows a cluster
    /// map.
    pub fn map_version(&self) -> u64 {
        self.parts.health.views.borrow().map.version
    }

    /// Collects the current metrics and returns them as the text of `/metrics`. The text is empty if the metrics cannot
    /// be rendered.
    pub async fn metrics(&self) -> String {
        self.parts.exposition().text().await.unwrap_or_default()
    }

    /// Returns whether the process works. If this method returns `false`, the process must be restarted.
    pub fn is_alive(&self) -> bool {
        self.parts.health.not_alive().is_none()
    }

    /// Waits until the node has failed for good, and returns the reason. The caller must then shut the node down and
    /// restart the process. A node fails in these cases:
    ///
    /// - An owner thread panics, so the state of its slices is lost.
    /// - The journal cannot be written.
    /// - The consensus stops on this node, for example because its disk fails. The node would otherwise act on an old
    ///   cluster map forever.
    pub async fn failure(&self) -> NodeError {
        let Health { meta, owners, keeper, .. } = &*self.parts.health;
        tokio::select! {
            biased;
            lost = owners.loss().happened() => NodeError::OwnerLost(lost),
            error = keeper.failed() => NodeError::Journal(error),
            () = meta.agreement_stopped() => NodeError::AgreementStopped,
        }
    }

    /// Makes the node check its certificate files now. The node also checks them every ten seconds.
    pub fn look_at_certificates(&self) {
        self.look_at_certificates.notify_one();
    }

    /// Returns this node's membership in the cluster, which gives access to the cluster map.
    pub fn meta(&self) -> &Meta {
        &self.parts.health.meta
    }

    /// Stops the node. The shutdown has these steps:
    ///
    /// 1. The node continues to serve while other copies fetch cells that only this node has.
    /// 2. The node accepts no new batches, and replies to the batches that it has admitted.
    /// 3. The node sends other nodes the messages that are still queued, and closes its streams.
    ///
    /// Work that has not finished after `drain_max_ms` is abandoned.
    pub async fn shutdown(mut self) {
        let parts = self.parts.clone();
        let Health { meta, keeper, views, departure, .. } = &*parts.health;
        let limit = Duration::from_millis(parts.config.limits.drain_max_ms);
        let until = tokio::time::Instant::now() + limit;
        departure.leaving.store(true, Ordering::Relaxed);
        if parts.health.not_alive().is_none() {
            stopping::wait_for_copies(views, limit).await;
        }
        tokio::join!(
            redis::close(departure, &parts.endpoints, limit / 4),
            http_api::close(departure, &parts.endpoints)
        );
        departure.draining.store(true, Ordering::Relaxed);
        departure.drained.cancel();
        // The last eighth of the time is reserved for writing the journal and for closing the consensus log.
        if tokio::time::timeout_at(until - limit / 8, self.drain()).await.is_err() {
            let batches = parts.open.batches.load(Ordering::Relaxed);
            tracing::warn!(batches, ?limit, "the node stops before all work is done");
            self.warn_of_journals().await;
        }
        stopping::log_losses(&views.newest());
        departure.stopping.cancel();
        self.stop.cancel();
        if let Some(server) = self.server.take() {
            let ending = server.abort_handle();
            if tokio::time::timeout(CLOSE_MAX, server).await.is_err() {
                ending.abort();
            }
        }
        departure.kept.cancel();
        if tokio::time::timeout_at(until, keeper.written()).await.is_err() {
            tracing::warn!(?limit, "the node stops before its journal is written");
        }
        // If the disk hangs, the records that have not been written yet are lost, as in a crash.
        if tokio::time::timeout_at(until, meta.shutdown()).await.is_err() {
            tracing::warn!(?limit, "the node stops before its consensus log is closed");
        }
    }

    /// Logs how many events the parent levels of filter trees will never receive when this process ends. While a parent
    /// level is unreachable, a tree level decides events on its own, and keeps them in memory until it can send them to
    /// the parent. The events that are still in memory when the process ends are lost for the parent.
    async fn warn_of_journals(&self) {
        let Health { owners, views, .. } = &*self.parts.health;
        // If an owner thread does not answer in time, its slice groups have not been drained either.
        let Ok(looks) = tokio::time::timeout(CLOSE_MAX, owners.look(None)).await else { return };
        let view = views.newest();
        for look in looks.iter().filter(|look| look.state.owed.waiting_events > 0) {
            let filter = view.map.filters.get(&look.filter).map_or("", |record| &record.name);
            tracing::warn!(
                filter,
                group = look.group,
                events = look.state.owed.waiting_events,
                "these events were called first-seen while the parent level was unreachable, and are lost to it"
            );
        }
    }

    /// Waits until all admitted batches have their replies, all owners are idle, and all messages to other nodes have
    /// left.
    async fn drain(&self) {
        while self.parts.open.batches.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
        let Health { owners, views, .. } = &*self.parts.health;
        owners.drain().await;
        let view = views.newest();
        while view.links.values().any(|link| link.waiting() > 0) {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.parts.health.departure.stopping.cancel();
        self.parts.health.departure.kept.cancel();
        self.stop.cancel();
    }
}

/// Serves nodes, producers and operators until the node stops.
async fn serve_nodes(services: Services, tls: Option<ListenerTls>, incoming: Incoming, stop: CancellationToken) {
    if let Err(error) = services.serve(tls, incoming, stop).await {
        tracing::error!(%error, "serving failed: the node no longer accepts calls");
    }
}

/// Starts the threads that own slices.
fn spawn_owners(
    config: &NodeConfig,
    spawner: OwnerSpawner,
    owner_limits: OwnerLimits,
    node_context: &NodeContext,
) -> Result<Owners, NodeError> {
    let owners = config.owner_threads();
    let limits = &config.limits;
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
                owed_events_max: limits.owed_events_max as usize,
                clock_skew_max_ms: config.timing.clock_skew_max_ms,
                node_lease_ms: Some(config.timing.lease_ms),
                ..owner_limits
            },
            queue_age_max_ms: limits.queue_age_max_ms,
            rate_max_events_per_s: config.owner_rate_max_events_per_s,
            node_context: node_context.clone(),
        });
        let name = format!("{}-owner-{index}", config.name);
        spawner.spawn(name.clone(), loss.clone().watch(name, worker.run()))?;
        queues.push(queue);
    }
    Ok(Owners::new(queues, loss))
}
