//! Nodes that have been unreachable for so long that new events no longer wait for them. An event is *stuck* if its
//! cells are being set on such a node, because the acknowledgement of that node may not arrive for a long time.
//!
//! If a new event needs a slice of an unreachable node, the event is undecided at once, and none of its cells is set.
//! An event that is already stuck stays in flight. Stuck events do not count against the limit of events in flight,
//! because otherwise they could use up the limit, and the group would reject even the events that reachable nodes can
//! decide.

use std::collections::BTreeSet;

use crate::group::multi_slice::flights::Ticket;
use crate::group::multi_slice::placement::Placement;
use crate::ids::NodeId;

/// Unreachable nodes, and the number of stuck events.
#[derive(Default)]
pub(crate) struct Unreachable {
    nodes: BTreeSet<NodeId>,
    stuck_events: usize,
}

impl Unreachable {
    /// Returns whether an unreachable node has a copy of one of these positions.
    #[inline]
    pub(crate) fn has_any(&self, placement: &Placement, mut positions: impl Iterator<Item = u64>) -> bool {
        if self.nodes.is_empty() {
            return false;
        }
        let nodes = self.nodes.iter().filter_map(|node| placement.index_of(*node));
        positions.any(|position| nodes.clone().any(|node| placement.has_copy(node, position)))
    }

    /// Returns the number of stuck events, which are events whose cells are being set on an unreachable node. Their
    /// number needs no limit of its own. When a node becomes unreachable, no further cells are set on it, so the number
    /// can only decrease from then on.
    pub(crate) fn stuck_events(&self) -> usize {
        self.stuck_events
    }

    /// Updates the unreachable nodes. Returns `false` if they are the same as before.
    pub(super) fn follow(&mut self, nodes: &BTreeSet<NodeId>) -> bool {
        let is_new = *nodes != self.nodes;
        if is_new {
            self.nodes.clone_from(nodes);
        }
        is_new
    }

    /// Counts the events of sets that wait for unreachable nodes.
    pub(super) fn count_stuck<'a>(&mut self, sets: impl Iterator<Item = (NodeId, &'a [Ticket])>) {
        let stuck = sets.filter(|(to, _)| self.nodes.contains(to)).flat_map(|(_, tickets)| tickets);
        self.stuck_events = stuck.collect::<BTreeSet<_>>().len();
    }
}
