//! A node's part in the cluster: who it is, the map as far as it knows, and changes of it.
//!
//! Promises: the map is what a majority has agreed on, perhaps not the newest; a command that is answered as done was
//! done once, and the node that proposed it sees it in its map. Must not know: what the node does with the map.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use firstseen_routing::{ClusterId, ClusterMap, FilterId, Incarnation, NodeId, SecretMaterial};
use firstseen_wire::net::{Connector, meta_server};
use firstseen_wire::proto::meta::Proposal;
use firstseen_wire::proto::meta::meta_server::MetaServer;
use firstseen_wire::watch;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::asked::Asked;
use crate::codec;
use crate::command::{Command, Outcome};
use crate::config::{MetaConfig, mixed_128};
use crate::error::MetaError;
use crate::formats::Formats;
use crate::logged_refusals::LoggedRefusals;
use crate::membership::{Answer, Job, NoAnswer, Task, write};
use crate::network::{CallError, Channels, Network};
use crate::room::{self, Short};
use crate::sender::Heard;
use crate::service::MetaService;
use crate::store::{self, Database, IDENTITY, Identity, Published};
use crate::types::{Applied, Member, Raft, Versioned};
use crate::{announce, confirm, leading, raising, start};

const STARTS: &str = "starts";

/// A node's part in the cluster. Clones are the same.
#[derive(Clone)]
pub struct Meta {
    inner: Arc<Inner>,
}

struct Inner {
    config: MetaConfig,
    connector: Arc<dyn Connector>,
    database: Database,
    published: Arc<Published>,
    /// How often the database has been opened: no two lives of a node share command ids.
    starts: u64,
    beginning: AtomicBool,
    running: OnceLock<Running>,
    incarnation: watch::Sender<Option<Incarnation>>,
    /// The start of this node that is to be over.
    over: watch::Sender<Option<Incarnation>>,
    formats: Formats,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// The running parts of a node that belongs to a cluster.
pub(crate) struct Running {
    pub(crate) identity: Identity,
    pub(crate) raft: Raft,
    pub(crate) network: Network,
    pub(crate) jobs: mpsc::Sender<Job>,
    pub(crate) heard: Heard,
}

impl Running {
    /// The leader as far as this node knows.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.raft.metrics().borrow().current_leader.map(NodeId)
    }
}

/// How the agreement is doing, as far as this node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaStatus {
    /// The leader.
    pub leader: Option<NodeId>,
    /// The newest term.
    pub term: u64,
    /// The newest entry of the log that the map shows.
    pub last_applied: u64,
}

impl Meta {
    /// Opens the node's database. If the node belongs to a cluster, it takes part from now on; its start is proposed in
    /// the background, until [`Self::incarnation`] shows the answer.
    ///
    /// # Errors
    /// [`MetaError::Store`]: the file and what is wrong with it.
    pub async fn open(config: MetaConfig, connector: Arc<dyn Connector>) -> Result<Self, MetaError> {
        Self::opening(config, connector).await
    }

    /// In a box, so that openraft is compiled here, and not again in each crate that waits for it.
    fn opening(
        config: MetaConfig,
        connector: Arc<dyn Connector>,
    ) -> Pin<Box<dyn Future<Output = Result<Self, MetaError>> + Send>> {
        Box::pin(Self::open_here(config, connector))
    }

