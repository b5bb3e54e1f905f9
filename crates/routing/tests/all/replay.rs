//! The slices and nodes that an event visits: the pipeline once more, in a few plain lines, for tests of this crate and
//! of `node`.
//!
//! Promises: the visits that the state machines of a group make for one event when nothing else is in flight. Must not
//! know: messages, what cells hold (an oracle is asked).

use firstseen_routing::{Lookup, NodeId, Step};

/// The visits of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Visits {
    /// Slices that tested it.
    pub(crate) test_slices: u64,
    /// Nodes that tested it.
    pub(crate) test_nodes: u64,
    /// Positions that were tested.
    pub(crate) positions_tested: u64,
    /// Slices that would record it.
    pub(crate) set_slices: u64,
    /// Nodes that would record it.
    pub(crate) set_nodes: u64,
    /// Generations that hold all of its positions; none where there was a zero.
    pub(crate) generations: u16,
}

/// Follows the event of `steps`, where `node_of` gives the node of each slice and `held` the generations that hold the
/// positions of a step.
pub(crate) fn replay(
    steps: &[Step<'_>],
    node_of: impl Fn(u32) -> NodeId,
    lookup: Lookup,
    mut held: impl FnMut(&Step<'_>) -> u16,
) -> Visits {
    let mut nodes: Vec<NodeId> = Vec::new();
    for step in steps {
        let node = node_of(step.slice);
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    let (set_slices, set_nodes) = (steps.len() as u64, nodes.len() as u64);
    let mut visits = Visits { set_slices, set_nodes, generations: u16::MAX, ..Visits::default() };
    let mut known = u16::MAX;
    for (index, node) in nodes.iter().enumerate() {
        // In a parallel lookup, a node gets the finding of the head, and nothing of the others.
        if index <= 1 || lookup == Lookup::Pipelined {
            known = visits.generations;
        }
        let mut possible = known;
        visits.test_nodes += 1;
        for step in steps.iter().filter(|step| node_of(step.slice) == *node) {
            visits.test_slices += 1;
            visits.positions_tested += step.positions.len() as u64;
            possible &= held(step);
            if possible == 0 {
                break;
            }
        }
        visits.generations &= possible;
        if visits.generations == 0 && (index == 0 || lookup == Lookup::Pipelined) {
            break;
        }
    }
    visits
}
