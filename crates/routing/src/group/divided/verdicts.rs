//! Verdicts on events: an event is decided, and with it the events that wait for it.
//!
//! Promises: an event gets one reply; the events that wait for it get the verdict that follows from it, or run, oldest
//! first. Cells and messages are out of reach here. Must not know: limits of the group, how events were found.

use std::collections::BTreeSet;

use super::claims::Claims;
use super::flights::{Phase, Ticket};
use super::in_flight::InFlight;
use super::local::LocalState;
use crate::group::claiming::HELD;
use crate::group::rules::Rule;
use crate::protocol::Hold;
use crate::verdict::{Decision, Reason};

/// The verdict on a submission that is given up before anything is set: the guard does not remember it.
const GIVEN_UP: Decision = Decision::Undecided(Reason::NotReady);

/// Decides events; what the node knows is only read.
pub(super) struct Verdicts<'a> {
    pub(super) local: &'a LocalState,
    pub(super) in_flight: &'a mut InFlight,
    pub(super) claims: &'a mut Claims,
}

impl Verdicts<'_> {
    /// Decides an event, if it was not before, and ends it: nothing is to be set for it, or all is set. The next of the
    /// events that wait for it runs.
    pub(super) fn decide_and_release(&mut self, ticket: Ticket, outcome: Decision) {
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.conclude(outcome);
        }
        self.decide(ticket, outcome);
        self.in_flight.release(ticket);
    }

    /// Decides an event, if it was not before, and ends it; no other waits for it.
    pub(super) fn decide_and_end(&mut self, ticket: Ticket, outcome: Decision) {
        self.decide(ticket, outcome);
        self.in_flight.end(ticket);
    }

    /// Decides an event, and the events that wait for it by what follows.
    pub(super) fn decide(&mut self, ticket: Ticket, outcome: Decision) {
        let span_units = self.local.tree.is_any().then_some(self.local.own.rule().span_units);
        if !self.in_flight.decide_with_echoes(ticket, outcome, span_units) {
            return;
        }
        self.claims.note_decision(&self.in_flight.flights, ticket, outcome);
        if !matches!(outcome, Decision::Undecided(_)) {
            self.decide_joiners(ticket);
        }
    }

    /// Decides the events that wait for another: those that it covers are duplicates, the others go on waiting for it.
    fn decide_joiners(&mut self, ticket: Ticket) {
        let Some(leader) = self.in_flight.flights.flight_mut(ticket) else { return };
        let mut joiners = leader.take_joiners();
        let leader = *leader;
        while let Some(joiner) = self.in_flight.flights.dequeue(&mut joiners) {
            let is_covered =
                self.in_flight.flights.event(joiner).is_some_and(|joiner| self.local.covers(&leader, joiner));
            if is_covered {
                self.end_as_duplicate(ticket, joiner);
            } else {
                self.in_flight.flights.join(ticket, joiner);
            }
        }
    }

    /// Ends an event as a duplicate of another in flight.
    pub(super) fn end_as_duplicate(&mut self, leader: Ticket, ticket: Ticket) {
        let Some(leader) = self.in_flight.flights.flight(leader).copied() else { return };
        let Some(flight) = self.in_flight.flights.flight_mut(ticket) else { return };
        flight.found_with(&leader);
        // The leader may have been found because of this event.
        let event = self.in_flight.flights.event(ticket).filter(|event| event.header().may_be_again());
        let may_be_its_own =
            leader.outcome() == Decision::Duplicate && event.is_some_and(|event| self.local.may_be_its_own(event));
        let outcome = if may_be_its_own { Decision::Undecided(Reason::TooOld) } else { Decision::Duplicate };
        self.decide_and_end(ticket, outcome);
    }

    /// Lets an event wait for another of the same positions, unless that is decided already. Lookups leave room for
    /// submissions.
    pub(super) fn join(&mut self, leader: Ticket, ticket: Ticket) {
        let flights = &self.in_flight.flights;
        if self.local.is_decided_by(flights, leader, ticket) {
            return self.end_as_duplicate(leader, ticket);
        }
        let Some(leading) = flights.flight(leader) else { return };
        let leads = flights.event(ticket).is_some_and(|event| event.operation().leads());
        let joiners_max = self.local.present.limits().joiners_max;
        let places = if leads { joiners_max } else { joiners_max.div_ceil(2) };
        if leading.joiners() >= places {
            self.decide_and_end(ticket, Decision::Undecided(Reason::Overloaded));
        } else {
            self.in_flight.join(leader, ticket);
        }
    }

    /// Decides a claim as held: its reply says who holds the event.
    pub(super) fn hold(&mut self, ticket: Ticket, hold: Hold) {
        if let Some((batch, index)) = self.in_flight.flights.event_mut(ticket) {
            batch.hold(index, hold);
        }
        if matches!(hold, Hold::Own(_)) && !self.local.present.keeps(Rule::AsksJoinersAnew) {
            self.end_joiners(ticket);
        }
        self.decide_and_release(ticket, HELD);
    }

    /// Where the rule `AsksJoinersAnew` is broken, an event that waits for one that was granted is called a duplicate of
    /// it.
    fn end_joiners(&mut self, ticket: Ticket) {
        let Some(leader) = self.in_flight.flights.flight_mut(ticket) else { return };
        let mut joiners = leader.take_joiners();
        while let Some(joiner) = self.in_flight.flights.dequeue(&mut joiners) {
            self.decide_and_end(joiner, Decision::Duplicate);
        }
    }

    /// Decides the events of a batch whose deadline has come, as far as nothing is being set for them. A test sets
    /// nothing, so it is given up, and a retry runs anew. Adds the events in flight whose queues now have some that
    /// nobody waits for to `leaders`.
    pub(super) fn expire(&mut self, first: Ticket, leaders: &mut BTreeSet<Ticket>) {
        let Some(batch) = self.in_flight.flights.batch(first) else { return };
        for ticket in first.events(batch.flights().len()) {
            let Some(flight) = self.in_flight.flights.flight_mut(ticket).filter(|flight| !flight.is_decided()) else {
                continue;
            };
            match flight.phase() {
                Phase::Testing | Phase::Checking => self.decide_and_release(ticket, GIVEN_UP),
                Phase::Joined => {
                    flight.enter(Phase::Abandoned);
                    self.decide(ticket, GIVEN_UP);
                    leaders.extend(self.in_flight.flights.leader_of(ticket));
                }
                // The submission of the same name may still get a verdict.
                Phase::Echo => {
                    flight.enter(Phase::Abandoned);
                    self.decide(ticket, Decision::Undecided(Reason::Unknown));
                }
                // The verdict in this reply stays `Unknown`, which the batch began with, as the level above may have
                // recorded the event already, or cells are being set; the guard learns the verdict later.
                Phase::Climbing | Phase::Setting => {}
                Phase::Abandoned | Phase::Over => {}
            }
        }
    }

    /// Ends these events with the same verdict.
    pub(super) fn decide_all(&mut self, tickets: Vec<Ticket>, outcome: Decision) {
        tickets.into_iter().for_each(|ticket| self.decide_and_release(ticket, outcome));
    }
}
