//! A node's part in the cluster: who it is, the map as far as it knows, and changes of it.
//!
//! Promises: the map is what a majority has agreed on, perhaps not the newest; a command that is answered as done was
//! done once, and the node that proposed it sees it in its map. Must not know: what the node does with the map.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use firstseen_routing::{ClusterMap, FilterId, Incarnation, NodeId, SecretMaterial};
use firstseen_wire::net::Connector;
use firstseen_wire::proto::meta::Proposal;
use firstseen_wire::watch;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::asked::Asked;
use crate::codec;
use crate::command::{Command, Outcome};
use crate::config::MetaConfig;
use crate::error::MetaError;
use crate::formats::Formats;
use crate::membership::{Answer, Job, NoAnswer, Task, write};
use crate::network::CallError;
use crate::room;
use crate::running::Running;
use crate::store::{Database, Identity, Published};
use crate::types::{Applied, Member, Versioned};

/// A node's part in the cluster. Clones are the same.
#[derive(Clone)]
pub struct Meta {
    pub(crate) inner: Arc<Inner>,
}

/// What all clones of a [`Meta`] share.
pub(crate) struct Inner {
    pub(crate) config: MetaConfig,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) database: Database,
    pub(crate) published: Arc<Published>,
    /// How often the database has been opened: no two lives of a node share command ids.
    pub(crate) starts: u64,
    pub(crate) beginning: AtomicBool,
    pub(crate) running: OnceLock<Running>,
    pub(crate) incarnation: watch::Sender<Option<Incarnation>>,
    /// The start of this node that is to be over.
    pub(crate) over: watch::Sender<Option<Incarnation>>,
    pub(crate) formats: Formats,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
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
    /// The part of a node whose database is open, and has been opened `starts` times. It does not take part in a cluster
    /// yet.
    pub(crate) fn new(config: MetaConfig, connector: Arc<dyn Connector>, database: Database, starts: u64) -> Self {
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
        Self { inner: Arc::new(inner) }
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
        Some(self.inner.published.newest())
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

    /// Proposes `command` to the cluster, whichever member is asked. When this returns, the map of this node shows the
    /// change, unless the node is far behind.
    ///
    /// # Errors
    /// [`MetaError`]; after [`MetaError::Unknown`], ask again under the same id.
    pub async fn propose(&self, command: Command) -> Result<Outcome, MetaError> {
        self.request(Asked::Command(command)).await
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

    /// Whether the disk has no room but that kept back for the agreement, or not even that: no other part of the node
    /// may take any. Watchers know before that room can be used.
    pub fn short_of_room(&self) -> watch::Receiver<bool> {
        self.inner.database.watch_short()
    }

    pub(crate) fn is_short_of_room(&self) -> bool {
        *self.short_of_room().borrow()
    }

    /// Whether the disk of the agreement hangs: this node gets no newer map, and has no say, until the disk answers.
    pub fn disk_hangs(&self) -> watch::Receiver<bool> {
        self.inner.database.watch_hangs()
    }

    pub(crate) fn has_hung_disk(&self) -> bool {
        self.inner.database.hangs()
    }

    /// Looks whether that disk hangs, for ever: one change may take as long as `patience`.
    pub async fn look_after_disk(&self, patience: Duration) {
        self.inner.database.look_after(patience).await;
    }

    pub(crate) fn running(&self) -> Result<&Running, MetaError> {
        self.inner.running.get().ok_or(MetaError::NoCluster)
    }

    /// Asks the leader until there is an answer or the time is up.
    pub(crate) async fn request(&self, asked: Asked) -> Result<Outcome, MetaError> {
        let running = self.running()?;
        let timing = &self.inner.config.timing;
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
        let task = match asked {
            Asked::Command(command) => return within(limit, write(&running.raft, command)).await,
            Asked::Confirm { node, incarnation } => {
                return within(limit, running.confirm_by_majority(node, incarnation)).await;
            }
            Asked::Join { id, address } => Task::Join { asked_by: None, id, address },
            Asked::Leave { id, node } => Task::Leave { asked_by: None, id, node },
            Asked::JoinBy { asked_by, id, address } => Task::Join { asked_by: Some(asked_by), id, address },
            Asked::LeaveBy { asked_by, id, node } => Task::Leave { asked_by: Some(asked_by), id, node },
        };
        let (answer, answered) = oneshot::channel();
        if running.jobs.try_send(Job { task, answer }).is_err() {
            return Err(NoAnswer::Again("too many nodes are joining or leaving at once".to_owned()));
        }
        answered.await.map_err(|_| NoAnswer::Stopped("the node is shutting down".to_owned()))?
    }
}

/// Waits for an answer that a majority has to give, no longer than `limit`.
async fn within(limit: Duration, answer: impl Future<Output = Answer>) -> Answer {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(NoAnswer::Again(format!("no majority has answered within {limit:?}"))),
    }
}
