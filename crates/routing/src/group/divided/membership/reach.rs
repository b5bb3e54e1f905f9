//! Nodes that have been out of reach for so long that nobody waits for them any more, and the events that are *stuck*:
//! whose cells are being set on such a node.
//!
//! Promises: an event that needs a slice of such a node is undecided at once, and nothing is set for it; an event that
//! is being set there stays in flight, and takes no room from other events. Must not know: how it is noticed that a
//! node is out of reach.

use std::collections::BTreeSet;

use crate::group::divided::flights::Ticket;
use crate::group::divided::placement::Placement;
use crate::ids::NodeId;

/// Nodes out of reach, and the events that are stuck.
#[derive(Default)]
pub(crate) struct Unreachable {
    nodes: BTreeSet<NodeId>,
    stuck_events: usize,
}

impl Unreachable {
    /// Whether a copy of one of these positions is on such a node.
    #[inline]
    pub(crate) fn has_any(&self, placement: &Placement, mut positions: impl Iterator<Item = u64>) -> bool {
        if self.nodes.is_empty() {
            return false;
        }
        let nodes = self.nodes.iter().filter_map(|node| placement.index_of(*node));
        positions.any(|position| nodes.clone().any(|node| placement.has_copy(node, position)))
    }

    /// Events that are stuck: new ones cannot be among them, so they are bounded without a limit of
    /// their own.
    pub(crate) fn stuck_events(&self) -> usize {
        self.stuck_events
    }

    /// Other nodes are out of reach than before; false where they are the same.
    pub(super) fn follow(&mut self, nodes: &BTreeSet<NodeId>) -> bool {
        let is_new = *nodes != self.nodes;
        if is_new {
            self.nodes.clone_from(nodes);
        }
        is_new
    }

    /// Counts the events of sets that wait for such nodes.
    pub(super) fn count_stuck<'a>(&mut self, sets: impl Iterator<Item = (NodeId, &'a [Ticket])>) {
        let stuck = sets.filter(|(to, _)| self.nodes.contains(to)).flat_map(|(_, tickets)| tickets);
        self.stuck_events = stuck.collect::<BTreeSet<_>>().len();
    }
}
