//! Computes which slices and nodes an event visits. The computation is a short model that is independent of the code
//! under test. The tests of this crate and of `node` compare the model with the real visits.
//!
//! The model describes the visits for a single event while no other event is in flight. For such an event, the state
//! machines of a group must make exactly the same visits. The model has no messages and no cells of its own, so the
//! caller provides a function that returns which cells are set.

use firstseen_routing::{Lookup, NodeId, Step};

/// The visits of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Visits {
    /// Number of slices that tested the event.
    pub(crate) test_slices: u64,
    /// Number of nodes that tested the event.
    pub(crate) test_nodes: u64,
    /// Number of positions that were tested.
    pub(crate) positions_tested: u64,
    /// Number of slices that would record the event.
    pub(crate) set_slices: u64,
    /// Number of nodes that would record the event.
    pub(crate) set_nodes: u64,
    /// Generations in which all of the event's positions are set. Empty if there was an empty cell.
    pub(crate) generations: u16,
}

/// Returns the visits of an event. `steps` contains one step for each slice with positions of the event. `node_of`
/// returns the node that has a slice. `held` returns the generations in which all positions of a step are set, as a bit
/// mask.
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
        // In a parallel lookup, a node gets the findings of the head only.
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
