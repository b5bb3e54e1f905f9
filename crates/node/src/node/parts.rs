//! The parts of a node, such as its owner threads, its links and its metrics. This module creates the services and
//! background tasks of the node, and passes each of them only the parts that it needs. Only this module and the
//! shutdown of the node have access to all parts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use firstseen_backend::Hosts;
use firstseen_client::Levels;
use firstseen_routing::rules::Rule;
use firstseen_routing::{LevelQuery, Proposal};
use firstseen_wire::net::Connector;
use firstseen_wire::tls::ServerTls;
use firstseen_wire::watch;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::admin::AdminService;
use crate::audit::Audit;
use crate::budget::Budget;
use crate::config::NodeConfig;
use crate::consensus::{self, Closing, Follower, MissingGroups, Proposer, UnreachableReports};
use crate::console::{NodeSample, OverviewSource};
use crate::edges::RedisListener;
use crate::endpoints::own_client::OwnClients;
use crate::endpoints::{EndpointContext, EndpointLimits};
use crate::exposition::Exposition;
use crate::gate::GateLayer;
use crate::health::Health;
use crate::http::HttpService;
use crate::ids::Ids;
use crate::lease::{DownNodes, LeaseRenewal};
use crate::links::{LinkContext, Links, PeerService, ReceiverContext};
use crate::local_connector::LocalConnector;
use crate::metrics::{Metrics, Scrapes};
use crate::open_counts::{OpenCounts, OpenEndpoints};
use crate::parent_queries::ParentQueries;
use crate::quotas::Quotas;
use crate::serve::Services;
use crate::streams::{ProducerService, StreamContext};
use crate::view::View;
use crate::{clocks, folder_watch, http_api, journal_writer, redis};

/// Maximum number of nodes that wait at the same time for a status sample of this node. Further nodes wait until a
/// place is free.
const SAMPLES_WAITING_MAX: usize = 64;

/// The parts of a running node.
pub(super) struct Parts {
    /// The configuration.
    pub(super) config: Arc<NodeConfig>,
    /// Address under which other nodes and clients reach this node.
    pub(super) address: String,
    /// Whether clients authenticate with certificates.
    pub(super) is_secure: bool,
    /// Consensus, owners, journal, clocks and views of this node.
    pub(super) health: Arc<Health>,
    /// Client for the parent and child levels of filter trees.
    pub(super) levels: Arc<Levels>,
    /// Opens connections to other nodes.
    pub(super) connector: Arc<dyn Connector>,
    /// Times since when other nodes have been down.
    pub(super) down_nodes: Arc<DownNodes>,
    pub(super) metrics: Arc<Metrics>,
    /// Audit log, which records which principal made which change.
    pub(super) audit: Arc<Audit>,
    /// Generates the identifiers of commands.
    pub(super) ids: Arc<Ids>,
    /// Budget for the bytes in flight.
    pub(super) budget: Arc<Budget>,
    /// Amounts of their quotas that principals have used.
    pub(super) quotas: Arc<Quotas>,
    pub(super) open: Arc<OpenCounts>,
    pub(super) endpoints: Arc<OpenEndpoints>,
}

