//! The work in flight on a head: events, the sets that they wait for, and the work on them that is due before the
//! current input ends.
//!
//! [`Phase`] shows what an event in flight can do next. A batch is called *parting* if some of its events are decided
//! while others wait for another level of a filter tree. Early duplicates may then be sent for the batch.
//!
//! Each event in flight gets exactly one verdict. When an event is decided, the events that wait for it are handled,
//! oldest first. Each waiting event either gets a verdict at once, or is tested.
//!
//! Before the processing of an input ends, the group examines every batch that it may now be able to reply to or to
//! drop.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::flights::{InFlightEvents, Phase, Ticket};
use super::sets::Sets;
use crate::protocol::SubmissionName;
use crate::verdict::{Decision, Seen};

/// Events in flight on this node.
#[derive(Default)]
pub(super) struct InFlight {
    pub(super) flights: InFlightEvents,
    pub(super) sets: Sets,
    /// Events with their own idempotency keys, from batches of which the replay guard has not learnt everything.
    named: HashMap<SubmissionName, Ticket>,
    /// Events that have waited for another event and must be run now, oldest first.
    ready: VecDeque<Ticket>,
    /// Events whose batches may be replied to or dropped.
    closing: Vec<Ticket>,
    /// One event of each batch that is parting.
    parting: Vec<Ticket>,
    /// The first ticket of the events for which nothing is recorded, if a successor has replaced the filter.
    closed_from: Option<Ticket>,
}

impl InFlight {
    /// Drops all events, because no caller waits for them any more.
    pub(super) fn clear(&mut self) {
        self.flights.clear();
        let flights = std::mem::take(&mut self.flights);
        *self = Self { flights, closed_from: self.closed_from, ..Self::default() };
    }

    /// Notes that a successor has replaced the filter. Nothing is recorded for events that arrive from now on.
    pub(super) fn close_line(&mut self) {
        self.closed_from = Some(self.flights.first_free());
    }

    /// Returns whether all events that arrived before the filter was closed have ended.
    pub(super) fn has_ended_before_close(&self) -> bool {
        self.closed_from.is_none_or(|closed_from| self.flights.have_ended_before(closed_from))
    }

    /// Notes that an event runs under an idempotency key.
    pub(super) fn name(&mut self, name: SubmissionName, ticket: Ticket) {
        self.named.insert(name, ticket);
    }

    /// Returns the event that runs under an idempotency key.
    pub(super) fn named(&self, name: &SubmissionName) -> Option<Ticket> {
        self.named.get(name).copied()
    }

    /// Removes the idempotency keys of a batch, because the replay guard knows the replies to them from now on.
    pub(super) fn forget_names(&mut self, ticket: Ticket) {
        let Some(batch) = self.flights.batch(ticket).filter(|batch| batch.is_unlearnt()) else { return };
        for event in &batch.header().names {
            self.named.remove(&event.name);
        }
    }

    /// Returns the next event that has waited for another event and must be run.
    pub(super) fn next_ready(&mut self) -> Option<Ticket> {
        self.ready.pop_front()
    }

    /// Notes that the batch of an event may be replied to or dropped.
    pub(super) fn close(&mut self, ticket: Ticket) {
        self.closing.push(ticket);
    }

    pub(super) fn next_closing(&mut self) -> Option<Ticket> {
        self.closing.pop()
    }

    /// Notes that some events of a batch are decided or wait for another level, so that the batch is parting.
    pub(super) fn part(&mut self, ticket: Ticket) {
        if self.parting.last().is_none_or(|last| !last.is_of_batch_of(ticket)) {
            self.parting.push(ticket);
        }
    }

    pub(super) fn next_parting(&mut self) -> Option<Ticket> {
        self.parting.pop()
    }

    /// Drops the batch of an event, if all of its events have ended and it has its reply.
    pub(super) fn retire(&mut self, ticket: Ticket) {
        self.flights.retire(ticket);
    }

