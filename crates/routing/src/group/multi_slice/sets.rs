//! Sets in flight. A set is a request to another node to set the cells of new events, and the other node must
//! acknowledge it. Each set ends exactly once, in one of the ways that [`SetEnd`] lists.

use std::cmp::Ordering;

use firstseen_filter::GenerationNumber;
use hashbrown::HashMap;

use super::flights::Ticket;
use super::placement::Placement;
use crate::ids::{Epoch, NodeId};

/// Maximum number of epochs between two successively applied cluster maps for which this node still notices every node
/// that has received a copy of a slice in between. A node could receive one unnoticed only by three changes: a slice
/// leaves a node, the slice comes back, and the node from which it came back goes down. Each change takes an epoch, so
/// two epochs are not enough for that.
const EPOCHS_SEEN_MAX: u64 = 2;

/// A set in flight to a node.
pub(super) struct SetFlight {
    pub(super) to: NodeId,
    pub(super) generation: GenerationNumber,
    /// The epoch by which the set was sent.
    pub(super) epoch: Epoch,
    /// Whether the other node rejected the set by a newer map that has not arrived here yet.
    pub(super) awaits_map: bool,
    /// Whether other nodes may have copied the slices of the set's node since. Their copies then lack the cells of this
    /// set.
    pub(super) is_outrun: bool,
    /// The events whose cells are set.
    pub(super) tickets: Vec<Ticket>,
}

/// How a set ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetEnd {
    /// The cells are set, or need not be set.
    Done,
    /// The cells could not be set, because the generation no longer exists on the other node.
    Refused,
    /// The process that should set the cells is gone. The node's next process may set them.
    ProcessGone,
    /// The node is gone from the group according to the map, and the set is kept for it.
    NodeGone,
    /// The map by which the set was sent is outdated.
    Stale,
    /// The other node does not know the map by which the set was sent yet.
    MapNotThere,
}

/// Sets in flight, by number.
#[derive(Default)]
pub(super) struct Sets(HashMap<u64, SetFlight>);

impl Sets {
    pub(super) fn all(&self) -> impl Iterator<Item = &SetFlight> {
        self.0.values()
    }

    /// Adds an event to the set with this number, which is sent by the map of `epoch`.
    pub(super) fn add(&mut self, number: u64, to: NodeId, generation: GenerationNumber, epoch: Epoch, ticket: Ticket) {
        let set = self.0.entry(number).or_insert_with(|| SetFlight {
            to,
            generation,
            epoch,
            awaits_map: false,
            is_outrun: false,
            tickets: Vec::new(),
        });
        set.tickets.push(ticket);
    }

    /// Removes a set that has ended.
    pub(super) fn take(&mut self, number: u64) -> Option<SetFlight> {
        let set = self.0.remove(&number);
        debug_assert!(set.is_some(), "set {number:#x} is over already");
        set
    }

    /// Puts a set back that was rejected by a newer map. It waits for that map.
    pub(super) fn await_map(&mut self, number: u64, set: SetFlight) {
        self.0.insert(number, SetFlight { awaits_map: true, ..set });
    }

    /// Returns how a set ends that node `from` has acknowledged with `end` by the map of `epoch`. Returns `None` if the
    /// set has already ended.
    pub(super) fn end_by(&self, number: u64, from: NodeId, epoch: Epoch, end: SetEnd) -> Option<SetEnd> {
        let set = self.0.get(&number).filter(|set| set.to == from)?;
        Some(match epoch.cmp(&set.epoch) {
            Ordering::Greater if end == SetEnd::Refused => SetEnd::Stale,
            Ordering::Less if end == SetEnd::Refused => SetEnd::MapNotThere,
            _ => end,
        })
    }

    /// Returns all sets in the order in which they were sent.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &SetFlight> {
        self.numbers(|_| true).into_iter().filter_map(|number| self.0.get(&number))
    }

    /// Returns the numbers of the sets that match, in the order in which they were sent.
    pub(super) fn numbers(&self, is_one: impl Fn(&SetFlight) -> bool) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.0.iter().filter(|(_, set)| is_one(set)).map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Marks sets in flight as outrun. A set is a request to a destination node to set the cells of new events. Before
    /// the set arrives there, the slices of the destination may have been copied to a third node. The set is then
    /// called outrun, because the copy on the third node lacks its cells.
    ///
    /// A set is marked if the new placement shows that another node has received slices of the destination, or has
    /// restarted with such slices. If this node has missed several cluster maps, it cannot rule out such a change, so
    /// it marks the set as well.
    pub(super) fn follow(&mut self, former: &Placement, placement: &Placement) {
        let are_unseen = placement.epoch().since(former.epoch()) > EPOCHS_SEEN_MAX;
        for set in self.0.values_mut() {
            set.is_outrun |= are_unseen || former.is_joined_at(set.to, placement);
        }
    }
}
