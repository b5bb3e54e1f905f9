//! The replicated state that commands change. It consists of the cluster map, the hash secrets of the filters, and the
//! outcomes of the newest commands. If a command is sent a second time, its stored outcome is returned, so the sender
//! gets the same answer as the first time. The number of a node or filter is never assigned twice.
//!
//! The cluster map states a format, and the whole state is encoded in that format.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use firstseen_routing::{ClusterMap, FilterId, NodeId, SecretMaterial};
use serde::{Deserialize, Serialize};

use crate::codec::{self, CodecError};
use crate::command::{CommandId, Outcome};
use crate::refusal::Refusal;

/// Number of commands whose outcomes are remembered.
pub const OUTCOMES_MAX: usize = 4096;

/// Secrets by filter. They are never part of the map.
pub type Secrets = BTreeMap<FilterId, SecretMaterial>;

/// For each node, the other nodes that cannot reach it. This information is never part of the map.
pub(crate) type Doubts = BTreeMap<NodeId, BTreeSet<NodeId>>;

/// The complete state that the cluster agrees on.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(crate) map: Arc<ClusterMap>,
    pub(crate) secrets: Arc<Secrets>,
    /// Number of the next node.
    pub(crate) next_node: u64,
    /// For each node, the other nodes that cannot reach it.
    pub(crate) doubts: Doubts,
    outcomes: VecDeque<(CommandId, Result<Outcome, Refusal>)>,
}

impl Default for State {
    fn default() -> Self {
        let map = ClusterMap { next_filter: FilterId(1), ..ClusterMap::default() };
        Self {
            map: Arc::new(map),
            secrets: Arc::default(),
            next_node: 1,
            doubts: Doubts::default(),
            outcomes: VecDeque::new(),
        }
    }
}

/// The parts of a snapshot. The map is stored as JSON, like definitions (see [`crate::command::NewFilter`]).
#[derive(Serialize, Deserialize)]
struct Parts {
    map_json: String,
    secrets: Secrets,
    next_node: u64,
    doubts: Doubts,
    outcomes: VecDeque<(CommandId, Result<Outcome, Refusal>)>,
}

impl State {
    /// Returns the cluster map.
    pub fn map(&self) -> &Arc<ClusterMap> {
        &self.map
    }

    /// Returns the secrets.
    pub fn secrets(&self) -> &Arc<Secrets> {
        &self.secrets
    }

    /// Returns whether `node` was in the cluster and has left, or whether its number was skipped. Such a number is
    /// never used again.
    pub fn has_left(&self, node: NodeId) -> bool {
        node.0 < self.next_node && !self.map.nodes.contains_key(&node)
    }

    /// Returns the outcome of the command with this id, if the command was executed recently.
    pub(crate) fn outcome_of(&self, id: CommandId) -> Option<&Result<Outcome, Refusal>> {
        self.outcomes.iter().find(|(done, _)| *done == id).map(|(_, outcome)| outcome)
    }

    /// Remembers the outcome of a command, and forgets the oldest outcome if necessary.
    pub(crate) fn remember(&mut self, id: CommandId, outcome: Result<Outcome, Refusal>) {
        self.outcomes.push_back((id, outcome));
        if self.outcomes.len() > OUTCOMES_MAX {
            self.outcomes.pop_front();
        }
    }

    /// Encodes the entire state.
    ///
    /// # Errors
    /// [`CodecError`] if the state is too large.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        let parts = Parts {
            map_json: serde_json::to_string(&*self.map).map_err(|error| CodecError::Malformed(error.to_string()))?,
            secrets: (*self.secrets).clone(),
            next_node: self.next_node,
            doubts: self.doubts.clone(),
            outcomes: self.outcomes.clone(),
        };
        codec::encode_as(self.map.format.0, &parts)
    }

    /// Decodes a state.
    ///
    /// # Errors
    /// [`CodecError`] says what is wrong with the bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        let parts: Parts = codec::decode(bytes)?;
        let map: ClusterMap =
            serde_json::from_str(&parts.map_json).map_err(|error| CodecError::Malformed(error.to_string()))?;
        Ok(Self {
            map: Arc::new(map),
            secrets: Arc::new(parts.secrets),
            next_node: parts.next_node,
            doubts: parts.doubts,
            outcomes: parts.outcomes,
        })
    }

    /// Skips the next `numbers` node numbers, because other nodes may have assigned them.
    pub(crate) fn pass_numbers(&mut self, numbers: u64) {
        self.next_node = self.next_node.saturating_add(numbers);
    }
}

#[cfg(test)]
pub(crate) mod tests;
