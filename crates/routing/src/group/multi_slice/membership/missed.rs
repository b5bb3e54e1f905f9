//! Hinted handoff: keeps the events that another node misses while it is down. While the other node is down, this node
//! stores every event that it records, up to a limit. It hands these events over when the other node comes back. The
//! other node is then complete at once, and need not wait until all missed events have expired.
//!
//! A node reports that it has handed over everything only under three conditions:
//!
//! - The node has seen the other node go down and come back.
//! - The node has kept every event that it recorded in between.
//! - No third node has gone for good with events that only the third node kept.

use std::collections::BTreeMap;

use firstseen_filter::{GenerationNumber, Stamp};

use crate::group::multi_slice::outbox::Outbox;
use crate::group::multi_slice::placement::Placement;
use crate::ids::{Epoch, NodeId};

/// Maximum number of epochs between two successively applied cluster maps for which this node still knows every node
/// that was a head in between. A node could stay unknown only if it joined the group, decided events, and left again
/// between the two maps. These changes take four epochs: one to join, one to take over slices, and two to leave. With
/// at most three epochs, no node is unknown.
const EPOCHS_MISSED_MAX: u64 = 3;

/// The events that other nodes miss.
#[derive(Default)]
pub(crate) struct Missed {
    /// Whether this process has existed from the beginning and no node of the beginning has left.
    is_fresh: bool,
    /// Missed events, by node that is gone from the group.
    gone: BTreeMap<NodeId, MissedByNode>,
    /// What was handed over to nodes that have come back.
    handed_over: BTreeMap<NodeId, Returned>,
}

/// The events that one node misses.
struct MissedByNode {
    sets: Vec<MissedSet>,
    /// Whether no missed event was dropped.
    is_all: bool,
    /// Whether no node has gone that may have recorded events without this node.
    are_all_here: bool,
}

/// What a node that has come back was handed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Returned {
    /// Whether all events that the node missed were handed over.
    pub(super) is_all: bool,
    /// Whether every node that recorded events without it still exists and can report them.
    pub(super) are_all_here: bool,
}

struct MissedSet {
    generation: GenerationNumber,
    /// Positions in the node's slices.
    cells: Box<[u64]>,
    stamp: Stamp,
}

impl Missed {
    /// Keeps an event that was recorded without a node that is down. At most `events_max` events are kept per node.
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

    /// Returns what a node that has come back was handed of the events recorded while it was away.
    pub(super) fn handed_over(&self, node: NodeId) -> Returned {
        self.handed_over.get(&node).copied().unwrap_or(Returned { is_all: false, are_all_here: self.is_fresh })
    }

    /// Creates the record of missed events when a process starts. Some nodes may already be down at that time, and the
    /// earlier process may have recorded events without them. The new process does not know these events. When such a
    /// node returns, the events that it receives may therefore be incomplete, and the hand-over is reported as
    /// incomplete. The only exception is a new filter, in which no event was recorded before.
    pub(super) fn begin(placement: &Placement) -> Self {
        let is_all = placement.is_fresh_here();
        // If the filter is still at its first epoch, no node has gone since it was created.
        let is_fresh = is_all || placement.epoch() == Epoch::FIRST;
        let gone = placement.gone_peers().map(|node| {
            let missing = MissedByNode { sets: Vec::new(), is_all, are_all_here: is_fresh };
            (node, missing)
        });
        Self { is_fresh, gone: gone.collect(), handed_over: BTreeMap::new() }
    }

    /// Applies a new placement of slices in which nodes go down or come back. Sends the missed events to the nodes that
    /// have come back, and returns these nodes.
    ///
    /// When a node goes down, the remaining nodes record events without it. `are_known` states whether all nodes that
    /// may do so have slices of the group. Only then can the returning node ask all of them for the events that it has
    /// missed.
    pub(super) fn follow(
        &mut self,
        former: &Placement,
        placement: &Placement,
        are_known: bool,
        outbox: &mut Outbox,
    ) -> Vec<NodeId> {
        for node in placement.gone_peers().filter(|node| !former.gone_peers().any(|other| other == *node)) {
            self.handed_over.remove(&node);
            // No node here keeps events that the other node lacked before. A node that has restored everything that it
            // had lacks nothing, even if the map does not call it complete yet. It knows itself which events its
            // process has lost.
            let is_all = !former.has_gap_at(node);
            self.gone.entry(node).or_insert(MissedByNode { sets: Vec::new(), is_all, are_all_here: are_known });
        }
        let has_none_left = former.nodes().iter().all(|node| placement.index_of(*node).is_some());
        let are_all_here = has_none_left && placement.epoch().since(former.epoch()) <= EPOCHS_MISSED_MAX;
        if !are_all_here {
            self.is_fresh = false;
            self.gone.values_mut().for_each(|missing| missing.are_all_here = false);
            // A node that has come back may not have received everything that it was sent.
            for (node, handed_over) in &mut self.handed_over {
                if !placement.is_complete_at(*node) {
                    *handed_over = Returned { is_all: false, are_all_here: false };
                }
            }
        }
        let mut returned = Vec::new();
        for (node, start) in placement.live_peers() {
            if let Some(MissedByNode { sets, is_all, are_all_here }) = self.gone.remove(&node) {
                // Slices may have left the node meanwhile. The node would reject the whole set if it contained a slice
                // that the node does not have.
                let index = placement.index_of(node).unwrap_or(usize::MAX);
                for MissedSet { generation, cells, stamp } in sets {
                    let cells: Vec<u64> =
                        cells.into_iter().filter(|position| placement.has_copy(index, *position)).collect();
                    if !cells.is_empty() {
                        // This node does not wait for the acknowledgement, because the other node knows which sets it
                        // has rejected.
                        outbox.set(node, generation, cells, stamp);
                    }
                }
                self.handed_over.insert(node, Returned { is_all: is_all && are_all_here, are_all_here });
                returned.push(node);
            } else if former.live_peers().any(|(other, before)| other == node && before != start) {
                // Sets on their way to the node's last process are sent again, and no event was recorded without the
                // node.
                let is_all = are_all_here && !former.has_gap_at(node);
                self.handed_over.insert(node, Returned { is_all, are_all_here });
            }
        }
        returned
    }
}
