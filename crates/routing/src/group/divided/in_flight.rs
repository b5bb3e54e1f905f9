//! What a head has in flight: events, the sets that they wait for, and the work on them that is due before an input
//! ends.
//!
//! What an event does next is drawn at [`Phase`]. A batch is *parting* when some of its events are decided while others
//! climb to another level of a tree: its early duplicates may be due.
//!
//! Promises: an event is decided once, and the events that wait for it get their verdicts or run, oldest first; a batch
//! that may be replied to or dropped is looked at before the input ends. Must not know: cells, nodes, why an event is
//! decided.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::flights::{Flights, Phase, Ticket};
use super::sets::Sets;
use crate::protocol::SubmissionName;
use crate::verdict::{Decision, Seen};

/// Events in flight here.
#[derive(Default)]
pub(super) struct InFlight {
    pub(super) flights: Flights,
    pub(super) sets: Sets,
    /// Named submissions of batches of which the guard has not learnt all.
    named: HashMap<SubmissionName, Ticket>,
    /// Events to be run that have waited for another, oldest first.
    ready: VecDeque<Ticket>,
    /// Events whose batches may be replied to or dropped.
    closing: Vec<Ticket>,
    /// One event of each batch that is parting.
    parting: Vec<Ticket>,
    /// Where another filter has followed, tickets from this one on are of events for which nothing is recorded.
    closed_from: Option<Ticket>,
}

impl InFlight {
    /// Forgets all events; no caller waits for any of them.
    pub(super) fn clear(&mut self) {
        self.flights.clear();
        let flights = std::mem::take(&mut self.flights);
        *self = Self { flights, closed_from: self.closed_from, ..Self::default() };
    }

    /// Another filter has followed: nothing is recorded for events that come from now on.
    pub(super) fn close_line(&mut self) {
        self.closed_from = Some(self.flights.first_free());
    }

    /// Whether all events that came before are over.
    pub(super) fn has_ended_before_close(&self) -> bool {
        self.closed_from.is_none_or(|closed_from| self.flights.have_ended_before(closed_from))
    }

    /// An event is run under a name.
    pub(super) fn name(&mut self, name: SubmissionName, ticket: Ticket) {
        self.named.insert(name, ticket);
    }

    /// The event that is run under a name.
    pub(super) fn named(&self, name: &SubmissionName) -> Option<Ticket> {
        self.named.get(name).copied()
    }

    /// From now on the guard knows the replies under the names of a batch.
    pub(super) fn forget_names(&mut self, ticket: Ticket) {
        let Some(batch) = self.flights.batch(ticket).filter(|batch| batch.is_unlearnt()) else { return };
        for event in &batch.header().names {
            self.named.remove(&event.name);
        }
    }

    /// The next event to be run that has waited for another.
    pub(super) fn next_ready(&mut self) -> Option<Ticket> {
        self.ready.pop_front()
    }

    /// The batch of an event may be replied to or dropped.
    pub(super) fn close(&mut self, ticket: Ticket) {
        self.closing.push(ticket);
    }

    pub(super) fn next_closing(&mut self) -> Option<Ticket> {
        self.closing.pop()
    }

    /// Some events of a batch are decided, or climb: the batch is parting.
    pub(super) fn part(&mut self, ticket: Ticket) {
        if self.parting.last().is_none_or(|last| !last.is_of_batch_of(ticket)) {
            self.parting.push(ticket);
        }
    }

    pub(super) fn next_parting(&mut self) -> Option<Ticket> {
        self.parting.pop()
    }

    /// Drops the batch of an event, if all of its events are over and it has its reply.
    pub(super) fn retire(&mut self, ticket: Ticket) {
        self.flights.retire(ticket);
    }

    /// Decides an event, and with it its retries; in a tree the verdict says where the event was found, in a window of
    /// `span_units`. False where the event was decided before, or is not there.
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
            self.end_waiting(echo, outcome, seen);
        }
        true
    }

    /// An event is over for which no other waits.
    pub(super) fn end(&mut self, ticket: Ticket) {
        if self.flights.end(ticket) && self.closing.last().is_none_or(|last| !last.is_of_batch_of(ticket)) {
            self.closing.push(ticket);
        }
    }

    /// Ends an event that waited for another, and gives it the verdict unless its caller does not wait any more.
    fn end_waiting(&mut self, ticket: Ticket, outcome: Decision, seen: Option<Seen>) {
        let Some((batch, index)) = self.flights.event_mut(ticket) else { return };
        batch.decide(index, outcome, |_| seen);
        self.end(ticket);
    }

    /// An event is over: the oldest submission that waits for it takes its place, and what was only looked up before that
    /// is looked up again.
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

    /// An event will get the verdict of another one of the same name.
    pub(super) fn echo(&mut self, original: Ticket, ticket: Ticket) {
        self.flights.echo(original, ticket);
        self.enter(ticket, Phase::Echo);
    }

    /// An event waits for another of the same positions.
    pub(super) fn join(&mut self, leader: Ticket, ticket: Ticket) {
        self.flights.join(leader, ticket);
        self.enter(ticket, Phase::Joined);
    }

    /// Ends the events that wait for `leader` and whose callers wait no more.
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

    /// An event begins another phase.
    pub(super) fn enter(&mut self, ticket: Ticket, phase: Phase) {
        if let Some(flight) = self.flights.flight_mut(ticket) {
            flight.enter(phase);
        }
    }
}
