//! Identifiers of nodes, filters, starts of nodes, epochs and clusters. No identifier is assigned twice.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a node. A number is never assigned twice, not even after its node has left the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns each of these nodes once, sorted by number.
pub(crate) fn distinct(nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = nodes.collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// Number that identifies a filter. If a filter is dropped and another filter is created under the same name, the new
/// filter has another number, because no number is ever assigned twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FilterId(pub u64);

impl fmt::Display for FilterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of starts of a node's process. The value 0 means that the process has not started yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// Version number of a filter, which rises whenever events may get another head node or a slice may get another copy.
/// The epoch works as a fencing token. A node rejects messages with an older epoch, because their sender may not know
/// the current head nodes and copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Epoch of a new filter, in which nothing has changed yet.
    pub const FIRST: Self = Self(1);

    /// Returns whether this epoch directly follows `former`.
    pub fn follows(self, former: Self) -> bool {
        self == former.after(1)
    }

    /// Returns the epoch that is later by the given number of epochs.
    pub fn after(self, epochs: u64) -> Self {
        Self(self.0.saturating_add(epochs))
    }

    /// Returns how many epochs this epoch is later than `former`, or 0 if it is not later.
    pub fn since(self, former: Self) -> u64 {
        self.0.saturating_sub(former.0)
    }

    /// Advances to the next epoch, because head nodes or copies change.
    pub fn rise(&mut self) {
        *self = self.after(1);
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Random identifier of a cluster, 128 bits long and different for any two clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(pub [u8; 16]);

/// Formats the identifier as 32 hexadecimal digits.
impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
