//! A start of a node, which tells its messages from those of earlier starts. This module does not know what messages say.

use firstseen_routing::{ClusterMap, Incarnation, NodeId};

/// A node as of one of its starts.
#[derive(Clone, Copy)]
pub(crate) struct NodeStart {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
}

impl NodeStart {
    /// Returns whether a report of this start counts: one of an earlier start does not, as that start's cells are gone,
    /// nor one of a node that is down, as it misses events.
    pub(crate) fn counts_in(self, map: &ClusterMap) -> bool {
        map.nodes.get(&self.node).is_some_and(|record| record.incarnation == self.incarnation && !record.is_down)
    }
}
