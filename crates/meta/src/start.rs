//! Starts the part of a node that implements the consensus, and connects its components. On a node that belongs to no
//! cluster, openraft is started only when the node founds or joins a cluster. A node founds a new cluster only if an
//! operator requests this on the node.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firstseen_routing::{ClusterId, NodeId};
use firstseen_wire::net::Connector;
use openraft::SnapshotPolicy;
use openraft::error::{Fatal, InitializeError, RaftError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{MetaConfig, RaftTiming};
use crate::error::MetaError;
use crate::logged_refusals::LoggedRefusals;
use crate::membership::{Controller, Job};
use crate::meta::Meta;
use crate::mixed::mixed_128;
use crate::network::{Channels, Network};
use crate::room::FullDisks;
use crate::running::{Heard, Running};
use crate::store::{self, Database, IDENTITY, Identity, LogStore, Machine};
use crate::types::{Member, Raft};
use crate::{announce, leading, raising};

/// Key of the database value that counts how often the database has been opened.
const STARTS: &str = "starts";

/// Maximum number of queued changes of the members.
const JOBS_MAX: usize = 16;

/// Size of a part of a snapshot in bytes. It is well below the maximum message size.
const SNAPSHOT_PART_BYTES: u64 = 1 << 20;

/// Maximum number of log entries in one message to a follower. An entry contains at most one definition of a filter, so
/// this number of entries always fits into the maximum message size.
const MESSAGE_ENTRIES_MAX: u64 = 32;

impl Meta {
    /// Opens the node's database. If the node belongs to a cluster, openraft is started, and the node takes part in the
    /// consensus. The start of the node is announced to the cluster in the background. When the cluster map contains
    /// the start, [`Self::incarnation`] returns its number.
    ///
    /// The future is boxed, so that openraft is compiled in this crate and not again in each crate that awaits the
    /// future.
    ///
    /// # Errors
    /// [`MetaError::Store`] names the file and the problem.
    pub fn open(
        config: MetaConfig,
        connector: Arc<dyn Connector>,
    ) -> Pin<Box<dyn Future<Output = Result<Self, MetaError>> + Send>> {
        Box::pin(async move {
            let database = Database::open(config.storage.clone()).await?;
            let starts = database.value::<u64>(STARTS).await?.unwrap_or(0) + 1;
            database.put(STARTS, &starts).await?;
            let identity = database.value(IDENTITY).await?;
            let meta = Self::new(config, connector, database, starts);
            raising::read_hold(&meta).await?;
            meta.inner.tasks.spawn(store::maintain_reserve(meta.inner.database.clone(), meta.inner.stop.clone()));
            if let Some(identity) = identity {
                meta.begin(identity).await?;
            }
            Ok(meta)
        })
    }

    /// Founds a cluster that consists of this node.
    ///
    /// # Errors
    /// [`MetaError::HasCluster`] if the node already belongs to a cluster.
    pub async fn init(&self) -> Result<Identity, MetaError> {
        let cluster = ClusterId(mixed_128(&[self.inner.config.seed, self.inner.starts]));
        let identity = Identity { cluster, node: NodeId(1), founder: true, journal: cluster };
        self.become_member(identity).await?;
        let limit = Duration::from_millis(self.inner.config.timing.propose_ms);
        let started = async { self.incarnation().wait_for(Option::is_some).await };
        match tokio::time::timeout(limit, started).await {
            Ok(Ok(())) => Ok(identity),
            Ok(Err(_)) | Err(_) => Err(MetaError::Unknown {
                what: "init".to_owned(),
                waited_ms: self.inner.config.timing.propose_ms,
                last: "the first node has not started".to_owned(),
            }),
        }
    }

    /// Accepts the identity that a cluster has assigned to this node. A second call with the same identity has no
    /// effect.
    ///
    /// # Errors
    /// [`MetaError::HasCluster`] if the node has another identity.
    pub async fn adopt(&self, cluster: ClusterId, node: NodeId) -> Result<(), MetaError> {
        match self.identity() {
            Some(known) if (known.cluster, known.node) == (cluster, node) => Ok(()),
            _ => self.become_member(Identity { cluster, node, founder: false, journal: cluster }).await,
        }
    }

    /// Stores the identity on the disk, and then takes part in the cluster with it.
    async fn become_member(&self, identity: Identity) -> Result<(), MetaError> {
        if let Some(known) = self.identity() {
            return Err(MetaError::HasCluster { node: known.node });
        }
        if self.inner.beginning.swap(true, Ordering::AcqRel) {
            return Err(MetaError::Busy);
        }
        let begun = match self.inner.database.put(IDENTITY, &identity).await {
            Ok(()) => self.begin(identity).await,
            Err(error) => Err(error.into()),
        };
        if begun.is_err() {
            self.inner.beginning.store(false, Ordering::Release);
        }
        begun
    }

    async fn begin(&self, identity: Identity) -> Result<(), MetaError> {
        let inner = &self.inner;
        inner.beginning.store(true, Ordering::Release);
        let network = Network {
            connector: Arc::clone(&inner.connector),
            published: Arc::clone(&inner.published),
            identity,
            backoff: inner.config.timing.pause(),
            channels: Channels::default(),
            refusals: LoggedRefusals::default(),
            short: FullDisks::default(),
            formats: inner.formats.clone(),
        };
        let raft = raft(&inner.config, &inner.database, &network).await?;
        let jobs = controller(&raft, &network, &inner.config, &inner.stop, &inner.tasks);
        let leaders = leading::log_changes(raft.clone(), Arc::clone(&inner.published), inner.stop.clone());
        if inner.running.set(Running { identity, raft, network, jobs, heard: Heard::default() }).is_err() {
            return Err(MetaError::Busy);
        }
        inner.tasks.spawn(announce::until_known(self.clone()));
        inner.tasks.spawn(raising::when_all_can(self.clone()));
        inner.tasks.spawn(leaders);
        Ok(())
    }
}

/// Starts openraft from the content of the database.
async fn raft(config: &MetaConfig, database: &Database, network: &Network) -> Result<Raft, MetaError> {
    let identity = network.identity;
    let log = LogStore::new(database.clone());
    let machine = Machine::open(database.clone(), Arc::clone(&network.published), config.audit.clone()).await?;
    let raft_config = Arc::new(raft_config(&config.timing, identity.node.0, config.seed)?);
    let raft = Raft::new(identity.node.0, raft_config, network.clone(), log, machine).await.map_err(stopped)?;
    // This step is repeated if an earlier process ended between storing the identity and this step. That is safe: it is
    // the same request of the same operator, and a cluster of one node has no other node that could disagree.
    if identity.founder && !raft.is_initialized().await.map_err(stopped)? {
        let profile = &config.profile;
        let me = Member { name: profile.name.clone(), address: profile.address.clone() };
        match raft.initialize(BTreeMap::from([(identity.node.0, me)])).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(error) => return Err(MetaError::Stopped { reason: error.to_string() }),
        }
    }
    Ok(raft)
}

