//! Identifies one start of a node by the number of the node and its incarnation. When a node restarts, reports that it
//! sent before the restart may still arrive. The incarnation distinguishes them from current reports.

use firstseen_routing::{ClusterMap, Incarnation, NodeId};

/// A node in one of its starts.
#[derive(Clone, Copy)]
pub(crate) struct NodeStart {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
}

impl NodeStart {
    /// Returns whether the cluster accepts reports of this start. Reports of an earlier start are ignored, because the
    /// cells that they describe were lost in the restart. Reports of a node that is marked down are ignored too,
    /// because that node lacks events.
    pub(crate) fn counts_in(self, map: &ClusterMap) -> bool {
        map.nodes.get(&self.node).is_some_and(|record| record.incarnation == self.incarnation && !record.is_down)
    }
}
