//! Events whose verdict needs other levels of the tree: an event that this level does not know climbs to the level
//! above (first-test-then-set at every level: Koloniari 2011, section 6), and an event that this level finds may be
//! checked in the levels below (top-down testing). An event that a level below has decided by itself is *brought up*
//! later: it counts from its own time on, here and above.
//!
//! Promises: nothing is set here before the level above has replied; an event that the level above calls first-seen is
//! set here, in a dense tree also one that the level above has found, until it expires there. A find at this level
//! counts as a false positive only where all other levels below are complete and do not know the event. Must not know:
//! how questions travel, who owns other levels.

use firstseen_filter::Sighting;

use super::DividedGroup;
use super::flights::{Phase, Ticket};
use super::tree::Asking;
use crate::protocol::{Climbed, Command, Moment, Operation};
use crate::verdict::{Decision, Reason, Seen};

impl DividedGroup {
    /// Sends an event that is not known here to the level above; the caller knows that there is one.
    pub(super) fn climb(&mut self, ticket: Ticket, operation: Operation) {
        if self.tree.climb(ticket, operation) {
            self.in_flight.enter(ticket, Phase::Climbing);
            self.in_flight.part(ticket);
        }
    }

    /// Asks the levels below about an event that is found here.
    pub(super) fn check_below(&mut self, ticket: Ticket) {
        let from = self.in_flight.flights.batch(ticket).and_then(|batch| batch.header().from);
        let asked = self.tree.check_below(ticket, from);
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.check(asked);
        }
    }

    /// Asks other levels while few questions to them are under way.
    pub(super) fn begin_climbs(&mut self) {
        let Self { tree, in_flight, own, outbox, membership, present, .. } = self;
        let flights = &in_flight.flights;
        let is_complete = membership.wholeness().is_complete();
        tree.begin_climbs(
            &Asking { flights, clock: present.clock(), own, is_complete, now_ms: present.now_ms() },
            outbox,
        );
    }

    /// Has the events climb that this level has decided by itself, if it is time.
    pub(super) fn replay_owed(&mut self) {
        if let Some(climb) = self.tree.replay(self.present.clock().clock_ms(), self.present.now_ms()) {
            self.outbox.push(Command::Climb(climb));
        }
    }

    /// Another level has answered.
    pub(crate) fn climbed(&mut self, climbed: &Climbed, now: Moment) {
        self.present.begin(now);
        if self.tree.replayed(climbed, now.monotonic_ms) {
            self.replay_owed();
        }
        let Some((operation, tickets)) = self.tree.end(climbed.number) else { return self.finish() };
        for (index, ticket) in tickets.into_iter().enumerate() {
            let decision = climbed.decisions.get(index).copied().unwrap_or(Decision::Undecided(Reason::Unknown));
            let seen = climbed.seen.get(index).copied().unwrap_or_default();
            match operation {
                Operation::Verify => self.answered_from_below(ticket, decision, climbed.degraded),
                _ => self.answered_from_above(ticket, decision, seen, climbed.degraded),
            }
            self.run_ready();
        }
        self.finish();
    }

    fn answered_from_above(&mut self, ticket: Ticket, decision: Decision, seen: Seen, degraded: bool) {
        let is_young = self.is_young() || self.was_headed_elsewhere(ticket);
        let decides_alone = self.tree.decides_alone();
        let Some((batch, event)) = self.in_flight.flights.event_mut(ticket) else { return };
        let (may_be_again, is_brought_up) = (batch.header().may_be_again(), batch.header().operation.is_brought_up());
        if batch.flights()[event].phase() != Phase::Climbing {
            return;
        }
        if degraded {
            batch.degrade();
        }
        let flight = batch.flight_mut(event);
        let (is_overtaken, unit) = (flight.is_overtaken(), seen.unit.unwrap_or(flight.stamp().unit));
        if !matches!(decision, Decision::Undecided(_)) {
            // Where no node of this level decides alone, the level above has the last word.
            flight.judged_above();
        }
        match decision {
            Decision::Undecided(reason) if self.decide_alone(ticket, reason) => {}
            Decision::Undecided(_) => self.decide_and_release(ticket, decision),
            // The present head of this level may have decided it alone.
            Decision::FirstSeen if is_overtaken && decides_alone && !is_brought_up => {
                self.tree.forget(self.own.rule(), unit);
                self.decide_and_release(ticket, Decision::Undecided(Reason::Unknown));
            }
            // An earlier process of this node may have brought the event up, and that process's guard is lost.
            Decision::Duplicate if may_be_again && is_young => {
                self.decide_and_release(ticket, Decision::Undecided(Reason::TooOld));
            }
            Decision::FirstSeen | Decision::Duplicate => self.take_over(ticket, decision, seen),
        }
    }

    /// Decides an event that cannot climb by what is known here, if the policy allows that, the event can be written
    /// down, and it is certain that no event of these positions was first-seen at this level before.
    pub(super) fn decide_alone(&mut self, ticket: Ticket, reason: Reason) -> bool {
        let cannot_climb = matches!(reason, Reason::Unknown | Reason::NotReady | Reason::SlicesDown);
        if !cannot_climb || !self.tree.may_decide_alone(self.present.limits().owed_events_max) {
            return false;
        }
        // An event that is decided alone is known here the next time, or is not decided.
        if !self.is_new_for_certain(ticket) || !self.has_room_for(ticket) {
            return false;
        }
        let flights = &mut self.in_flight.flights;
        let positions: Box<[u64]> = flights.identity(ticket).into();
        let Some((batch, event)) = flights.event_mut(ticket).filter(|(batch, _)| batch.header().operation.records())
        else {
            return false;
        };
        batch.degrade();
        let stamp = batch.flights()[event].stamp();
        self.tree.owe(positions, stamp, reason == Reason::Unknown);
        self.take_over(ticket, Decision::FirstSeen, Seen { unit: Some(stamp.unit), level: 0 });
        true
    }

    /// Whether this level cannot have decided an event before: another node of it has not headed the event meanwhile,
    /// nothing was first-seen that found no room here, and the zero that was found is in a slice that has lost nothing.
    /// Where the level above has the last word, a zero in any slice will do.
    fn is_new_for_certain(&mut self, ticket: Ticket) -> bool {
        if self.tree.has_forgotten(&self.own) {
            return false;
        }
        let Self { in_flight, own, membership, .. } = self;
        let Some(flight) = in_flight.flights.flight(ticket).filter(|flight| !flight.is_overtaken()) else {
            return false;
        };
        let placement = membership.placement();
        let mut found = Sighting::ALL;
        let voters = placement.voters(in_flight.flights.positions(ticket), 0);
        own.test(placement, voters.positions(), flight.stamp(), &mut found);
        placement.is_all_complete() || !found.is_hit()
    }

    fn has_room_for(&mut self, ticket: Ticket) -> bool {
        let Some(unit) = self.in_flight.flights.flight(ticket).map(|flight| flight.stamp().unit) else { return false };
        if self.room(unit).is_err() {
            return false;
        }
        let Self { in_flight, own, membership, fill, .. } = self;
        own.open(membership.placement(), in_flight.flights.positions(ticket), unit, fill.newest())
    }

    /// Another level has decided an event; it is recorded here where the tree wants it to be.
    pub(super) fn take_over(&mut self, ticket: Ticket, decision: Decision, seen: Seen) {
        let rule = *self.own.rule();
        let dense = self.tree.is_dense();
        let Some((batch, event)) = self.in_flight.flights.event_mut(ticket) else { return };
        let (records, is_brought_up) = (batch.header().operation.records(), batch.header().operation.is_brought_up());
        let flight = batch.flight_mut(event);
        let decision = flight.take_over(decision, seen, is_brought_up, &rule);
        let unit = flight.stamp().unit;
        let must_remember = decision == Decision::FirstSeen || is_brought_up;
        let remembers = records && (must_remember || dense && seen.unit.is_some());
        if remembers && self.room(unit).is_ok() {
            return self.record(ticket, self.fill.newest(), decision);
        }
        // An event that finds no room here is not recorded, and climbs again the next time.
        if records && must_remember {
            self.tree.forget(&rule, unit);
        }
        self.decide_and_release(ticket, decision);
    }

    /// One of the levels below has answered whether it knows an event that was found here.
    fn answered_from_below(&mut self, ticket: Ticket, decision: Decision, degraded: bool) {
        // It may have been given up since.
        let event = self.in_flight.flights.event_unless_over(ticket).map(|(batch, event)| batch.flight_mut(event));
        let Some(flight) = event.filter(|flight| flight.phase() == Phase::Checking) else { return };
        match flight.checked(degraded || decision != Decision::FirstSeen) {
            Some(true) => self.decide_and_release(ticket, Decision::Duplicate),
            Some(false) => self.treat_as_miss(ticket),
            None => {}
        }
    }
}
