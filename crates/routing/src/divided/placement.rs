//! Where the slices of one group live.
//!
//! Promises: every position below the group's cells has a slice, and every slice a node. Must not know: cells, events.

use crate::{FilterRecord, GroupPlan, NodeId};

/// The nodes of a group's slices, and which positions each slice has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    plan: GroupPlan,
    /// Every node once.
    nodes: Vec<NodeId>,
    /// By slice of the group: index into `nodes`.
    node_of_slice: Vec<usize>,
    /// Where `nodes` has this node; one beyond the end where it has none of the slices.
    me: usize,
}

impl Placement {
    /// As `record` says of `group`; slices beyond its owners belong to no node.
    pub(crate) fn new(record: &FilterRecord, group: u32, me: NodeId, plan: GroupPlan) -> Self {
        let slices = plan.slices_per_group();
        let first = group.saturating_mul(slices);
        let owner = |slice| record.owner(first.saturating_add(slice)).map_or(NodeId::default(), |owner| owner.node);
        let owners: Vec<NodeId> = (0..slices).map(owner).collect();
        let mut nodes = owners.clone();
        nodes.sort_unstable();
        nodes.dedup();
        let index_of = |node: &NodeId| nodes.binary_search(node).unwrap_or(nodes.len());
        let node_of_slice = owners.iter().map(index_of).collect();
        let me = index_of(&me);
        Self { plan, nodes, node_of_slice, me }
    }

    pub(crate) fn plan(&self) -> &GroupPlan {
        &self.plan
    }

    pub(crate) fn slices(&self) -> usize {
        self.node_of_slice.len()
    }

    /// Slice of the group, and the position in it.
    #[inline]
    pub(crate) fn locate(&self, position: u64) -> (usize, u64) {
        let (slice, offset) = self.plan.place(position);
        (slice as usize, offset)
    }

    /// The index of the node that has this position.
    #[inline]
    pub(crate) fn node_at(&self, position: u64) -> usize {
        self.node_of_slice[self.locate(position).0]
    }

    pub(crate) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    pub(crate) fn index_of(&self, node: NodeId) -> Option<usize> {
        self.nodes.binary_search(&node).ok()
    }

    pub(crate) fn me(&self) -> usize {
        self.me
    }

    pub(crate) fn is_mine(&self, position: u64) -> bool {
        self.node_at(position) == self.me
    }

    pub(crate) fn owns_slice(&self, slice: usize) -> bool {
        self.node_of_slice[slice] == self.me
    }

    /// Whether a list that came from outside can be one of an event of this group.
    pub(crate) fn admits(&self, positions: &[u64]) -> bool {
        let cells = self.plan.group_cells();
        (1..=self.plan.shape().hashes() as usize).contains(&positions.len())
            && positions.iter().all(|position| *position < cells)
    }
}
