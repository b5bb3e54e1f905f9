//! The state that commands change: the map, the secrets, and the outcomes of the newest commands.
//!
//! Numbers of nodes and filters are never given twice. The bytes of a state are written in the format of its map. This
//! module does not know the commands ([`crate::apply`] does), nor openraft, disks, the network and clocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use firstseen_routing::{ClusterMap, FilterId, NodeId, SecretMaterial};
use serde::{Deserialize, Serialize};

use crate::codec::{self, CodecError};
use crate::command::{CommandId, Outcome};
use crate::refusal::Refusal;

/// Commands whose outcomes are remembered.
pub const OUTCOMES_MAX: usize = 4096;

/// Secrets by filter; never part of the map.
pub type Secrets = BTreeMap<FilterId, SecretMaterial>;

/// By node, the others that cannot reach it; never part of the map.
pub(crate) type Doubts = BTreeMap<NodeId, BTreeSet<NodeId>>;

/// Everything that is agreed on.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(crate) map: Arc<ClusterMap>,
    pub(crate) secrets: Arc<Secrets>,
    /// The number of the next node.
    pub(crate) next_node: u64,
    /// By node, the others that cannot reach it.
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

/// The parts of a snapshot. The map travels as JSON, as definitions do (see [`crate::command::NewFilter`]).
#[derive(Serialize, Deserialize)]
struct Parts {
    map_json: String,
    secrets: Secrets,
    next_node: u64,
    doubts: Doubts,
    outcomes: VecDeque<(CommandId, Result<Outcome, Refusal>)>,
}

impl State {
    /// The map.
    pub fn map(&self) -> &Arc<ClusterMap> {
        &self.map
    }

    /// The secrets.
    pub fn secrets(&self) -> &Arc<Secrets> {
        &self.secrets
    }

    /// Whether `node` was in the cluster and has left, or its number was passed over. It is never a member again.
    pub fn has_left(&self, node: NodeId) -> bool {
        node.0 < self.next_node && !self.map.nodes.contains_key(&node)
    }

    /// Returns the outcome of the command of this id, if it was done lately.
    pub(crate) fn outcome_of(&self, id: CommandId) -> Option<&Result<Outcome, Refusal>> {
        self.outcomes.iter().find(|(done, _)| *done == id).map(|(_, outcome)| outcome)
    }

    /// Remembers the outcome of a command, in the place of the oldest one.
    pub(crate) fn remember(&mut self, id: CommandId, outcome: Result<Outcome, Refusal>) {
        self.outcomes.push_back((id, outcome));
        if self.outcomes.len() > OUTCOMES_MAX {
            self.outcomes.pop_front();
        }
    }

    /// The bytes of the whole state.
    ///
    /// # Errors
    /// [`CodecError`] where it is too large.
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

    /// The state that `bytes` encode.
    ///
    /// # Errors
    /// [`CodecError`]: what is wrong with the bytes.
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

    /// Passes over the next so many numbers of nodes, which others may have given.
    pub(crate) fn pass_numbers(&mut self, numbers: u64) {
        self.next_node = self.next_node.saturating_add(numbers);
    }
}

#[cfg(test)]
pub(crate) mod tests;
