//! Hinted handoff: what a node that is down misses. This node hands the events that it records meanwhile over when the
//! other is back, as long as they are not too many. Then the other is complete again at once, instead of when all that
//! it has missed has expired.
//!
//! Promises: a node says that it has handed everything over only where it has seen the other go down and come back, has
//! kept everything in between, and no third node has gone for good with events that it alone has kept. What is kept is
//! bounded. Must not know: how long the other is away, what the other still has.

use std::collections::BTreeMap;

use firstseen_filter::{GenerationNumber, Stamp};

use crate::group::divided::outbox::Outbox;
use crate::group::divided::placement::Placement;
use crate::ids::{Epoch, NodeId};

/// A node needs four epochs to join the group, head events and leave again: it comes by one map, takes over by another,
/// and goes by two more. If a map is at most three epochs later than the last that was followed here, no such node was
/// missed in between.
const EPOCHS_MISSED_MAX: u64 = 3;

/// What other nodes miss.
#[derive(Default)]
pub(crate) struct Missed {
    /// Whether this process was there from the beginning, and no node of the beginning has left.
    is_fresh: bool,
    /// By node that is gone from the group.
    gone: BTreeMap<NodeId, MissedByNode>,
    /// What was handed over to nodes that have come back.
    handed_over: BTreeMap<NodeId, Returned>,
}

/// What one node misses.
struct MissedByNode {
    sets: Vec<MissedSet>,
    /// Nothing was forgotten.
    is_all: bool,
    /// No node has gone that may have recorded something without this one.
    are_all_here: bool,
}

/// What a node that has come back was handed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Returned {
    /// All that it had missed was handed over.
    pub(super) is_all: bool,
    /// Every node that has recorded something without it is still there to say so.
    pub(super) are_all_here: bool,
}

struct MissedSet {
    generation: GenerationNumber,
    /// Positions of the node's slices.
    cells: Box<[u64]>,
    stamp: Stamp,
}

impl Missed {
    /// An event was recorded without a node that is down; up to `events_max` of these are remembered.
    pub(crate) fn push(
        &mut self,
        node: NodeId,
        generation: GenerationNumber,
        cells: impl Iterator<Item = u64>,
        stamp: Stamp,
        events_max: usize,
    ) {
        let Some(missing) = self.gone.get_mut(&node).filter(|missing| missing.is_all) else { return };
        if missing.sets.len() < events_max {
            missing.sets.push(MissedSet { generation, cells: cells.collect(), stamp })
        } else {
            (missing.sets, missing.is_all) = (Vec::new(), false)
        }
    }

    /// What a node that has come back was handed of the events recorded while it was away.
    pub(super) fn handed_over(&self, node: NodeId) -> Returned {
        self.handed_over.get(&node).copied().unwrap_or(Returned { is_all: false, are_all_here: self.is_fresh })
    }

    /// Nodes may be down already when this process begins: it does not know what its predecessor has recorded without
    /// them, and which nodes have left since.
    pub(super) fn begin(placement: &Placement) -> Self {
        let is_all = placement.is_fresh_here();
        // No node has gone since the filter was made, either.
        let is_fresh = is_all || placement.epoch() == Epoch::FIRST;
        let gone = placement.gone_peers().map(|node| {
            let missing = MissedByNode { sets: Vec::new(), is_all, are_all_here: is_fresh };
            (node, missing)
        });
        Self { is_fresh, gone: gone.collect(), handed_over: BTreeMap::new() }
    }

    /// Nodes go down and come back: the latter are sent what they have missed, and returned. Where all `are_known`,
    /// every node that records something without a node that goes down now has slices.
    pub(super) fn follow(
        &mut self,
        former: &Placement,
        placement: &Placement,
        are_known: bool,
        outbox: &mut Outbox,
    ) -> Vec<NodeId> {
        for node in placement.gone_peers().filter(|node| !former.gone_peers().any(|other| other == *node)) {
            self.handed_over.remove(&node);
            // No node here has what it lacked before. One that has read back all that it had lacks nothing, though the map does not
            // call it complete yet: what its process has lost, it knows itself.
            let is_all = !former.has_gap_at(node);
            self.gone.entry(node).or_insert(MissedByNode { sets: Vec::new(), is_all, are_all_here: are_known });
        }
        let has_none_left = former.nodes().iter().all(|node| placement.index_of(*node).is_some());
        let are_all_here = has_none_left && placement.epoch().since(former.epoch()) <= EPOCHS_MISSED_MAX;
        if !are_all_here {
            self.is_fresh = false;
            self.gone.values_mut().for_each(|missing| missing.are_all_here = false);
            // A node that has come back may not have got all that it was sent.
            for (node, handed_over) in &mut self.handed_over {
                if !placement.is_complete_at(*node) {
                    *handed_over = Returned { is_all: false, are_all_here: false };
                }
            }
        }
        let mut returned = Vec::new();
        for (node, start) in placement.live_peers() {
            if let Some(MissedByNode { sets, is_all, are_all_here }) = self.gone.remove(&node) {
                // Slices may have left the node meanwhile; it would refuse a set with a slice that it does not have as
                // a whole.
                let index = placement.index_of(node).unwrap_or(usize::MAX);
                for MissedSet { generation, cells, stamp } in sets {
                    let cells: Vec<u64> =
                        cells.into_iter().filter(|position| placement.has_copy(index, *position)).collect();
                    if !cells.is_empty() {
                        // This node does not wait for the acknowledgement: the other knows what it has refused.
                        outbox.set(node, generation, cells, stamp);
                    }
                }
                self.handed_over.insert(node, Returned { is_all: is_all && are_all_here, are_all_here });
                returned.push(node);
            } else if former.live_peers().any(|(other, before)| other == node && before != start) {
                // Sets on their way to its last process are sent again, and nothing was recorded without it.
                let is_all = are_all_here && !former.has_gap_at(node);
                self.handed_over.insert(node, Returned { is_all, are_all_here });
            }
        }
        returned
    }
}
