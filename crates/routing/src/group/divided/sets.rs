//! Sets on their way: cells of new events that other nodes are to set, and to acknowledge.
//!
//! Promises: a set ends once. Must not know: why an event is new, what the end of a set means for it.

use std::cmp::Ordering;

use firstseen_filter::GenerationNumber;
use hashbrown::HashMap;

use super::flights::Ticket;
use super::placement::Placement;
use crate::ids::{Epoch, NodeId};

/// The epoch rises when a slice leaves a node, again when it comes back, and again when the node that gave it goes down. If the
/// map is at most two epochs later than the last one that was followed here, no node has come unseen.
const EPOCHS_SEEN_MAX: u64 = 2;

/// A set on its way to a node.
pub(super) struct SetFlight {
    pub(super) to: NodeId,
    pub(super) generation: GenerationNumber,
    /// The epoch by which the set was sent.
    pub(super) epoch: Epoch,
    /// The other node refused the set by a newer map, which has not come here yet.
    pub(super) awaits_map: bool,
    /// Other nodes may have copied the slices of the set's node since then: their copies lack what this set sets.
    pub(super) is_outrun: bool,
    /// The events whose cells these are.
    pub(super) tickets: Vec<Ticket>,
}

/// How a set ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetEnd {
    /// The cells are set, or need not be.
    Done,
    /// They could not be set, as the generation is gone there.
    Refused,
    /// The process that was to set them is gone; the node's next one may set them.
    ProcessGone,
    /// The node is gone from the group, by the map: the set is kept for it.
    NodeGone,
    /// The map by which the set was sent is over.
    Stale,
    /// The map by which the set was sent is not known there yet.
    MapNotThere,
}

/// Sets on their way, by number.
#[derive(Default)]
pub(super) struct Sets(HashMap<u64, SetFlight>);

impl Sets {
    pub(super) fn all(&self) -> impl Iterator<Item = &SetFlight> {
        self.0.values()
    }

    /// Adds an event to the set of this number, which is on its way by the map of `epoch`.
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

    /// Takes out a set that is over.
    pub(super) fn take(&mut self, number: u64) -> Option<SetFlight> {
        let set = self.0.remove(&number);
        debug_assert!(set.is_some(), "set {number:#x} is over already");
        set
    }

    /// The set goes on: it waits for the map by which the other node refused it.
    pub(super) fn await_map(&mut self, number: u64, set: SetFlight) {
        self.0.insert(number, SetFlight { awaits_map: true, ..set });
    }

    /// How a set ends that node `from`, by the map of `epoch`, has acknowledged with `end`. `None` if it is over by now.
    pub(super) fn end_by(&self, number: u64, from: NodeId, epoch: Epoch, end: SetEnd) -> Option<SetEnd> {
        let set = self.0.get(&number).filter(|set| set.to == from)?;
        Some(match epoch.cmp(&set.epoch) {
            Ordering::Greater if end == SetEnd::Refused => SetEnd::Stale,
            Ordering::Less if end == SetEnd::Refused => SetEnd::MapNotThere,
            _ => end,
        })
    }

    /// All sets, in the order in which they were sent.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &SetFlight> {
        self.numbers(|_| true).into_iter().filter_map(|number| self.0.get(&number))
    }

    /// The numbers of the sets that match, in the order in which they were sent.
    pub(super) fn numbers(&self, is_one: impl Fn(&SetFlight) -> bool) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.0.iter().filter(|(_, set)| is_one(set)).map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Marks sets as outrun where, by the new map, other nodes may copy the slices of the set's node: nodes that have
    /// come to these slices, or have started anew. A node that goes down has not passed on the sets that it had not
    /// carried out.
    pub(super) fn follow(&mut self, former: &Placement, placement: &Placement) {
        let are_unseen = placement.epoch().since(former.epoch()) > EPOCHS_SEEN_MAX;
        for set in self.0.values_mut() {
            set.is_outrun |= are_unseen || former.is_joined_at(set.to, placement);
        }
    }
}
