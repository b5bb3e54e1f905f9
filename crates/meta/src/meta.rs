//! A node's membership in its cluster: its identity, the cluster map that it knows, and proposals of changes.
//!
//! # Guarantees
//! - The map contains only changes that a majority has agreed on. It may not be the newest map.
//! - A command that is reported as done was executed exactly once. The node that proposed it then sees the change in
//!   its map.

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

/// A node's membership in its cluster. Clones share the same state.
#[derive(Clone)]
pub struct Meta {
    pub(crate) inner: Arc<Inner>,
}

/// State that all clones of a [`Meta`] share.
pub(crate) struct Inner {
    pub(crate) config: MetaConfig,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) database: Database,
    pub(crate) published: Arc<Published>,
    /// Number of times that the database has been opened. Different starts of a node use different command ids because
    /// of this number.
    pub(crate) starts: u64,
    pub(crate) beginning: AtomicBool,
    pub(crate) running: OnceLock<Running>,
    pub(crate) incarnation: watch::Sender<Option<Incarnation>>,
    /// The start of this node that must be replaced by a new one.
    pub(crate) over: watch::Sender<Option<Incarnation>>,
    pub(crate) formats: Formats,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// State of the consensus, as far as this node knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaStatus {
    /// The leader. `None` means that no leader is known, or that no majority answers it.
    pub leader: Option<NodeId>,
    /// The newest term.
    pub term: u64,
    /// Index of the newest log entry that the map includes.
    pub last_applied: u64,
}

impl Meta {
    /// Creates the membership of a node whose database is open and has been opened `starts` times. The node does not
    /// take part in a cluster yet.
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

    /// Returns the node's identity. `None` means that the node does not belong to a cluster.
    pub fn identity(&self) -> Option<Identity> {
        self.inner.running.get().map(|running| running.identity)
    }

    /// Returns whether this node was a member of its cluster and has left it.
    pub fn has_left(&self) -> bool {
        self.identity().is_some_and(|identity| self.inner.published.has_left(identity.node))
    }

    /// Returns a receiver for the current incarnation of this node, which is the number of its start in the cluster
    /// map. The value is `None` until the cluster map contains the start. If the node asks the cluster to count as
    /// restarted, the value becomes `None` again until the map contains the new start.
    pub fn incarnation(&self) -> watch::Receiver<Option<Incarnation>> {
        self.inner.incarnation.subscribe()
    }

    /// Makes this node count as restarted, as if the other nodes had marked it as down. A node calls this method after
    /// it was unable to hold its slices for a while, because its slices then lack events. The call ends the incarnation
    /// `start`, which is the number of the node's present start. If the node already has a different incarnation, the
    /// call has no effect.
    pub fn mark_restarted(&self, start: Incarnation) {
        self.inner.over.send(Some(start));
    }

    /// Waits until the given start must be replaced by a new one.
    pub(crate) async fn is_over(&self, start: Incarnation) {
        // This value owns the sender, so waiting cannot fail.
        let _ = self.inner.over.subscribe().wait_for(|over| *over == Some(start)).await;
    }

    /// Returns a receiver for the cluster map. The receiver gets versions of the map in ascending order, but it may
    /// skip versions if the map changes quickly. The map is empty as long as the node does not belong to a cluster.
    pub fn map(&self) -> watch::Receiver<Arc<ClusterMap>> {
        self.inner.published.map()
    }

    /// Returns the map that the cluster currently agrees on. Returns `None` if this node is not the leader, or if no
    /// majority answers it.
    pub async fn committed_map(&self) -> Option<Arc<ClusterMap>> {
        let running = self.inner.running.get()?;
        let agreed = tokio::time::timeout(self.inner.config.timing.attempt(), running.raft.ensure_linearizable());
        agreed.await.ok()?.ok()?;
        Some(self.inner.published.newest())
    }

    /// Returns the secret of a filter in the map.
    pub fn secret(&self, filter: FilterId) -> Option<SecretMaterial> {
        self.inner.published.secrets().get(&filter).copied()
    }

    /// Returns the state of the consensus.
    pub fn status(&self) -> MetaStatus {
        let Some(running) = self.inner.running.get() else { return MetaStatus::default() };
        let metrics = running.raft.metrics().borrow().clone();
        // A leader that no majority answers does not count as a leader.
        let silence_max_ms = self.inner.config.timing.election_base_ms.saturating_mul(4);
        let leads_truly = metrics.millis_since_quorum_ack.is_none_or(|silent_ms| silent_ms <= silence_max_ms);
        MetaStatus {
            leader: metrics.current_leader.filter(|_| leads_truly).map(NodeId),
            term: metrics.current_term,
            last_applied: metrics.last_applied.map_or(0, |log_id| log_id.index),
        }
    }

