//! What a node that is down misses: events that this node records meanwhile are handed over when it is back, as long as
//! they are not too many. Then it is complete again at once, instead of when all that it has missed has expired.
//!
//! Promises: a node says that it has handed everything over only where it has seen the other go down and come back, has kept
//! everything in between, and nobody else has gone for good with what only he has kept. What is kept is bounded. Must not know:
//! how long a node is away, what it still has.

use std::collections::BTreeMap;

use firstseen_filter::Stamp;

use crate::group::divided::outbox::Outbox;
use crate::group::divided::placement::Placement;
use crate::ids::NodeId;
use crate::map::FilterRecord;

/// Whoever came to the group after one map, headed events and left again is not seen by who knows the map and the next but so
/// many: it comes by one, takes over by another, and goes by two more.
const EPOCHS_MISSED_MAX: u64 = 3;

/// What other nodes miss.
#[derive(Default)]
pub(crate) struct Missed {
    /// Whether this process was there from the beginning, and nobody who was has left.
    is_fresh: bool,
    down: BTreeMap<NodeId, Missing>,
    /// Of nodes that have come back.
    handed_over: BTreeMap<NodeId, HandedOver>,
}

/// What one node misses.
struct Missing {
    sets: Vec<MissingSet>,
    /// Nothing was forgotten.
    is_all: bool,
    /// Nobody has gone who may have recorded something without it.
    are_all_here: bool,
}

/// What a node that has come back was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HandedOver {
    /// Whatever it had missed.
    pub(super) is_all: bool,
    /// Whoever has recorded something without it can say so.
    pub(super) are_all_here: bool,
}

struct MissingSet {
    generation: u64,
    /// Positions of the node's slices.
    cells: Box<[u64]>,
    stamp: Stamp,
}

impl Missed {
    /// An event was recorded without a node that is down; of `events_max` it is remembered.
    pub(crate) fn push(
        &mut self,
        node: NodeId,
        generation: u64,
        cells: impl Iterator<Item = u64>,
        stamp: Stamp,
        events_max: usize,
    ) {
        let Some(missing) = self.down.get_mut(&node).filter(|missing| missing.is_all) else { return };
        if missing.sets.len() < events_max {
            missing.sets.push(MissingSet { generation, cells: cells.collect(), stamp })
        } else {
            (missing.sets, missing.is_all) = (Vec::new(), false)
        }
    }

    /// What a node that has come back was told of what was recorded while it was away.
    pub(super) fn handed_over(&self, node: NodeId) -> HandedOver {
        self.handed_over.get(&node).copied().unwrap_or(HandedOver { is_all: false, are_all_here: self.is_fresh })
    }

    /// Nodes that are down already when this one begins: what an earlier process of it has recorded without them, and who has
    /// left since, nobody knows.
    pub(super) fn begin(placement: &Placement) -> Self {
        let is_all = placement.is_fresh_here();
        // Nobody has gone since the filter was made, either.
        let is_fresh = is_all || placement.epoch() == FilterRecord::FIRST_EPOCH;
        let missing = || Missing { sets: Vec::new(), is_all, are_all_here: is_fresh };
        let down = placement.down_peers().map(|node| (node, missing()));
        Self { is_fresh, down: down.collect(), handed_over: BTreeMap::new() }
    }

    /// Nodes go down and come back: what these have missed is sent to them. Tells who has come back. Of who goes down now,
    /// whoever has recorded something without it has slices, where all `are_known`.
    pub(super) fn follow(
        &mut self,
        former: &Placement,
        placement: &Placement,
        are_known: bool,
        outbox: &mut Outbox,
    ) -> Vec<NodeId> {
        for node in placement.down_peers().filter(|node| !former.down_peers().any(|other| other == *node)) {
            self.handed_over.remove(&node);
            // What it lacked before, nobody here has.
            let is_all = former.is_complete_at(node);
            self.down.entry(node).or_insert(Missing { sets: Vec::new(), is_all, are_all_here: are_known });
        }
        let has_left = |node: &NodeId| placement.index_of(*node).is_none();
        let epochs = placement.epoch().saturating_sub(former.epoch());
        let are_all_here = !former.nodes().iter().any(has_left) && epochs <= EPOCHS_MISSED_MAX;
        if !are_all_here {
            self.is_fresh = false;
            self.down.values_mut().for_each(|missing| missing.are_all_here = false);
            // Who has come back may not have got what it was sent.
            let is_incomplete = |node: &NodeId| !placement.is_complete_at(*node);
            let unsure = HandedOver { is_all: false, are_all_here: false };
            let returned = self.handed_over.iter_mut().filter(|(node, _)| is_incomplete(node));
            returned.for_each(|(_, handed_over)| *handed_over = unsure);
        }
        let mut returned = Vec::new();
        for (node, start) in placement.live_peers() {
            if let Some(Missing { sets, is_all, are_all_here }) = self.down.remove(&node) {
                // Slices may have left it meanwhile; what it does not have, it would refuse, and what comes along with that.
                let index = placement.index_of(node).unwrap_or(usize::MAX);
                let is_there = |position: &u64| placement.is_held(index, *position);
                for MissingSet { generation, cells, stamp } in sets {
                    let cells: Vec<u64> = cells.into_iter().filter(is_there).collect();
                    if !cells.is_empty() {
                        // Nobody waits for the acknowledgement: the other node knows what it has refused.
                        outbox.set(node, generation, cells, stamp);
                    }
                }
                self.handed_over.insert(node, HandedOver { is_all: is_all && are_all_here, are_all_here });
                returned.push(node);
            } else if former.live_peers().any(|(other, before)| other == node && before != start) {
                // What was on its way to its last process is sent again, and nothing was recorded without it.
                let is_all = are_all_here && former.is_complete_at(node);
                self.handed_over.insert(node, HandedOver { is_all, are_all_here });
            }
        }
        returned
    }
}