impl Parts {
    /// Starts a task that is cancelled when the node stops.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(self.health.departure.stopping.clone().run_until_cancelled_owned(task));
    }

    /// Starts the three background tasks of the node that act on the cluster map. All of them run until the node stops.
    ///
    /// - The first task follows the cluster map and publishes views of it.
    /// - The second task sends proposals of slice groups to the consensus group.
    /// - The third task sends queries of slice groups to other levels of a filter tree.
    pub(super) fn act_on_map(
        &self,
        publish: watch::Sender<Arc<View>>,
        proposed: mpsc::Receiver<Proposal>,
        climbing: mpsc::Receiver<LevelQuery>,
    ) {
        let Health { meta, owners, keeper, views, clock, departure, .. } = &*self.health;
        let follower = Follower {
            meta: meta.clone(),
            links: Links::new(self.links()),
            views: publish,
            owners: owners.clone(),
            keeper: keeper.clone(),
            levels: self.levels.clone(),
            down_nodes: self.down_nodes.clone(),
            clock: clock.clone(),
            metrics: self.metrics.clone(),
        };
        let uplink = ParentQueries {
            levels: self.levels.clone(),
            owners: owners.clone(),
            views: views.clone(),
            clock: clock.clone(),
            metrics: self.metrics.clone(),
            stopping: departure.stopping.clone(),
        };
        self.spawn(follower.run());
        self.spawn(consensus::propose(self.proposer(), views.clone(), proposed));
        self.spawn(uplink.run(climbing));
    }

    /// Starts the tasks that report changes on this node to the cluster. The tasks run until the node stops.
    pub(super) fn report_to_cluster(&self) {
        let Health { meta, owners, keeper, folder, views, clock, clocks, rules, .. } = &*self.health;
        let timing = &self.config.timing;
        let renewal = LeaseRenewal {
            meta: meta.clone(),
            clock: clock.clone(),
            lease: clocks.lease().clone(),
            standstills: clocks.standstills(),
            views: views.clone(),
            lease_ms: timing.lease_ms,
            skew_max_ms: timing.clock_skew_max_ms,
        };
        let closing = Closing::new(owners.clone(), clock.clone(), *rules);
        self.spawn(consensus::report(self.proposer(), views.clone(), UnreachableReports::default()));
        self.spawn(consensus::report(self.proposer(), views.clone(), MissingGroups));
        self.spawn(consensus::report(self.proposer(), views.clone(), closing));
        self.spawn(renewal.run());
        self.spawn(clocks::keep(clocks.clone(), clock.clone(), views.clone()));
        if let Some(files) = folder.files() {
            self.spawn(folder_watch::keep(files, folder.clone()));
        }
        if rules.keep(Rule::AbandonsHungDisks) {
            let patience = journal_writer::patience(Duration::from_millis(timing.unreachable_after_ms));
            self.spawn(journal_writer::look_after(keeper.clone(), patience));
            let meta = meta.clone();
            self.spawn(async move { meta.look_after_disk(patience).await });
        }
    }

    fn proposer(&self) -> Proposer {
        Proposer { meta: self.health.meta.clone(), ids: self.ids.clone() }
    }

    fn links(&self) -> LinkContext {
        let Health { owners, views, clock, clocks, .. } = &*self.health;
        LinkContext {
            clock: clock.clone(),
            clocks: clocks.clone(),
            connector: self.connector.clone(),
            metrics: self.metrics.clone(),
            owners: owners.clone(),
            views: views.clone(),
            queue_max: self.config.limits.link_queue_max as usize,
            patience: Duration::from_millis(self.config.timing.unreachable_after_ms),
        }
    }

    pub(super) fn exposition(&self) -> Exposition {
        Exposition {
            metrics: self.metrics.clone(),
            health: self.health.clone(),
            levels: self.levels.clone(),
            audit: self.audit.clone(),
            budget: self.budget.clone(),
            open: self.open.clone(),
            endpoints: self.endpoints.clone(),
            memory_max_bytes: self.config.memory_max_bytes,
            slices_max: self.config.limits.metrics_slices_max,
            owed_events_max: self.config.limits.owed_events_max,
        }
    }

    fn sample(&self) -> Arc<NodeSample> {
        let tls = self.config.tls.as_ref().map(|tls| tls.files());
        Arc::new(NodeSample {
            health: self.health.clone(),
            metrics: self.metrics.clone(),
            tls,
            owed_events_max: self.config.limits.owed_events_max,
        })
    }

    pub(super) fn http(&self) -> HttpService {
        let console = self.config.http.console.then(|| OverviewSource {
            health: self.health.clone(),
            own: self.sample(),
            connector: self.connector.clone(),
            name: self.config.name.clone(),
            address: self.address.clone(),
            is_secure: self.is_secure,
            clock_skew_max_ms: self.config.timing.clock_skew_max_ms,
        });
        HttpService {
            exposition: Arc::new(self.exposition()),
            hosts: Hosts::new(self.config.advertise.as_deref(), &self.config.http.hosts),
            console,
            stopping: self.health.departure.stopping.clone(),
        }
    }

    pub(super) fn streams(&self) -> Arc<StreamContext> {
        let Health { owners, views, clock, departure, rules, .. } = &*self.health;
        Arc::new(StreamContext {
            views: views.clone(),
            owners: owners.clone(),
            clock: clock.clone(),
            metrics: self.metrics.clone(),
            budget: self.budget.clone(),
            quotas: self.quotas.clone(),
            open: self.open.clone(),
            departure: departure.clone(),
            audit: self.audit.clone(),
            connector: self.connector.clone(),
            limits: self.config.limits.clone(),
            rules: *rules,
        })
    }

    /// Returns the context in which a Redis or HTTP endpoint runs. The endpoint sends its requests to the node through
    /// `streams`.
    fn endpoint_place(&self, streams: &Arc<StreamContext>) -> EndpointLimits {
        let Health { meta, owners, views, clock, clocks, departure, rules, .. } = &*self.health;
        let node = EndpointContext {
            meta: meta.clone(),
            ids: self.ids.clone(),
            views: views.clone(),
            owners: owners.clone(),
            audit: self.audit.clone(),
            quotas: self.quotas.clone(),
            clock: clock.clone(),
            clocks: clocks.clone(),
            is_secure: self.is_secure,
            rules: *rules,
        };
        let address = self.address.clone();
        let home = LocalConnector { address, connector: self.connector.clone(), streams: streams.clone() };
        let site = self.config.site.clone();
        let clients = OwnClients { home: Arc::new(home), ids: self.ids.clone(), rules: *rules, site };
        EndpointLimits {
            node: Arc::new(node),
            clients: Arc::new(clients),
            endpoints: self.endpoints.clone(),
            stop: departure.endpoint_closed.clone(),
        }
    }

    /// Starts the Redis endpoint and returns its address. Returns `None` if the node has no Redis endpoint.
    pub(super) fn open_redis(
        &self,
        listener: Option<RedisListener>,
        tls: Option<ServerTls>,
        streams: &Arc<StreamContext>,
    ) -> Option<SocketAddr> {
        let listener = listener?;
        let settings = self.config.redis.clone()?;
        redis::open(self.endpoint_place(streams), settings, listener, tls, &self.config.name)
    }

    /// Starts the HTTP endpoint and returns its address. Returns `None` if the node has no HTTP endpoint.
    pub(super) fn open_http_api(
        &self,
        listener: Option<TcpListener>,
        tls: Option<ServerTls>,
        streams: &Arc<StreamContext>,
    ) -> Option<SocketAddr> {
        let listener = listener?;
        let settings = self.config.http_api.clone()?;
        http_api::open(self.endpoint_place(streams), settings, listener, tls, self.config.advertise.as_deref())
    }

    /// Creates the gRPC services of the node.
    pub(super) fn services(&self, streams: Arc<StreamContext>) -> Services {
        let Health { meta, owners, keeper, views, clock, clocks, departure, .. } = &*self.health;
        let sample = self.sample();
        let (samples, sampling) = Scrapes::new(SAMPLES_WAITING_MAX, clock.clone(), move || {
            let sample = sample.clone();
            async move { Ok(sample.take().await) }
        });
        let receivers = ReceiverContext { clock: clock.clone(), metrics: self.metrics.clone(), owners: owners.clone() };
        Services {
            gate: GateLayer {
                is_secure: self.is_secure,
                views: views.clone(),
                budget: self.budget.clone(),
                audit: self.audit.clone(),
            },
            producer: ProducerService { streams, meta: meta.clone(), clocks: clocks.clone() },
            peer: PeerService {
                meta: meta.clone(),
                views: views.clone(),
                context: receivers,
                stopping: departure.stopping.clone(),
                receivers: Default::default(),
                samples,
            },
            sampling: Box::pin(sampling),
            admin: AdminService {
                config: self.config.clone(),
                address: self.address.clone(),
                meta: meta.clone(),
                ids: self.ids.clone(),
                views: views.clone(),
                owners: owners.clone(),
                keeper: keeper.clone(),
                clock: clock.clone(),
                clocks: clocks.clone(),
                down_nodes: self.down_nodes.clone(),
                audit: self.audit.clone(),
                endpoints: self.endpoints.clone(),
            },
            meta: meta.clone(),
            health: self.health.clone(),
            clock: clock.clone(),
            metrics: self.metrics.clone(),
            connections_max: self.config.limits.connections_max,
            handshakes_max: self.config.limits.handshakes_max,
        }
    }
}
