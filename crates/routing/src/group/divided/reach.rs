//! Nodes that have been out of reach for so long that nobody waits for them any more.
//!
//! Promises: an event that needs a slice of such a node is told so at once, and nothing is set for it; what is being set
//! there stays in flight, and takes no room from other events. Must not know: how it is noticed.

use std::collections::BTreeSet;

use super::DividedGroup;
use super::placement::Placement;
use crate::group::thresholds::TOO_FEW_LEFT;
use crate::ids::NodeId;
use crate::protocol::{Command, Moment};

/// The nodes, and the events that are being set there.
#[derive(Default)]
pub(super) struct Unreachable {
    nodes: BTreeSet<NodeId>,
    stuck_events: usize,
}

impl Unreachable {
    /// Whether a copy of one of these positions is on such a node.
    #[inline]
    pub(super) fn has_any(&self, placement: &Placement, mut positions: impl Iterator<Item = u64>) -> bool {
        let nodes = || self.nodes.iter().filter_map(|node| placement.index_of(*node));
        !self.nodes.is_empty() && positions.any(|position| nodes().any(|node| placement.is_held(node, position)))
    }

    /// Events whose sets wait for such a node: new ones cannot be among them, so they are bounded without a limit of
    /// their own.
    pub(super) fn stuck_events(&self) -> usize {
        self.stuck_events
    }
}

impl DividedGroup {
    /// Other nodes are out of reach than before.
    pub(crate) fn reach_changed(&mut self, nodes: &BTreeSet<NodeId>, now: Moment, commands: &mut Vec<Command>) {
        if *nodes == self.unreachable.nodes {
            return;
        }
        self.now = now;
        self.unreachable.nodes.clone_from(nodes);
        self.count_stuck_events();
        let asks_them = |group: &Self, ticket: u64| {
            let positions = group.flights.as_ref().map_or(&[][..], |flights| flights.positions(ticket));
            group.unreachable.has_any(&group.placement, positions.iter().copied())
        };
        self.give_up_tests(asks_them, TOO_FEW_LEFT);
        self.finish(commands);
    }

    pub(super) fn count_stuck_events(&mut self) {
        let nodes = &self.unreachable.nodes;
        let stuck = self.sets.values().filter(|set| nodes.contains(&set.to())).flat_map(|set| set.tickets());
        self.unreachable.stuck_events = stuck.collect::<BTreeSet<_>>().len();
    }
}
