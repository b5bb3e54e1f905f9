//! Cells of new events on all nodes: sent by the head, acknowledged by the others.
//!
//! Promises, case by case:
//!
//! - All positions of an event are set, also those that its test has passed, as these may expire sooner.
//! - The event stays in flight until every node has acknowledged. Where a node starts anew meanwhile, its next process
//!   does.
//! - A node may go down before it has set the event. The event counts as set there if that node can ask this one later
//!   for what it has missed, and no other node may have copied that node's slices meanwhile. If one may have, the set
//!   is *outrun*, and does not count.
//!
//! Must not know: why an event is new.

use std::cmp::Ordering;

use firstseen_filter::{GenerationNumber, HASHES_MAX};
use hashbrown::HashMap;

use super::DividedGroup;
use super::flights::{Phase, Ticket};
use super::placement::Placement;
use crate::group::rules::Rule;
use crate::ids::{Epoch, NodeId};
use crate::protocol::SetAcks;
use crate::verdict::{Decision, Reason};

/// The epoch rises when a slice leaves a node, again when it comes back, and again when the node that gave it goes down. If the
/// map is at most two epochs later than the last one that was followed here, no node has come unseen.
const EPOCHS_SEEN_MAX: u64 = 2;

/// A set on its way to a node.
pub(super) struct SetFlight {
    to: NodeId,
    generation: GenerationNumber,
    /// The epoch by which the set was sent.
    epoch: Epoch,
    /// The other node refused the set by a newer map, which has not come here yet.
    awaits_map: bool,
    /// Other nodes may have copied the slices of the set's node since then: their copies lack what this set sets.
    is_outrun: bool,
    tickets: Vec<Ticket>,
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

impl SetFlight {
    fn new(to: NodeId, generation: GenerationNumber, epoch: Epoch) -> Self {
        Self { to, generation, epoch, awaits_map: false, is_outrun: false, tickets: Vec::new() }
    }

    pub(super) fn to(&self) -> NodeId {
        self.to
    }

    pub(super) fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }

    pub(super) fn awaits_map(&self) -> bool {
        self.awaits_map
    }
}

/// Sets on their way, by number.
#[derive(Default)]
pub(super) struct Sets(HashMap<u64, SetFlight>);

impl Sets {
    pub(super) fn all(&self) -> impl Iterator<Item = &SetFlight> {
        self.0.values()
    }

    /// A set that a node may acknowledge late: none where it is over by now.
    fn unless_over(&self, number: u64, from: NodeId) -> Option<&SetFlight> {
        self.0.get(&number).filter(|set| set.to == from)
    }

    /// The numbers of the sets that match, in the order in which they were sent.
    pub(super) fn numbers(&self, is_one: impl Fn(&SetFlight) -> bool) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.0.iter().filter(|(_, set)| is_one(set)).map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }
}

