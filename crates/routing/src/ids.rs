//! Numbers of what there is in a cluster.
//!
//! Promises: none is given twice. Must not know: what they are given to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A node; a number is never given twice, not even after its node has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Each of these nodes once, by number.
pub(crate) fn distinct(nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = nodes.collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// A filter; a number is never given twice, so a filter that was dropped and made again is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FilterId(pub u64);

impl fmt::Display for FilterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts the starts of a node's process. 0 has not started yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// The number of a filter that rises when events may get another head, or a slice another copy: those who know an older
/// one are refused (elsewhere: a fencing token).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of a filter since which nothing has changed.
    pub const FIRST: Self = Self(1);

    /// Whether this is the epoch right after `former`.
    pub fn follows(self, former: Self) -> bool {
        self == former.after(1)
    }

    /// The epoch that is so many later.
    pub fn after(self, epochs: u64) -> Self {
        Self(self.0.saturating_add(epochs))
    }

    /// How many epochs this one is later than `former`; 0 where it is not.
    pub fn since(self, former: Self) -> u64 {
        self.0.saturating_sub(former.0)
    }

    /// Heads or copies change: it is the next one from now on.
    pub fn rise(&mut self) {
        *self = self.after(1);
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// 128 bits, different in any two clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(pub [u8; 16]);

/// 32 hexadecimal digits.
impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
