//! The parts of a node that exist only while the node belongs to a cluster, such as its openraft instance and its
//! connections to other members.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use firstseen_routing::{Incarnation, NodeId};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::command::Outcome;
use crate::membership::{Answer, Job, NoAnswer};
use crate::network::Network;
use crate::store::Identity;
use crate::types::{Applied, Raft};

/// Time at which this node last received a message from a leader that it knows.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<Option<Instant>>);

impl Heard {
    pub(crate) fn now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    pub(crate) fn is_within(&self, limit: Duration) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < limit)
    }
}

/// The parts of a node that run while it belongs to a cluster.
pub(crate) struct Running {
    pub(crate) identity: Identity,
    pub(crate) raft: Raft,
    pub(crate) network: Network,
    pub(crate) jobs: mpsc::Sender<Job>,
    pub(crate) heard: Heard,
}

impl Running {
    /// Returns the leader as far as this node knows.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.raft.metrics().borrow().current_leader.map(NodeId)
    }

    /// Returns whether this node is the leader, as far as it knows.
    pub(crate) fn leads(&self) -> bool {
        self.leader() == Some(self.identity.node)
    }

    /// Returns whether a node counts as up in the given incarnation. Only the leader can answer this question, because
    /// it answers from its own state. Its state could be outdated if another node had become the leader in the
    /// meantime, so this method first asks a majority of the nodes to confirm that this node still leads.
    pub(crate) async fn confirm_by_majority(&self, node: NodeId, incarnation: Incarnation) -> Answer {
        let read = self.raft.ensure_linearizable().await.map_err(|error| NoAnswer::Again(error.to_string()))?;
        let index = read.map_or(0, |log_id| log_id.index);
        let published = &self.network.published;
        published.shows(index).await;
        let map = published.newest();
        let record = map.nodes.get(&node).filter(|record| record.incarnation == incarnation);
        let is_up = record.is_some_and(|record| !record.is_down);
        Ok(Applied { index, outcome: Some(Ok(Outcome::Confirmed { is_up })) })
    }
}
