//! Sets the cells of new events on all nodes. The head sends the sets, and the other nodes acknowledge them.
//!
//! # Guarantees
//!
//! - All positions of an event are set. This includes positions that its test found set, because those cells may expire
//!   sooner.
//! - The event stays in flight until every node has acknowledged. If a node restarts meanwhile, its next process must
//!   acknowledge.
//! - A node may go down before it has set the event. The event counts as set there if that node can later ask this node
//!   for the events that it missed, and no other node may have copied its slices meanwhile. If another node may have
//!   copied them, the set is *outrun* and does not count.

use firstseen_filter::{GenerationNumber, HASHES_MAX};

use super::decide::Next;
use super::durable::ToPersist;
use super::flights::{Phase, Ticket};
use super::in_flight::InFlight;
use super::local::LocalState;
use super::outbox::Outbox;
use super::placement::Placement;
use super::sets::{SetEnd, SetFlight};
use crate::group::rules::Rule;
use crate::group::state::Counts;
use crate::protocol::Operation;
use crate::verdict::{Decision, Reason};

/// Handler that records new events on this node and on other nodes.
pub(super) struct Recording<'a> {
    pub(super) local: &'a mut LocalState,
    pub(super) in_flight: &'a mut InFlight,
    pub(super) outbox: &'a mut Outbox,
    pub(super) kept: &'a mut ToPersist,
    pub(super) counts: &'a mut Counts,
}