/// Starts the task that changes the members.
fn controller(
    raft: &Raft,
    network: &Network,
    config: &MetaConfig,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> mpsc::Sender<Job> {
    let (jobs, waiting) = mpsc::channel(JOBS_MAX);
    let controller = Controller {
        raft: raft.clone(),
        network: network.clone(),
        timing: config.timing,
        same_on_all: config.same_on_all.clone(),
    };
    tasks.spawn(controller.run(waiting, stop.clone()));
    jobs
}

fn raft_config(timing: &RaftTiming, node: u64, seed: u64) -> Result<openraft::Config, MetaError> {
    let election_timeout_min = timing.election_timeout_ms(node, seed);
    let config = openraft::Config {
        cluster_name: "firstseen".to_owned(),
        heartbeat_interval: timing.heartbeat_ms,
        election_timeout_min,
        election_timeout_max: election_timeout_min + 1,
        install_snapshot_timeout: timing.attempt_ms,
        max_payload_entries: MESSAGE_ENTRIES_MAX,
        replication_lag_threshold: timing.snapshot_entries.saturating_mul(4),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(timing.snapshot_entries),
        snapshot_max_chunk_size: SNAPSHOT_PART_BYTES,
        max_in_snapshot_log_to_keep: timing.snapshot_entries / 4,
        ..openraft::Config::default()
    };
    config
        .validate()
        .map_err(|error| MetaError::Stopped { reason: format!("the timing settings are not valid: {error}") })
}

fn stopped(fatal: Fatal<u64>) -> MetaError {
    MetaError::Stopped { reason: fatal.to_string() }
}