    async fn open_here(config: MetaConfig, connector: Arc<dyn Connector>) -> Result<Self, MetaError> {
        let database = Database::open(config.storage.clone()).await?;
        let starts = database.value::<u64>(STARTS).await?.unwrap_or(0) + 1;
        database.put(STARTS, &starts).await?;
        let identity = database.value(IDENTITY).await?;
        let inner = Inner {
            config,
            connector,
            database,
            published: Arc::default(),
            starts,
            beginning: AtomicBool::new(false),
            running: OnceLock::new(),
            incarnation: watch::Sender::new(None),
            over: watch::Sender::new(None),
            formats: Formats::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let meta = Self { inner: Arc::new(inner) };
        raising::read_hold(&meta).await?;
        meta.inner.tasks.spawn(store::tend(meta.inner.database.clone(), meta.inner.stop.clone()));
        if let Some(identity) = identity {
            meta.begin(identity).await?;
        }
        Ok(meta)
    }

    /// The node's identity, once it belongs to a cluster.
    pub fn identity(&self) -> Option<Identity> {
        self.inner.running.get().map(|running| running.identity)
    }

    /// Whether this node was a member, and is none any more.
    pub fn has_left(&self) -> bool {
        self.identity().is_some_and(|identity| self.inner.published.has_left(identity.node))
    }

    /// The incarnation of this start, once the map shows it; none again while the node proposes to count as started
    /// anew.
    pub fn incarnation(&self) -> watch::Receiver<Option<Incarnation>> {
        self.inner.incarnation.subscribe()
    }

    /// Has this node count as started anew, as if the others had given up this start of it: it could not hold its
    /// slices for a while. This does nothing where the node counts as another start by now.
    pub fn begin_anew(&self, start: Incarnation) {
        self.inner.over.send(Some(start));
    }

    /// Waits until this start is to be over.
    pub(crate) async fn is_over(&self, start: Incarnation) {
        // The sender is here.
        let _ = self.inner.over.subscribe().wait_for(|over| *over == Some(start)).await;
    }

    /// The map. A watcher sees versions in order, but not all of them; the map is empty while there is no cluster.
    pub fn map(&self) -> watch::Receiver<Arc<ClusterMap>> {
        self.inner.published.map()
    }

    /// The map as it is agreed on now; none where this node does not lead, or no majority answers it.
    pub async fn committed_map(&self) -> Option<Arc<ClusterMap>> {
        let running = self.inner.running.get()?;
        let agreed = tokio::time::timeout(self.inner.config.timing.attempt(), running.raft.ensure_linearizable());
        agreed.await.ok()?.ok()?;
        Some(self.published().newest())
    }

    /// The secret of a filter in the map.
    pub fn secret(&self, filter: FilterId) -> Option<SecretMaterial> {
        self.inner.published.secrets().get(&filter).copied()
    }

    /// How the agreement is doing.
    pub fn status(&self) -> MetaStatus {
        let Some(running) = self.inner.running.get() else { return MetaStatus::default() };
        let metrics = running.raft.metrics().borrow().clone();
        // A leader that no majority answers is none.
        let silence_max_ms = self.inner.config.timing.election_base_ms.saturating_mul(4);
        let leads_truly = metrics.millis_since_quorum_ack.is_none_or(|silent_ms| silent_ms <= silence_max_ms);
        MetaStatus {
            leader: metrics.current_leader.filter(|_| leads_truly).map(NodeId),
            term: metrics.current_term,
            last_applied: metrics.last_applied.map_or(0, |log_id| log_id.index),
        }
    }

    /// Whether openraft is at work, or has not been begun. A process whose openraft has stopped must be started
    /// again: it looks alive and is not.
    pub fn is_alive(&self) -> bool {
        self.inner.running.get().is_none_or(|running| {
            let metrics = running.raft.metrics();
            let runs = metrics.borrow().running_state.is_ok();
            runs && metrics.has_changed().is_ok()
        })
    }

    /// Waits until openraft has stopped, as [`Self::is_alive`] says.
    pub async fn agreement_stopped(&self) {
        let mut incarnations = self.incarnation();
        let running = loop {
            match self.inner.running.get() {
                Some(running) => break running,
                // Openraft runs once there is a cluster.
                None if incarnations.changed().await.is_err() => return std::future::pending().await,
                None => {}
            }
        };
        let mut metrics = running.raft.metrics();
        while self.is_alive() {
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }

    /// Founds a cluster of this one node.
    ///
    /// # Errors
    /// [`MetaError::HasCluster`] where it belongs to one.
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

    /// Takes the identity that a cluster has given this node. A second call with the same identity does nothing.
    ///
    /// # Errors
    /// [`MetaError::HasCluster`] where it has another.
    pub async fn adopt(&self, cluster: ClusterId, node: NodeId) -> Result<(), MetaError> {
        match self.identity() {
            Some(known) if (known.cluster, known.node) == (cluster, node) => Ok(()),
            _ => self.become_member(Identity { cluster, node, founder: false, journal: cluster }).await,
        }
    }

    /// Proposes `command` to the cluster, whichever member is asked. When this returns, the map of this node shows the
    /// change, unless the node is far behind.
    ///
    /// # Errors
    /// [`MetaError`]; after [`MetaError::Unknown`], ask again under the same id.
    pub async fn propose(&self, command: Command) -> Result<Outcome, MetaError> {
        self.request(Asked::Command(command)).await
    }

    /// The service for other members, for the node's server; `is_secure` says that it asks callers for certificates.
    pub fn service(&self, is_secure: bool) -> MetaServer<MetaService> {
        meta_server(MetaService::new(self.clone(), is_secure))
    }

    /// Ends everything and closes the database. The node stays a member of its cluster, as after a crash.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        self.inner.database.stop_waiting();
        if let Some(running) = self.inner.running.get()
            && let Err(error) = running.raft.shutdown().await
        {
            tracing::warn!(%error, "the consensus ended badly");
        }
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        if let Err(error) = self.inner.database.close().await {
            tracing::warn!(%error, "the database could not be closed");
        }
    }

    pub(crate) fn running(&self) -> Result<&Running, MetaError> {
        self.inner.running.get().ok_or(MetaError::NoCluster)
    }

    pub(crate) fn published(&self) -> &Published {
        &self.inner.published
    }

    pub(crate) fn database(&self) -> &Database {
        &self.inner.database
    }

    pub(crate) fn formats(&self) -> &Formats {
        &self.inner.formats
    }

    pub(crate) fn config(&self) -> &MetaConfig {
        &self.inner.config
    }

    pub(crate) fn starts(&self) -> u64 {
        self.inner.starts
    }

    pub(crate) fn show_incarnation(&self, incarnation: Option<Incarnation>) {
        self.inner.incarnation.send(incarnation);
    }

    pub(crate) fn stopped(&self) -> &CancellationToken {
        &self.inner.stop
    }

    /// Persists the identity, then takes part under it.
    async fn become_member(&self, identity: Identity) -> Result<(), MetaError> {
        if let Some(known) = self.identity() {
            return Err(MetaError::HasCluster { node: known.node });
        }
        if self.inner.beginning.swap(true, Ordering::AcqRel) {
            return Err(MetaError::Busy);
        }
        let kept = self.inner.database.put(IDENTITY, &identity).await;
        let begun = match kept {
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
        self.inner.beginning.store(true, Ordering::Release);
        let network = Network {
            connector: Arc::clone(&inner.connector),
            published: Arc::clone(&inner.published),
            identity,
            backoff: inner.config.timing.pause(),
            channels: Channels::default(),
            refusals: LoggedRefusals::default(),
            short: Short::default(),
            formats: inner.formats.clone(),
        };
        let raft = start::raft(&inner.config, &inner.database, &network).await?;
        let jobs = start::controller(&raft, &network, &inner.config, &inner.stop, &inner.tasks);
        let leaders = leading::log_changes(raft.clone(), Arc::clone(&inner.published), inner.stop.clone());
        if inner.running.set(Running { identity, raft, network, jobs, heard: Heard::default() }).is_err() {
            return Err(MetaError::Busy);
        }
        inner.tasks.spawn(announce::until_known(self.clone()));
        inner.tasks.spawn(raising::when_all_can(self.clone()));
        inner.tasks.spawn(leaders);
        Ok(())
    }

    /// Asks the leader until there is an answer or the time is up.
    pub(crate) async fn request(&self, asked: Asked) -> Result<Outcome, MetaError> {
        let (running, timing) = (self.running()?, &self.inner.config.timing);
        if asked.can_wait() && self.is_short_of_room() {
            return Err(MetaError::NoRoom { reason: room::reason(&self.inner.config.profile.name) });
        }
        let waited_ms = if asked.is_of_members() { timing.membership_ms } else { timing.propose_ms };
        let mut last = "no leader is known".to_owned();
        let answer = async {
            loop {
                match self.attempt(running, &asked).await {
                    Ok(applied) => return Ok(applied),
                    Err(NoAnswer::Stopped(reason)) => return Err(MetaError::Stopped { reason }),
                    Err(NoAnswer::NoRoom(reason)) => return Err(MetaError::NoRoom { reason }),
                    Err(NoAnswer::Again(reason)) => last = reason,
                }
                tokio::time::sleep(timing.pause()).await;
            }
        };
        let limited = tokio::time::timeout(Duration::from_millis(waited_ms), answer).await;
        let Applied { index, outcome } =
            limited.map_err(|_| MetaError::Unknown { what: asked.what(), waited_ms, last })??;
        // The caller should find the change in the map; a node that is far behind answers nevertheless.
        tokio::time::timeout(timing.attempt(), self.inner.published.shows(index)).await.ok();
        match outcome {
            Some(outcome) => Ok(outcome?),
            None => Err(MetaError::Stopped { reason: "an entry of the log was answered as another".to_owned() }),
        }
    }

    pub(crate) async fn attempt(&self, running: &Running, asked: &Asked) -> Answer {
        match running.leader() {
            // This node's openraft waits for the disk, and does not learn that others have found another leader.
            _ if self.has_hung_disk() => self.ask_around(running, asked).await,
            None => self.ask_around(running, asked).await,
            Some(leader) if leader == running.identity.node => self.serve(running, asked.clone()).await,
            Some(leader) => self
                .forward(running, leader, asked)
                .await
                .map_err(|error| NoAnswer::Again(format!("node {leader}, the leader as far as is known: {error}")))?,
        }
    }

    /// Asks the other voters where this node knows no leader: one of them may lead, and not know yet where this node
    /// is.
    async fn ask_around(&self, running: &Running, asked: &Asked) -> Answer {
        let map = running.network.published.newest();
        let others = map.nodes.iter().filter(|(node, record)| record.voter && **node != running.identity.node);
        let mut said = String::new();
        for (node, _) in others.filter(|_| !asked.is_of_members()) {
            match self.forward(running, *node, asked).await {
                Ok(Ok(applied)) => return Ok(applied),
                Ok(Err(NoAnswer::NoRoom(reason))) => return Err(NoAnswer::NoRoom(reason)),
                Ok(Err(_)) => {}
                Err(error) => said = format!("; node {node}: {error}"),
            }
        }
        Err(NoAnswer::Again(format!("no leader is known{said}")))
    }

    async fn forward(&self, running: &Running, leader: NodeId, asked: &Asked) -> Result<Answer, CallError> {
        let timing = &self.inner.config.timing;
        let limit = if asked.is_of_members() { Duration::from_millis(timing.membership_ms) } else { timing.attempt() };
        let membership = Arc::clone(&running.raft.metrics().borrow().membership_config);
        let otherwise = membership.membership().get_node(&leader.0).cloned().unwrap_or_default();
        let member: Member = running.network.member(leader.0, &otherwise);
        let command = codec::encode_as(asked.version(), asked)?.into();
        let Identity { cluster, node, .. } = running.identity;
        let request = Proposal { cluster_id: cluster.0.to_vec().into(), command, from_node: node.0 };
        let mut client = running.network.client(&member)?;
        let reply = running.network.reply(&member, limit, client.propose(request)).await?;
        if !reply.no_room.is_empty() {
            return Ok(Err(NoAnswer::NoRoom(reply.no_room)));
        }
        if reply.outcome.is_empty() {
            return Ok(Err(NoAnswer::Again(format!("node {leader} no longer leads"))));
        }
        Ok(Ok(codec::decode(&reply.outcome)?))
    }

    /// Answers a question here, where this node leads.
    pub(crate) async fn serve(&self, running: &Running, asked: Asked) -> Answer {
        running.network.short.note(running.identity.node, self.is_short_of_room());
        if asked.can_wait()
            && let Some(reason) = running.network.short.reason(&running.network.published.newest())
        {
            return Err(NoAnswer::NoRoom(reason));
        }
        let limit = self.inner.config.timing.attempt();
        let late = |_| NoAnswer::Again(format!("no majority has answered within {limit:?}"));
        let task = match asked {
            Asked::Command(command) => {
                return tokio::time::timeout(limit, write(&running.raft, command)).await.map_err(late)?;
            }
            Asked::Confirm { node, incarnation } => {
                let confirmed = confirm::by_majority(running, node, incarnation);
                return tokio::time::timeout(limit, confirmed).await.map_err(late)?;
            }
            Asked::Join { id, address } => Task::Join { asked_by: None, id, address },
            Asked::Leave { id, node } => Task::Leave { asked_by: None, id, node },
            Asked::JoinBy { asked_by, id, address } => Task::Join { asked_by: Some(asked_by), id, address },
            Asked::LeaveBy { asked_by, id, node } => Task::Leave { asked_by: Some(asked_by), id, node },
        };
        let (answer, answered) = oneshot::channel();
        let busy = |_| NoAnswer::Again("too many nodes are joining or leaving at once".to_owned());
        running.jobs.try_send(Job { task, answer }).map_err(busy)?;
        answered.await.map_err(|_| NoAnswer::Stopped("the node is shutting down".to_owned()))?
    }
}