impl Recording<'_> {
    /// Records a new event in the newest generation, if there is room.
    pub(super) fn record_if_room(&mut self, ticket: Ticket) -> Option<Next> {
        let unit = self.in_flight.flights.flight(ticket)?.stamp().unit;
        match self.local.room(unit, 0, self.outbox) {
            Ok(()) => self.record(ticket, self.local.fill.newest(), Decision::FirstSeen),
            Err(reason) => Some(Next::Decide(Decision::Undecided(reason))),
        }
    }

    /// Records an event again that was found here. If there is no room, it is recorded in the oldest generation that
    /// contains it.
    pub(super) fn record_again(&mut self, ticket: Ticket) -> Option<Next> {
        let flight = self.in_flight.flights.flight(ticket)?;
        let newest = self.local.fill.newest();
        let number = match self.local.room(flight.stamp().unit, 0, self.outbox) {
            Ok(()) => newest,
            Err(_) => oldest_of(flight.generations(), newest),
        };
        self.record(ticket, number, Decision::Duplicate)
    }

    /// Records an event in the newest generation and gives it this verdict.
    pub(super) fn record_as(&mut self, ticket: Ticket, outcome: Decision) -> Option<Next> {
        self.record(ticket, self.local.fill.newest(), outcome)
    }

    /// Records an event in generation `number`, by setting its cells on all nodes that hold its positions. Returns the
    /// next step, which sends the verdict. If the verdict may be sent only after other nodes have acknowledged the
    /// cells, there is no next step yet, and the result is `None`.
    fn record(&mut self, ticket: Ticket, number: GenerationNumber, outcome: Decision) -> Option<Next> {
        let has_parent = self.local.tree.has_parent();
        let waiting = match self.set(ticket, number) {
            Ok(waiting) => waiting,
            Err(reason) if !has_parent => return Some(Next::Decide(Decision::Undecided(reason))),
            Err(_) => {
                // An event that the parent level knows needs no cells here.
                if let Some(flight) = self.in_flight.flights.flight(ticket) {
                    self.local.tree.forget(self.local.own.rule(), flight.stamp().unit);
                }
                return Some(Next::Decide(outcome));
            }
        };
        self.counts.sets += 1;
        if outcome == Decision::FirstSeen || has_parent {
            self.local.fill.record();
            self.kept.count();
        }
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.set(waiting, outcome);
        }
        let present = &self.local.present;
        if waiting == 0 || !present.keeps(Rule::AwaitsSets) {
            return Some(Next::Decide(outcome));
        }
        let awaits_all = self.local.policies.replies_when_all_acknowledged() || self.confirms(ticket);
        let waits = awaits_all && present.keeps(Rule::AwaitsAcknowledgements);
        (!waits).then_some(Next::Reply(outcome))
    }

    /// Returns whether this submission is the confirmation of a claim. A filter may send other replies early, before
    /// all nodes have recorded the event. The reply to a confirmation always waits until they have, because the client
    /// relies on the event being recorded.
    fn confirms(&self, ticket: Ticket) -> bool {
        let event = self.in_flight.flights.event(ticket);
        let is_confirm = event.is_some_and(|event| event.operation() == Operation::Confirm);
        is_confirm && self.local.present.keeps(Rule::ConfirmsAwaitAll)
    }

    /// Sets the cells of an event on this node, and sends requests to set its other cells to the other nodes. Returns
    /// the number of nodes that must acknowledge. If this node has not opened the generation or has no room in it, no
    /// cell is set and the result is an error.
    pub(super) fn set(&mut self, ticket: Ticket, number: GenerationNumber) -> Result<u16, Reason> {
        let LocalState { own, membership, present, .. } = &mut *self.local;
        let (placement, missed) = membership.placement_and_missed();
        let event = self.in_flight.flights.event(ticket).ok_or(Reason::NotReady)?;
        let stamp = event.stamp();
        let positions = event.positions();
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
        self.kept.set(number, positions.iter().copied().filter(|position| placement.has_copy_here(*position)), stamp);
        // Each position is located once here, instead of once per node.
        let mut slices = [0; HASHES_MAX as usize];
        for (slice, position) in slices.iter_mut().zip(positions) {
            *slice = placement.locate(*position).0;
        }
        let mut waiting = 0;
        for (index, node) in placement.nodes().iter().enumerate() {
            if placement.is_me(index) {
                continue;
            }
            let there = positions.iter().zip(&slices).filter(|(_, slice)| placement.has_slice(index, **slice));
            let there = there.map(|(position, _)| *position);
            if there.clone().next().is_none() {
                continue;
            }
            if placement.is_gone(index) {
                missed.push(*node, number, there, stamp, present.limits().missed_events_max);
                continue;
            }
            let set_number = self.outbox.set(*node, number, there, stamp);
            self.in_flight.sets.add(set_number, *node, number, placement.epoch(), ticket);
            waiting += 1;
        }
        Ok(waiting)
    }

    /// Keeps the sets that are on their way to nodes which are gone by the new cluster map, so that these nodes can ask
    /// for them later.
    pub(super) fn keep_unacknowledged(&mut self) {
        let LocalState { membership, present, .. } = &mut *self.local;
        let (placement, missed) = membership.placement_and_missed();
        let InFlight { flights, sets, .. } = &*self.in_flight;
        for set in sets.in_order() {
            let Some(to) = placement.index_of(set.to) else { continue };
            for ticket in &set.tickets {
                let Some(event) = flights.event_if_open(*ticket) else { continue };
                let cells = event.positions().iter().copied().filter(|position| placement.has_copy(to, *position));
                missed.push(set.to, set.generation, cells, event.stamp(), present.limits().missed_events_max);
            }
        }
    }

    /// Marks in-flight events whose verdict has become doubtful because the cluster map has changed. Such an event is
    /// called *overtaken*. Another node may have decided the same event under the new map, so an overtaken event may be
    /// reported as unknown where it would otherwise be first-seen.
    ///
    /// The method examines all events whose cells are being set, and all events for which this node waits for the
    /// parent level of a filter tree.
    ///
    /// An event is marked in three cases:
    ///
    /// - Another node is the head of the event under the new map.
    /// - This node did not receive one of the maps since the former map, and another node may have been the head under
    ///   that map.
    /// - The event waits for the parent level, and a slice of the group was incomplete under the former map. The test
    ///   of the event may then have been wrong.
    pub(super) fn mark_overtaken(&mut self, former: &Placement) {
        let epoch = self.local.membership.placement().epoch();
        let are_unseen = epoch != former.epoch() && !epoch.follows(former.epoch());
        let InFlight { flights, sets, .. } = &mut *self.in_flight;
        let mut doubtful = Vec::new();
        for ticket in sets.all().flat_map(|set| &set.tickets) {
            let event = flights.event_if_open(*ticket);
            if event.is_some_and(|event| are_unseen || !self.local.heads(event)) {
                doubtful.push(*ticket);
            }
        }
        for ticket in flights.in_phases(|phase| phase == Phase::Climbing) {
            let event = flights.event_if_open(ticket);
            if event.is_some_and(|event| are_unseen || !former.is_all_complete() || !self.local.heads(event)) {
                doubtful.push(ticket);
            }
        }
        for ticket in doubtful {
            if let Some(flight) = flights.flight_mut(ticket) {
                flight.overtake();
            }
        }
    }

    /// Ends a set and returns it. A set that was rejected by a newer map than the map of this node waits for that map
    /// and does not end.
    pub(super) fn end_set(&mut self, number: u64, end: SetEnd) -> Option<SetFlight> {
        let set = self.in_flight.sets.take(number)?;
        if end == SetEnd::Stale && self.local.membership.placement().epoch() <= set.epoch {
            self.in_flight.sets.await_map(number, set);
            return None;
        }
        Some(set)
    }

    /// Ends a set for one of its events and returns the next step, if there is one.
    ///
    /// Another node may have been unable to set the cells of an event. This node then normally sends the request again,
    /// for the newest generation. If the other node has rejected the request, it would reject the same request again.
    /// In that case, the request is repeated only if a newer generation has been opened in the meantime.
    ///
    /// If another node may have become the head of the event in the meantime, one of two rules applies:
    ///
    /// - If recording the event may still fail, the request is not repeated.
    /// - Otherwise the request is repeated, although the verdict becomes unknown. The cells on this node are already
    ///   set. Without the missing cells, the event would be a duplicate at this node but first-seen at the new head.
    pub(super) fn end_set_of(&mut self, ticket: Ticket, set: &SetFlight, end: SetEnd) -> Option<Next> {
        let event = self.in_flight.flights.event_if_open(ticket)?;
        let flight = event.flight();
        if flight.phase() != Phase::Setting {
            return None;
        }
        // A node that comes back asks the nodes with slices of the group for the events that it missed. This condition
        // checks whether this node is still one of them.
        let can_be_asked_later = self.local.membership.placement().has_any_here();
        let is_kept = end == SetEnd::NodeGone && can_be_asked_later && !set.is_outrun;
        let newest = self.local.fill.newest();
        let may_go_again = match end {
            SetEnd::Done => false,
            SetEnd::Refused => newest > set.generation,
            SetEnd::ProcessGone | SetEnd::Stale | SetEnd::MapNotThere | SetEnd::NodeGone => !is_kept,
        };
        let is_overtaken = flight.is_overtaken();
        let goes_again = may_go_again && (!flight.may_come_to_nothing() || self.local.heads(event));
        let again = if goes_again { self.set(ticket, newest).ok() } else { None };
        let event = self.in_flight.flights.event(ticket)?;
        let is_again = again.is_some() && (can_be_asked_later || !self.local.is_missed(event));
        let is_unknown = end != SetEnd::Done && (is_overtaken || !is_kept && !is_again);
        let flight = self.in_flight.flights.flight_mut(ticket)?;
        let is_over = flight.end_set(again.unwrap_or(0));
        let unknown = Decision::Undecided(Reason::Unknown);
        let outcome = if is_unknown && !flight.is_decided() { unknown } else { flight.outcome() };
        if is_over { Some(Next::Decide(outcome)) } else { is_unknown.then_some(Next::Reply(unknown)) }
    }
}

/// Returns the number of the oldest generation in a mask that is not empty, among the generations up to `newest`.
fn oldest_of(generations: u16, newest: GenerationNumber) -> GenerationNumber {
    let bits = u64::from(u16::BITS);
    let mut numbers = newest.before(bits - 1).0..=newest.0;
    numbers.find(|number| generations >> (number % bits) & 1 == 1).map_or(newest, GenerationNumber)
}