    /// Gives the same verdict to an event and to the retries of the event that wait for it. In a filter tree, the
    /// verdict also states where the event was found. The length of the window, `span_units`, is needed for this
    /// statement. Returns `false` if the event already has a verdict or does not exist.
    pub(super) fn decide_with_echoes(&mut self, ticket: Ticket, outcome: Decision, span_units: Option<u64>) -> bool {
        let Some((batch, index)) = self.flights.event_mut(ticket) else { return false };
        let seen = batch.decide(index, outcome, |flight| span_units.map(|span_units| flight.seen(span_units)));
        let Some(seen) = seen else { return false };
        let mut echoes = batch.flight_mut(index).take_echoes();
        if !batch.is_pending() {
            self.closing.push(ticket);
        } else if seen.is_some() {
            self.part(ticket);
        }
        while let Some(echo) = self.flights.dequeue(&mut echoes) {
            if self.flights.batch(ticket).is_some_and(|batch| batch.is_event_degraded(index))
                && let Some((batch, index)) = self.flights.event_mut(echo)
            {
                batch.degrade_event(index);
            }
            self.end_waiting(echo, outcome, seen);
        }
        true
    }

    /// Ends an event for which no other event waits.
    pub(super) fn end(&mut self, ticket: Ticket) {
        if self.flights.end(ticket) && self.closing.last().is_none_or(|last| !last.is_of_batch_of(ticket)) {
            self.closing.push(ticket);
        }
    }

    /// Ends an event that waited for another event, and gives it the verdict unless its caller no longer waits.
    fn end_waiting(&mut self, ticket: Ticket, outcome: Decision, seen: Option<Seen>) {
        let Some((batch, index)) = self.flights.event_mut(ticket) else { return };
        batch.decide(index, outcome, |_| seen);
        self.end(ticket);
    }

    /// Ends an event. The oldest submission that waits for it becomes the new leader. Lookups that are older than that
    /// submission are run again.
    pub(super) fn release(&mut self, ticket: Ticket) {
        self.flights.unlead(ticket);
        let Some(leader) = self.flights.flight_mut(ticket) else { return };
        let mut joiners = leader.take_joiners();
        while let Some(joiner) = self.flights.dequeue(&mut joiners) {
            if self.flights.flight(joiner).is_some_and(|flight| flight.phase() == Phase::Abandoned) {
                self.end(joiner);
                continue;
            }
            self.enter(joiner, Phase::Testing);
            self.ready.push_back(joiner);
            if self.flights.batch(joiner).is_some_and(|batch| batch.header().operation.leads()) {
                self.flights.lead(joiner);
                if let Some(flight) = self.flights.flight_mut(joiner) {
                    flight.give_joiners(joiners);
                }
                break;
            }
        }
        self.end(ticket);
    }

    /// Lets a retry wait for the verdict of the event with the same idempotency key.
    pub(super) fn echo(&mut self, original: Ticket, ticket: Ticket) {
        self.flights.echo(original, ticket);
        self.enter(ticket, Phase::Echo);
    }

    /// Lets an event wait for another event with the same positions.
    pub(super) fn join(&mut self, leader: Ticket, ticket: Ticket) {
        self.flights.join(leader, ticket);
        self.enter(ticket, Phase::Joined);
    }

    /// Ends the events that wait for `leader` and whose callers no longer wait.
    pub(super) fn end_abandoned(&mut self, leader: Ticket) {
        let Some(leading) = self.flights.flight_mut(leader) else { return };
        let mut joiners = leading.take_joiners();
        while let Some(joiner) = self.flights.dequeue(&mut joiners) {
            if self.flights.flight(joiner).is_some_and(|flight| flight.phase() == Phase::Abandoned) {
                self.end(joiner);
            } else {
                self.flights.join(leader, joiner);
            }
        }
    }

    /// Moves an event to another phase.
    pub(super) fn enter(&mut self, ticket: Ticket, phase: Phase) {
        if let Some(flight) = self.flights.flight_mut(ticket) {
            flight.enter(phase);
        }
    }
}
