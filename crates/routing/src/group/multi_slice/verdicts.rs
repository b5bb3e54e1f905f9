//! Gives events their verdicts, and then handles the events that wait for them. Every event gets exactly one verdict.
//! If an event waits for another event with the same positions, the verdict on that event may also decide the waiting
//! event. Otherwise the waiting event is tested itself, and the oldest waiting event comes first. This module cannot
//! access cells or messages.

use std::collections::BTreeSet;

use super::claims::Claims;
use super::flights::{Phase, Ticket};
use super::in_flight::InFlight;
use super::local::LocalState;
use crate::group::claiming::HELD;
use crate::group::rules::Rule;
use crate::protocol::Hold;
use crate::verdict::{Decision, Reason};

/// The verdict on a submission that is abandoned before anything is set. The replay guard does not remember it.
const ABANDONED: Decision = Decision::Undecided(Reason::NotReady);

/// Handler that decides events. It only reads the local state.
pub(super) struct Verdicts<'a> {
    pub(super) local: &'a LocalState,
    pub(super) in_flight: &'a mut InFlight,
    pub(super) claims: &'a mut Claims,
}

impl Verdicts<'_> {
    /// Gives an event its verdict, if it has none yet, and ends the event. The caller must ensure that no cells remain
    /// to be set for the event. Other events may have waited for this event, and the next one of them is executed
    /// afterwards.
    pub(super) fn decide_and_release(&mut self, ticket: Ticket, outcome: Decision) {
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.conclude(outcome);
        }
        self.decide(ticket, outcome);
        self.in_flight.release(ticket);
    }

    /// Decides an event, if it was not decided before, and ends it. No other event waits for it.
    pub(super) fn decide_and_end(&mut self, ticket: Ticket, outcome: Decision) {
        self.decide(ticket, outcome);
        self.in_flight.end(ticket);
    }

    /// Decides an event, and those waiting events whose verdicts follow from it.
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

    /// Decides the events that wait for another event. Those that it covers are duplicates, and the others continue to
    /// wait for it.
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

    /// Ends an event as a duplicate of another event in flight.
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

    /// Makes an event wait for its leader, which is an earlier event with the same positions that has no verdict yet.
    /// If the leader already has a verdict that decides the event too, the event ends at once.
    ///
    /// The number of waiting events is limited. Lookups may use at most half of the places, so that many lookups cannot
    /// prevent events from being recorded.
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

    /// Decides a claim as held. The reply says who holds the event.
    pub(super) fn hold(&mut self, ticket: Ticket, hold: Hold) {
        if let Some((batch, index)) = self.in_flight.flights.event_mut(ticket) {
            batch.hold(index, hold);
        }
        if matches!(hold, Hold::Own(_)) && !self.local.present.keeps(Rule::RetestsWaiters) {
            self.end_joiners(ticket);
        }
        self.decide_and_release(ticket, HELD);
    }

    /// Calls events that wait for a granted event duplicates of it. This happens only if a test has broken the rule
    /// `RetestsWaiters`.
    fn end_joiners(&mut self, ticket: Ticket) {
        let Some(leader) = self.in_flight.flights.flight_mut(ticket) else { return };
        let mut joiners = leader.take_joiners();
        while let Some(joiner) = self.in_flight.flights.dequeue(&mut joiners) {
            self.decide_and_end(joiner, Decision::Duplicate);
        }
    }

    /// Abandons the events of a batch whose deadline has passed. An abandoned event gets an undecided verdict. An event
    /// that is still being tested can be abandoned safely, because a test sets no cells, so a retry is simply tested
    /// again. An event is not abandoned while its cells are being set or while it waits for the parent level, because
    /// it may be recorded.
    ///
    /// Some of the abandoned events may have waited for a leader, which is an earlier event with the same positions.
    /// The function adds these leaders to `leaders`, so that the caller can remove the abandoned events from their
    /// queues.
    pub(super) fn expire(&mut self, first: Ticket, leaders: &mut BTreeSet<Ticket>) {
        let Some(batch) = self.in_flight.flights.batch(first) else { return };
        for ticket in first.events(batch.flights().len()) {
            let Some(flight) = self.in_flight.flights.flight_mut(ticket).filter(|flight| !flight.is_decided()) else {
                continue;
            };
            match flight.phase() {
                Phase::Testing | Phase::Checking => self.decide_and_release(ticket, ABANDONED),
                Phase::Joined => {
                    flight.enter(Phase::Abandoned);
                    self.decide(ticket, ABANDONED);
                    leaders.extend(self.in_flight.flights.leader_of(ticket));
                }
                // The event with the same idempotency key may still get a verdict.
                Phase::Echo => {
                    flight.enter(Phase::Abandoned);
                    self.decide(ticket, Decision::Undecided(Reason::Unknown));
                }
                // These events keep the verdict `Unknown` with which the batch began, because the parent level may
                // already have recorded them or their cells are being set. The replay guard learns the verdict later.
                Phase::Climbing | Phase::Setting => {}
                Phase::Abandoned | Phase::Over => {}
            }
        }
    }

    /// Ends all of these events with the same verdict.
    pub(super) fn decide_all(&mut self, tickets: Vec<Ticket>, outcome: Decision) {
        tickets.into_iter().for_each(|ticket| self.decide_and_release(ticket, outcome));
    }
}
