//! The way of an event from the result of its test to its reply.
//!
//! Promises: an event gets one reply; the events that wait for it get the verdict that follows from it, or run, oldest
//! first. Must not know: limits, how events were found.

use super::DividedGroup;
use super::decide::{Next, Tested, after_miss, after_test};
use super::fill::Room;
use super::flights::{Flight, Phase, Ticket};
use crate::group::rules::Rule;
use crate::group::site::Site;
use crate::group::thresholds::TOO_FEW_LEFT;
use crate::protocol::{Command, Hold, Operation, Proposal, Resolved};
use crate::verdict::{Decision, Reason};
use firstseen_filter::{GenerationNumber, Refresh, Sighting, UnitNumber};

impl DividedGroup {
    /// Another node has sent the results of tests.
    pub(super) fn resolved(&mut self, resolved: &Resolved) {
        let mut generations = resolved.generations.iter();
        let mut expiries = resolved.expiries.iter();
        let mut undecided = resolved.undecided.iter().peekable();
        let mut vetoes = resolved.vetoes.iter().peekable();
        for (index, number) in resolved.tickets.iter().enumerate() {
            let ticket = Ticket::received(*number);
            let hit = resolved.hits.get(index).copied().unwrap_or(false);
            let found_in = if hit { generations.next().copied().unwrap_or(u16::MAX) } else { 0 };
            let expiry = if hit { expiries.next().copied() } else { None };
            let found = Sighting { generations: found_in, expiry: expiry.unwrap_or(UnitNumber::NEVER) };
            let reason = undecided.next_if(|(at, _)| *at as usize == index).map(|(_, reason)| *reason);
            let veto_ms = vetoes.next_if(|(at, _)| *at as usize == index).map(|(_, left_ms)| *left_ms);
            let Some((batch, event)) = self.in_flight.flights.event_unless_over(ticket) else { continue };
            if resolved.degraded {
                batch.degrade();
            }
            let awaits_all = batch.header().operation.is_claim() && self.present.keeps(Rule::AwaitsAllAnswers);
            let flight = batch.flight_mut(event);
            if flight.phase() != Phase::Testing {
                continue;
            }
            if let Some(reason) = reason {
                self.decide_and_release(ticket, Decision::Undecided(reason));
            } else if let Some(left_ms) = veto_ms {
                self.decide_held(ticket, Hold::Other { left_ms });
            } else if flight.answered(found) || !flight.is_found() && !awaits_all {
                self.tested(ticket);
            }
            self.run_ready();
        }
    }

    /// The test at this level is over: all nodes that were asked have answered, or one has found a zero.
    pub(super) fn tested(&mut self, ticket: Ticket) {
        let Some(facts) = self.facts(ticket) else { return };
        if !facts.is_found {
            self.note_expiry(ticket);
        }
        self.carry_out(ticket, after_test(&facts));
    }

    /// Goes on with an event as with one that was not found: this level does not know it, whatever its slices have.
    pub(super) fn treat_as_miss(&mut self, ticket: Ticket) {
        let Some(facts) = self.facts(ticket) else { return };
        self.note_expiry(ticket);
        self.carry_out(ticket, after_miss(&facts));
    }

    /// What is known of an event that was tested.
    fn facts(&self, ticket: Ticket) -> Option<Tested> {
        let (header, flight) = (self.in_flight.flights.batch(ticket)?.header(), self.in_flight.flights.flight(ticket)?);
        let is_found = flight.is_found();
        Some(Tested {
            is_found,
            operation: header.operation,
            may_be_its_own: is_found && header.may_be_again() && self.may_be_its_own(ticket),
            too_few_left: match is_found.then(|| self.too_few_left(ticket)).flatten() {
                Some(_) if header.operation.is_of_claims() => Some(TOO_FEW_LEFT),
                few => few,
            },
            recorded_by: if header.operation == Operation::Lookup { self.recorded_by(ticket) } else { None },
            is_checked_below: is_found && self.tree.is_checked_below(header.from),
            has_parent: self.tree.has_parent(),
            refreshes: self.refresh != Refresh::Fixed,
            closed: self.present.absent(),
            cut_off: self.present.cut_off(),
            unknown_claim: self.unknown_claim(ticket),
        })
    }

