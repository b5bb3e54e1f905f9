//! Where the slices of one group live, and which of them may deny that an event was recorded.
//!
//! Promises: every position below the group's cells has a slice, and every slice a node; who votes on an event is what the
//! map says. Must not know: cells, events.

use firstseen_filter::HASHES_MAX;

use crate::{ClusterMap, FilterRecord, GroupPlan, NodeId};

/// The nodes of a group's slices, and which positions each slice has.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    plan: GroupPlan,
    /// Every node once.
    nodes: Vec<NodeId>,
    /// By slice of the group: index into `nodes`.
    node_of_slice: Vec<usize>,
    /// Where `nodes` has this node; one beyond the end where it has none of the slices.
    me: usize,
    /// By slice of the group: it has had everything that was ever recorded in it.
    is_complete: Vec<bool>,
    all_complete: bool,
}

/// The positions of an event that are tested: the first of these.
pub(super) struct Voters {
    positions: [u64; HASHES_MAX as usize],
    len: usize,
    is_partial: bool,
    has_incomplete: bool,
}

impl Voters {
    /// Positions were left out, on slices that are incomplete.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Slices that are incomplete, or will be by a newer map, vote too.
    pub(super) fn has_incomplete(&self) -> bool {
        self.has_incomplete
    }

    pub(super) fn positions(&self) -> &[u64] {
        &self.positions[..self.len]
    }
}

/// Which slices of a group have had everything that was ever recorded in them.
pub(crate) fn completeness(map: &ClusterMap, record: &FilterRecord, group: u32) -> Vec<bool> {
    let per_group = record.definition.slicing.slices_per_group();
    let first = group.saturating_mul(per_group);
    (first..first.saturating_add(per_group)).map(|slice| map.is_complete(record, slice)).collect()
}

impl Placement {
    /// As `record` says of `group`; slices beyond its owners belong to no node.
    pub(crate) fn new(record: &FilterRecord, group: u32, me: NodeId, plan: GroupPlan, is_complete: Vec<bool>) -> Self {
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
        let all_complete = is_complete.iter().all(|complete| *complete);
        Self { plan, nodes, node_of_slice, me, is_complete, all_complete }
    }

    /// Whether slices are where `other` has them.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.nodes == other.nodes && self.node_of_slice == other.node_of_slice
    }

    /// Whether all slices that this node has are complete.
    pub(crate) fn is_complete_here(&self) -> bool {
        let mut own = self.node_of_slice.iter().zip(&self.is_complete).filter(|(node, _)| **node == self.me).peekable();
        own.peek().is_some() && own.all(|(_, complete)| *complete)
    }

    /// The positions of an event whose slices may deny that it was recorded: those on complete slices. All of them where
    /// fewer than `min_live` would be left (Koloniari 2011, section 3.2): then a zero may stand for what was lost.
    pub(super) fn voters(&self, positions: &[u64], min_live: usize) -> Voters {
        let votes = |position: &&u64| self.is_complete.get(self.locate(**position).0).copied().unwrap_or(true);
        let all_vote = self.all_complete || min_live == usize::MAX;
        let live = if all_vote { positions.len() } else { positions.iter().filter(votes).count() };
        let asks_all = live < min_live;
        let mut voters = Voters {
            positions: [0; HASHES_MAX as usize],
            len: 0,
            is_partial: !asks_all && live < positions.len(),
            has_incomplete: asks_all,
        };
        for position in positions.iter().filter(|position| all_vote || asks_all || votes(position)) {
            voters.positions[voters.len] = *position;
            voters.len += 1;
        }
        voters
    }

    /// Whether none of these positions is on a slice here that has lost something.
    pub(super) fn has_lost_nothing_of(&self, positions: &[u64]) -> bool {
        let is_lost = |position: &u64| {
            let slice = self.locate(*position).0;
            self.node_of_slice[slice] == self.me && !self.is_complete[slice]
        };
        self.all_complete || !positions.iter().any(is_lost)
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
