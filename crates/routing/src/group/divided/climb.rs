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

use super::decide::Next;
use super::flights::{Phase, Ticket};
use super::in_flight::InFlight;
use super::local::LocalState;
use super::outbox::Outbox;
use super::tree::Asking;
use crate::protocol::{Command, Operation};
use crate::verdict::{Decision, Reason, Seen};

/// Asks other levels, and takes their answers.
pub(super) struct Climbing<'a> {
    pub(super) local: &'a mut LocalState,
    pub(super) in_flight: &'a mut InFlight,
    pub(super) outbox: &'a mut Outbox,
}

impl Climbing<'_> {
    /// Sends an event that is not known here to the level above; the caller knows that there is one.
    pub(super) fn climb(&mut self, ticket: Ticket, operation: Operation) {
        if self.local.tree.climb(ticket, operation) {
            self.in_flight.enter(ticket, Phase::Climbing);
            self.in_flight.part(ticket);
        }
    }

    /// Asks the levels below about an event that is found here.
    pub(super) fn check_below(&mut self, ticket: Ticket) {
        let from = self.in_flight.flights.batch(ticket).and_then(|batch| batch.header().from);
        let asked = self.local.tree.check_below(ticket, from);
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.check(asked);
        }
    }

    /// Asks other levels while few questions to them are under way.
    pub(super) fn begin_climbs(&mut self) {
        let LocalState { tree, own, membership, present, .. } = &mut *self.local;
        let asking = Asking {
            flights: &self.in_flight.flights,
            clock: present.clock(),
            own,
            is_complete: membership.wholeness().is_complete(),
            now_ms: present.now_ms(),
        };
        tree.begin_climbs(&asking, self.outbox);
    }

    /// Has the events climb that this level has decided by itself, if it is time.
    pub(super) fn replay_owed(&mut self) {
        let LocalState { tree, present, .. } = &mut *self.local;
        if let Some(climb) = tree.replay(present.clock().clock_ms(), present.now_ms()) {
            self.outbox.push(Command::Climb(climb));
        }
    }

    /// Takes the answer of the level above about an event. Returns the step that follows, if the event waits for it.
    pub(super) fn answered_from_above(
        &mut self,
        ticket: Ticket,
        decision: Decision,
        seen: Seen,
        is_degraded: bool,
    ) -> Option<Next> {
        let event = self.in_flight.flights.event(ticket)?;
        if event.flight().phase() != Phase::Climbing {
            return None;
        }
        let may_be_again = event.header().may_be_again();
        let is_brought_up = event.operation().is_brought_up();
        let is_overtaken = event.flight().is_overtaken();
        let unit = seen.unit.unwrap_or(event.stamp().unit);
        let is_young = self.local.is_young() || self.local.was_headed_elsewhere(event);
        let (batch, index) = self.in_flight.flights.event_mut(ticket)?;
        if is_degraded {
            batch.degrade();
        }
        if !matches!(decision, Decision::Undecided(_)) {
            // Where no node of this level decides alone, the level above has the last word.
            batch.flight_mut(index).judged_above();
        }
        match decision {
            Decision::Undecided(reason) => self.decide_alone(ticket, reason).or(Some(Next::Decide(decision))),
            // The present head of this level may have decided it alone.
            Decision::FirstSeen if is_overtaken && self.local.tree.decides_alone() && !is_brought_up => {
                self.local.tree.forget(self.local.own.rule(), unit);
                Some(Next::Decide(Decision::Undecided(Reason::Unknown)))
            }
            // An earlier process of this node may have brought the event up, and that process's guard is lost.
            Decision::Duplicate if may_be_again && is_young => Some(Next::Decide(Decision::Undecided(Reason::TooOld))),
            Decision::FirstSeen | Decision::Duplicate => self.take_over(ticket, decision, seen),
        }
    }

    /// Decides an event that cannot climb by what is known here, if the policy allows that, the event can be written
    /// down, and it is certain that no event of these positions was first-seen at this level before.
    fn decide_alone(&mut self, ticket: Ticket, reason: Reason) -> Option<Next> {
        let cannot_climb = matches!(reason, Reason::Unknown | Reason::NotReady | Reason::SlicesDown);
        let owed_events_max = self.local.present.limits().owed_events_max;
        if !cannot_climb || !self.local.tree.may_decide_alone(owed_events_max) {
            return None;
        }
        // An event that is decided alone is known here the next time, or is not decided.
        if !self.is_new_for_certain(ticket) || !self.has_room_for(ticket) {
            return None;
        }
        let flights = &mut self.in_flight.flights;
        let positions: Box<[u64]> = flights.identity(ticket).into();
        let (batch, index) = flights.event_mut(ticket).filter(|(batch, _)| batch.header().operation.records())?;
        batch.degrade();
        let stamp = batch.flights()[index].stamp();
        self.local.tree.owe(positions, stamp, reason == Reason::Unknown);
        self.take_over(ticket, Decision::FirstSeen, Seen { unit: Some(stamp.unit), level: 0 })
    }

    /// Whether this level cannot have decided an event before: another node of it has not headed the event meanwhile,
    /// nothing was first-seen that found no room here, and the zero that was found is in a slice that has lost nothing.
    /// Where the level above has the last word, a zero in any slice will do.
    fn is_new_for_certain(&mut self, ticket: Ticket) -> bool {
        let LocalState { tree, own, membership, .. } = &mut *self.local;
        if tree.has_forgotten(own) {
            return false;
        }
        let event = self.in_flight.flights.event(ticket);
        let Some(event) = event.filter(|event| !event.flight().is_overtaken()) else { return false };
        let placement = membership.placement();
        let mut found = Sighting::ALL;
        let voters = placement.voters(event.positions(), 0);
        own.test(placement, voters.positions(), event.stamp(), &mut found);
        placement.is_all_complete() || !found.is_hit()
    }

    fn has_room_for(&mut self, ticket: Ticket) -> bool {
        let Some(event) = self.in_flight.flights.event(ticket) else { return false };
        let unit = event.stamp().unit;
        if self.local.room(unit, 0, self.outbox).is_err() {
            return false;
        }
        let LocalState { own, membership, fill, .. } = &mut *self.local;
        own.open(membership.placement(), event.positions(), unit, fill.newest())
    }

    /// Another level has decided an event; it is recorded here where the tree wants it to be.
    fn take_over(&mut self, ticket: Ticket, decision: Decision, seen: Seen) -> Option<Next> {
        let LocalState { own, tree, .. } = &*self.local;
        let (batch, index) = self.in_flight.flights.event_mut(ticket)?;
        let records = batch.header().operation.records();
        let is_brought_up = batch.header().operation.is_brought_up();
        let flight = batch.flight_mut(index);
        let decision = flight.take_over(decision, seen, is_brought_up, own.rule());
        let unit = flight.stamp().unit;
        let must_remember = decision == Decision::FirstSeen || is_brought_up;
        let remembers = records && (must_remember || tree.is_dense() && seen.unit.is_some());
        if remembers && self.local.room(unit, 0, self.outbox).is_ok() {
            return Some(Next::RecordAs(decision));
        }
        // An event that finds no room here is not recorded, and climbs again the next time.
        if records && must_remember {
            self.local.tree.forget(self.local.own.rule(), unit);
        }
        Some(Next::Decide(decision))
    }

    /// One of the levels below has answered whether it knows an event that was found here. Returns the step that follows
    /// once all have.
    pub(super) fn answered_from_below(
        &mut self,
        ticket: Ticket,
        decision: Decision,
        is_degraded: bool,
    ) -> Option<Next> {
        // It may have been given up since.
        let (batch, index) = self.in_flight.flights.event_unless_over(ticket)?;
        let flight = batch.flight_mut(index);
        if flight.phase() != Phase::Checking {
            return None;
        }
        let is_known_below = flight.checked(is_degraded || decision != Decision::FirstSeen)?;
        Some(if is_known_below { Next::Decide(Decision::Duplicate) } else { Next::TreatAsMiss })
    }
}