    /// Returns `false` if openraft has stopped on this node, for example after an error of the disk. The process must
    /// then be restarted, because it can no longer take part in the consensus. The result is `true` if openraft is
    /// running, or if it has not been started because the node does not belong to a cluster yet.
    pub fn is_alive(&self) -> bool {
        self.inner.running.get().is_none_or(|running| {
            let metrics = running.raft.metrics();
            let runs = metrics.borrow().running_state.is_ok();
            runs && metrics.has_changed().is_ok()
        })
    }

    /// Waits until openraft has stopped, as defined by [`Self::is_alive`].
    pub async fn agreement_stopped(&self) {
        let mut incarnations = self.incarnation();
        let running = loop {
            match self.inner.running.get() {
                Some(running) => break running,
                // Openraft starts when the node belongs to a cluster.
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

    /// Proposes a command to the cluster, and waits for its outcome. The method can be called on every member, and
    /// forwards the command to the leader. When it returns, the cluster map of this node usually contains the change
    /// already. The map lacks the change only if this node is far behind the leader.
    ///
    /// # Errors
    /// Returns a [`MetaError`]. After [`MetaError::Unknown`], the caller can repeat the command with the same id.
    pub async fn propose(&self, command: Command) -> Result<Outcome, MetaError> {
        self.request(Asked::Command(command)).await
    }

    /// Stops all tasks and closes the database. The node remains a member of its cluster, as after a crash.
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

    /// Returns a receiver that tells whether the disk is nearly full. The value is `true` if only the space that is
    /// reserved for the consensus log is left. While the value is `true`, all other parts of the node must stop using
    /// disk space. The value changes to `true` before the consensus log begins to use the reserved space.
    pub fn nearly_full(&self) -> watch::Receiver<bool> {
        self.inner.database.watch_nearly_full()
    }

    pub(crate) fn is_short_of_room(&self) -> bool {
        *self.nearly_full().borrow()
    }

    /// Returns a receiver that tells whether the disk of the consensus log does not respond. While the value is `true`,
    /// the map of this node is not updated, and the node cannot vote in elections.
    pub fn disk_hangs(&self) -> watch::Receiver<bool> {
        self.inner.database.watch_hangs()
    }

    pub(crate) fn has_hung_disk(&self) -> bool {
        self.inner.database.hangs()
    }

    /// Checks periodically whether that disk hangs. A single change may take up to `patience`. This method never
    /// returns.
    pub async fn look_after_disk(&self, patience: Duration) {
        self.inner.database.look_after(patience).await;
    }

    pub(crate) fn running(&self) -> Result<&Running, MetaError> {
        self.inner.running.get().ok_or(MetaError::NoCluster)
    }

    /// Sends a request to the leader until it is answered or the time limit ends.
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
        // The caller expects to find the change in the map. A node that is far behind answers anyway.
        tokio::time::timeout(timing.attempt(), self.inner.published.shows(index)).await.ok();
        match outcome {
            Some(outcome) => Ok(outcome?),
            None => Err(MetaError::Stopped {
                reason: "a log entry was answered with the result of another entry".to_owned(),
            }),
        }
    }

    pub(crate) async fn attempt(&self, running: &Running, asked: &Asked) -> Answer {
        match running.leader() {
            // The openraft instance of this node waits for the disk, so it does not learn about a new leader.
            _ if self.has_hung_disk() => self.ask_other_voters(running, asked).await,
            None => self.ask_other_voters(running, asked).await,
            Some(leader) if leader == running.identity.node => self.serve(running, asked.clone()).await,
            Some(leader) => self
                .forward(running, leader, asked)
                .await
                .map_err(|error| NoAnswer::Again(format!("node {leader}, the last known leader: {error}")))?,
        }
    }

    /// Sends the request to the other voters, one after the other, until one of them answers as the leader. This method
    /// is used when this node does not know the leader. For example, the address of this node may have changed. As long
    /// as the leader does not know the new address, it cannot send messages to this node, so this node does not learn
    /// who leads.
    async fn ask_other_voters(&self, running: &Running, asked: &Asked) -> Answer {
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

    /// Answers a request on this node, which must be the leader.
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

/// Waits for an answer that requires a majority, but no longer than `limit`.
async fn within(limit: Duration, answer: impl Future<Output = Answer>) -> Answer {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(NoAnswer::Again(format!("no majority has answered within {limit:?}"))),
    }
}