    /// The event of the same positions that a lookup must wait for: its cells are being set, and may come to nothing. There is
    /// none where that event was found itself, and covers the lookup.
    fn recorded_by(&self, ticket: Ticket) -> Option<Ticket> {
        let flights = &self.in_flight.flights;
        let leader = flights.leader_of(ticket)?;
        let (flight, leading) = (flights.flight(ticket)?, flights.flight(leader)?);
        let was_found =
            leading.outcome() == Decision::Duplicate && leading.covers(flight.stamp(), self.own.rule(), Refresh::Fixed);
        (leading.may_come_to_nothing() && !was_found).then_some(leader)
    }

    /// Cells that are set for an event that is new live as long as its window.
    fn note_expiry(&mut self, ticket: Ticket) {
        let rule = *self.own.rule();
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.miss(&rule);
        }
    }

    fn carry_out(&mut self, ticket: Ticket, next: Next) {
        match next {
            Next::Climb(operation) => self.climb(ticket, operation),
            Next::CheckBelow => self.check_below(ticket),
            Next::Await(leader) => self.join(leader, ticket),
            Next::Decide(decision) => self.decide_and_release(ticket, decision),
            Next::Record => self.record_if_room(ticket),
            Next::RecordAgain => self.record_again(ticket),
            Next::Grant => self.grant(ticket),
        }
    }

    /// Records a new event in the newest generation.
    fn record_if_room(&mut self, ticket: Ticket) {
        let Some(unit) = self.in_flight.flights.flight_mut(ticket).map(|flight| flight.stamp().unit) else { return };
        match self.room(unit) {
            Ok(()) => self.record(ticket, self.fill.newest(), Decision::FirstSeen),
            Err(reason) => self.decide_and_release(ticket, Decision::Undecided(reason)),
        }
    }

    /// Records an event anew that was found here; where there is no room, in the oldest generation that has it.
    fn record_again(&mut self, ticket: Ticket) {
        let Some(flight) = self.in_flight.flights.flight_mut(ticket) else { return };
        let (generations, unit) = (flight.generations(), flight.stamp().unit);
        let number = match self.room(unit) {
            Ok(()) => self.fill.newest(),
            Err(_) => oldest_of(generations, self.fill.newest()),
        };
        self.record(ticket, number, Decision::Duplicate);
    }

    /// Whether a submission that is found may be found because of its own first attempt. An earlier process of this
    /// node may have replied first-seen: that process's guard is lost, the cells on other nodes are not. If the cells
    /// here are set too, another submission has recorded the event since, unless they are set by chance; below the root
    /// of a tree, one that asked meanwhile may have. Only a producer that names its submissions sends them again
    /// without knowing the reply, and no longer than for the retry horizon.
    fn may_be_its_own(&self, ticket: Ticket) -> bool {
        if self.was_headed_elsewhere(ticket) {
            return true;
        }
        if !self.is_young() || self.tree.has_parent() {
            return self.is_young();
        }
        let flights = &self.in_flight.flights;
        let is_here = |position: &&u64| self.membership.placement().has_copy_here(**position);
        let here = flights.positions(ticket).iter().filter(is_here).count();
        let stamp = flights.flight(ticket).map(Flight::stamp);
        let is_set =
            stamp.is_some_and(|stamp| self.own.has_set(self.membership.placement(), flights.positions(ticket), stamp));
        !is_set || self.fill.is_likely_set(here)
    }

    /// Whether another node may have taken up an event before, whose guard this one does not have.
    pub(super) fn was_headed_elsewhere(&self, ticket: Ticket) -> bool {
        self.membership.was_headed_elsewhere(self.in_flight.flights.positions(ticket), self.present.now_ms())
    }

    /// Whether submissions may come again whose first attempt an earlier process of this node has taken up.
    pub(super) fn is_young(&self) -> bool {
        self.membership.is_young(self.policies.durability, self.present.now_ms())
    }

    /// Whether the newest generation has room; proposes the next one in time.
    pub(super) fn room(&mut self, unit: UnitNumber) -> Result<(), Reason> {
        self.room_beside(unit, 0)
    }

    /// The same where so many events are about to be recorded.
    pub(super) fn room_beside(&mut self, unit: UnitNumber, pending: u64) -> Result<(), Reason> {
        let Self { own, fill, .. } = self;
        let room = fill.room(own.len() as u64, pending, || {
            own.advance(unit);
            own.used_cells(fill.newest())
        });
        if room == Room::Free {
            return Ok(());
        }
        let opens = self.ask_for_generation(unit);
        match room {
            Room::None if opens => Err(Reason::Overloaded),
            Room::None => Err(Reason::Full),
            Room::Scarce | Room::Free => Ok(()),
        }
    }

    /// Proposes another generation where one may open; returns whether one may.
    fn ask_for_generation(&mut self, unit: UnitNumber) -> bool {
        self.own.advance(unit);
        let (newest, opened) = (self.fill.newest(), self.own.newest_generation());
        let alive = self.own.generations() as u64 + newest.since(opened).unwrap_or(0);
        if alive >= self.fill.generations_max() {
            return false;
        }
        let Site { filter, group, .. } = self.membership.site();
        if let Some(number) = self.fill.ask_for_next(self.present.now_ms()) {
            self.outbox.push(Command::Propose(Proposal::OpenGeneration { filter, group, number }));
        }
        true
    }

    /// An event is decided, if it was not before, and over: nothing is to be set for it, or all is set. The next of the
    /// events that wait for it runs.
    pub(super) fn decide_and_release(&mut self, ticket: Ticket, outcome: Decision) {
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.conclude(outcome);
        }
        self.decide(ticket, outcome);
        self.in_flight.release(ticket);
    }

    /// Decides an event, and the events that wait for it by what follows.
    pub(super) fn decide(&mut self, ticket: Ticket, outcome: Decision) {
        let span_units = self.tree.is_any().then_some(self.own.rule().span_units);
        if !self.in_flight.decide_with_echoes(ticket, outcome, span_units) {
            return;
        }
        self.note_of_claims(ticket, outcome);
        if !matches!(outcome, Decision::Undecided(_)) {
            self.decide_joiners(ticket);
        }
    }

    /// Whether `ticket` needs no test of its own once `leader`, of the same positions, is decided.
    pub(super) fn covers(&self, leader: &Flight, ticket: Ticket) -> bool {
        let flights = &self.in_flight.flights;
        let Some((flight, batch)) = flights.flight(ticket).zip(flights.batch(ticket)) else { return false };
        if batch.header().operation.is_brought_up() {
            // Its verdict is given, so the event is recorded, unless the leader is recorded for as long.
            leader.outcome() == Decision::FirstSeen && flight.stamp().unit <= leader.stamp().unit
        } else {
            // What is only looked up leaves nothing to be set, so whether cells would be refreshed does not matter.
            let refresh = if batch.header().operation.records() { self.refresh } else { Refresh::Fixed };
            leader.covers(flight.stamp(), self.own.rule(), refresh)
        }
    }

    /// Decides the events that wait for another: those that it covers are duplicates, the others go on waiting for it.
    fn decide_joiners(&mut self, ticket: Ticket) {
        let Some(leader) = self.in_flight.flights.flight_mut(ticket) else { return };
        let mut joiners = leader.take_joiners();
        let leader = *leader;
        while let Some(joiner) = self.in_flight.flights.dequeue(&mut joiners) {
            if self.covers(&leader, joiner) {
                self.end_as_duplicate(ticket, joiner);
            } else {
                self.in_flight.flights.join(ticket, joiner);
            }
        }
    }

    /// An event is over as a duplicate of another in flight.
    pub(super) fn end_as_duplicate(&mut self, leader: Ticket, ticket: Ticket) {
        let Some(leader) = self.in_flight.flights.flight_mut(leader).copied() else { return };
        let Some((batch, event)) = self.in_flight.flights.event_mut(ticket) else { return };
        batch.flight_mut(event).found_with(&leader);
        let may_be_again = batch.header().may_be_again();
        // The leader may have been found because of this event.
        let outcome = match leader.outcome() {
            Decision::Duplicate if may_be_again && self.may_be_its_own(ticket) => Decision::Undecided(Reason::TooOld),
            _ => Decision::Duplicate,
        };
        self.decide_and_end(ticket, outcome);
    }

    /// An event is decided, if it was not before, and over; no other waits for it.
    pub(super) fn decide_and_end(&mut self, ticket: Ticket, outcome: Decision) {
        self.decide(ticket, outcome);
        self.in_flight.end(ticket);
    }
}

/// The number of the oldest generation of a mask that is not empty, of those up to `newest`.
fn oldest_of(generations: u16, newest: GenerationNumber) -> GenerationNumber {
    let bits = u64::from(u16::BITS);
    let is_of_mask = |number: &u64| generations >> (number % bits) & 1 == 1;
    (newest.before(bits - 1).0..=newest.0).find(is_of_mask).map_or(newest, GenerationNumber)
}