impl DividedGroup {
    /// Sets an event in generation `number` on all of its nodes.
    pub(super) fn record(&mut self, ticket: Ticket, number: GenerationNumber, outcome: Decision) {
        let has_parent = self.tree.has_parent();
        let set = self.set(ticket, number);
        let Ok(waiting) = set else {
            // An event that the level above knows needs no cells here.
            if let Some(unit) =
                self.in_flight.flights.flight_mut(ticket).map(|flight| flight.stamp().unit).filter(|_| has_parent)
            {
                self.tree.forget(self.own.rule(), unit);
            }
            let outcome = set.err().filter(|_| !has_parent).map_or(outcome, Decision::Undecided);
            return self.decide_and_release(ticket, outcome);
        };
        self.counts.sets += 1;
        if outcome == Decision::FirstSeen || has_parent {
            self.fill.record();
            self.kept.count();
        }
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.set(waiting, outcome);
        }
        if waiting == 0 || !self.present.keeps(Rule::AwaitsSets) {
            self.decide_and_release(ticket, outcome);
        } else if !self.replies_when_all_acknowledged() && !self.awaits_all(ticket)
            || !self.present.keeps(Rule::AwaitsAcknowledgements)
        {
            self.decide(ticket, outcome);
        }
    }

    /// Sets the cells of an event here and sends sets to the other nodes; returns how many nodes are to acknowledge.
    /// Nothing is set where the generation is not here, or has no room.
    pub(super) fn set(&mut self, ticket: Ticket, number: GenerationNumber) -> Result<u16, Reason> {
        let Self { in_flight, own, membership, outbox, kept, present, .. } = self;
        let (flights, sets) = (&in_flight.flights, &mut in_flight.sets);
        let (placement, missed) = membership.placement_and_missed();
        let stamp = flights.flight(ticket).ok_or(Reason::NotReady)?.stamp();
        let positions = flights.positions(ticket);
        if !own.open(placement, positions, stamp.unit, number) {
            return Err(Reason::NotReady);
        }
        if present.keeps(Rule::SetsAllCells) {
            own.set(placement, positions, stamp, number).ok_or(Reason::Full)?;
        } else {
            let unset: Vec<u64> =
                positions.iter().copied().filter(|position| !own.has_set(placement, &[*position], stamp)).collect();
            own.set(placement, &unset, stamp, number).ok_or(Reason::Full)?;
        }
        kept.set(number, positions.iter().copied().filter(|position| placement.has_copy_here(*position)), stamp);
        // Each position is located once, and not again for every node.
        let mut slices = [0; HASHES_MAX as usize];
        slices.iter_mut().zip(positions).for_each(|(slice, position)| *slice = placement.locate(*position).0);
        let mut waiting = 0;
        for (index, node) in placement.nodes().iter().enumerate() {
            let there = || {
                let there = positions.iter().zip(&slices).filter(|(_, slice)| placement.has_slice(index, **slice));
                there.map(|(position, _)| *position)
            };
            if placement.is_me(index) || there().next().is_none() {
                continue;
            }
            if placement.is_gone(index) {
                missed.push(*node, number, there(), stamp, present.limits().missed_events_max);
            } else {
                let set_number = outbox.set(*node, number, there(), stamp);
                let (to, epoch) = (*node, placement.epoch());
                let new = || SetFlight::new(to, number, epoch);
                sets.0.entry(set_number).or_insert_with(new).tickets.push(ticket);
                waiting += 1;
            }
        }
        Ok(waiting)
    }

    /// Another node has set cells, or refused to.
    pub(super) fn acknowledged(&mut self, from: NodeId, acks: &SetAcks, epoch: Epoch) {
        let done = acks.set_numbers.iter().map(|number| (*number, SetEnd::Done));
        let refused = acks.refused_numbers.iter().map(|number| (*number, SetEnd::Refused));
        for (number, end) in done.chain(refused) {
            let Some(set) = self.in_flight.sets.unless_over(number, from) else { continue };
            let end = match epoch.cmp(&set.epoch) {
                Ordering::Greater if end == SetEnd::Refused => SetEnd::Stale,
                Ordering::Less if end == SetEnd::Refused => SetEnd::MapNotThere,
                _ => end,
            };
            self.end_set(number, end);
        }
    }

    /// Keeps the sets on their way to nodes that are gone by the new map.
    pub(super) fn keep_unacknowledged(&mut self) {
        let Self { in_flight, membership, present, .. } = self;
        let (flights, sets) = (&in_flight.flights, &mut in_flight.sets);
        let (placement, missed) = membership.placement_and_missed();
        for set in sets.numbers(|_| true).iter().filter_map(|number| sets.0.get(number)) {
            for ticket in &set.tickets {
                let Some(flight) = flights.unless_over(*ticket).and_then(|_| flights.flight(*ticket)) else { continue };
                let Some(to) = placement.index_of(set.to) else { continue };
                let is_there = |position: &u64| placement.has_copy(to, *position);
                let cells = flights.positions(*ticket).iter().copied().filter(is_there);
                missed.push(set.to, set.generation, cells, flight.stamp(), present.limits().missed_events_max);
            }
        }
    }

    /// Marks sets as outrun where, by the new map, other nodes may copy the slices of the set's node: nodes that have come to these
    /// slices, or have started anew. A node that goes down has not passed on the sets that it had not carried out.
    pub(super) fn follow_sets(&mut self, former: &Placement) {
        let Self { in_flight, membership, .. } = self;
        let placement = membership.placement();
        let are_unseen = placement.epoch().since(former.epoch()) > EPOCHS_SEEN_MAX;
        let outrun = in_flight.sets.0.values_mut().filter(|set| are_unseen || former.is_joined_at(set.to, placement));
        outrun.for_each(|set| set.is_outrun = true);
    }

    /// Marks events that climb, or whose sets are under way, if another node heads them by the new map, or may have headed
    /// them by a map that was missed here. Events that climb are marked, too, if the slice that did not know them was
    /// incomplete.
    pub(super) fn mark_overtaken(&mut self, former: &Placement) {
        let (was, is) = (former.epoch(), self.membership.placement().epoch());
        let are_unseen = is != was && !is.follows(was);
        let being_set = self.in_flight.sets.all().flat_map(|set| set.tickets.iter().map(|ticket| (*ticket, true)));
        let climbing = self.in_flight.flights.in_phases(|phase| phase == Phase::Climbing).into_iter();
        let climbing = climbing.map(|ticket| (ticket, former.is_all_complete()));
        for (ticket, was_certain) in being_set.chain(climbing).collect::<Vec<(Ticket, bool)>>() {
            let is_there = self.in_flight.flights.unless_over(ticket).is_some();
            if is_there
                && (are_unseen || !was_certain || !self.heads(ticket))
                && let Some(flight) = self.in_flight.flights.flight_mut(ticket)
            {
                flight.overtake();
            }
        }
    }

    /// The process of a node is gone, and with it the sets that it was to carry out: the next process is to carry them
    /// out.
    pub(super) fn end_sets_of(&mut self, node: NodeId) {
        self.end_sets(self.in_flight.sets.numbers(|set| set.to == node), SetEnd::ProcessGone);
    }

    /// Some sets are over.
    pub(super) fn end_sets(&mut self, numbers: Vec<u64>, end: SetEnd) {
        numbers.into_iter().for_each(|number| self.end_set(number, end));
    }

    /// A set is over. One that was not done is done again in the newest generation, unless that is the one that
    /// refused. It is not done again either where another node heads the event by now, and the event may come to
    /// nothing. An event that another node may have headed meanwhile is unknown; its cells are set all the same, as
    /// those that are here would make it a duplicate here and first-seen at the next head.
    fn end_set(&mut self, number: u64, end: SetEnd) {
        let ended = self.in_flight.sets.0.remove(&number);
        debug_assert!(ended.is_some(), "set {number:#x} is over already");
        let Some(set) = ended else { return };
        if end == SetEnd::Stale && self.membership.placement().epoch() <= set.epoch {
            self.in_flight.sets.0.insert(number, SetFlight { awaits_map: true, ..set });
            return;
        }
        let newest = self.fill.newest();
        // A node that is back asks the nodes with slices of the group for what it has missed; is this one of them?
        let can_be_asked_later = self.membership.placement().has_any_here();
        let is_kept = end == SetEnd::NodeGone && can_be_asked_later && !set.is_outrun;
        let may_go_again = match end {
            SetEnd::Done => false,
            SetEnd::Refused => newest > set.generation,
            SetEnd::ProcessGone | SetEnd::Stale | SetEnd::MapNotThere | SetEnd::NodeGone => !is_kept,
        };
        for ticket in set.tickets {
            let event =
                self.in_flight.flights.event_unless_over(ticket).map(|(batch, event)| &*batch.flight_mut(event));
            let Some(flight) = event.filter(|flight| flight.phase() == Phase::Setting) else { continue };
            let (is_recorded, is_overtaken) = (!flight.may_come_to_nothing(), flight.is_overtaken());
            let goes_again = may_go_again && (is_recorded || self.heads(ticket));
            let again = if goes_again { self.set(ticket, newest).ok() } else { None };
            let is_again = again.is_some() && (can_be_asked_later || !self.is_missed(ticket));
            if end != SetEnd::Done && (is_overtaken || !is_kept && !is_again) {
                self.decide(ticket, Decision::Undecided(Reason::Unknown));
            }
            let Some(flight) = self.in_flight.flights.flight_mut(ticket) else { continue };
            if flight.end_set(again.unwrap_or(0)) {
                let outcome = flight.outcome();
                self.decide_and_release(ticket, outcome);
            }
        }
    }

    /// Whether a node that is gone misses an event.
    fn is_missed(&self, ticket: Ticket) -> bool {
        let positions = self.in_flight.flights.positions(ticket);
        let placement = self.membership.placement();
        let mut gone = placement.gone_peers().filter_map(|node| placement.index_of(node));
        gone.any(|node| positions.iter().any(|position| placement.has_copy(node, *position)))
    }

    /// Whether an event begins here, by the map that counts.
    fn heads(&self, ticket: Ticket) -> bool {
        let positions = self.in_flight.flights.positions(ticket);
        self.membership.placement().head(positions) == Some(self.membership.site().me)
    }
}
