//! Queries to other levels of a filter tree. If this level does not know an event, it queries the parent level. Each
//! level tests an event before it sets any cell (first-test-then-set: Koloniari et al. 2011, section 6). If this level
//! finds an event, it may check the lower levels too (top-down testing), because the find may be a false positive.
//!
//! A level that is cut off from its parent may decide an event alone. When the parent is reachable again, the level
//! reports the event to it. The code calls this *bringing up* the event. The event may then already be old, so its
//! window begins at the event's own time and not at the time of the report.
//!
//! # Guarantees
//!
//! - Nothing is set at this level before the parent level has replied, or this level knows that it is cut off.
//! - An event that the parent level was asked about and could not decide stays undecided, with the reason of the
//!   parent.
//! - An event that the parent level calls first-seen is set here. In a dense tree, an event that the parent level has
//!   found is also set here until it expires there.
//! - A duplicate found at this level counts as a false positive only if all other lower levels are complete and do not
//!   know the event.

use firstseen_filter::TestResult;

use super::decide::Next;
use super::flights::{Phase, Ticket};
use super::in_flight::InFlight;
use super::local::LocalState;
use super::outbox::Outbox;
use super::tree::Asking;
use crate::group::rules::Rule;
use crate::protocol::{Command, LevelAnswer, LevelContact, Operation};
use crate::verdict::{Decision, Reason, Seen};

/// Handler that queries other levels and processes their replies.
pub(super) struct Climbing<'a> {
    pub(super) local: &'a mut LocalState,
    pub(super) in_flight: &'a mut InFlight,
    pub(super) outbox: &'a mut Outbox,
}

impl Climbing<'_> {
    /// Sends an event that is not known here to the parent level. The caller knows that there is a parent.
    pub(super) fn climb(&mut self, ticket: Ticket, operation: Operation) {
        if self.local.tree.climb(ticket, operation) {
            self.in_flight.enter(ticket, Phase::Climbing);
            self.in_flight.part(ticket);
        }
    }

    /// Queries the lower levels about an event that was found here.
    pub(super) fn check_below(&mut self, ticket: Ticket) {
        let from = self.in_flight.flights.batch(ticket).and_then(|batch| batch.header().from);
        let asked = self.local.tree.check_below(ticket, from);
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.check(asked);
        }
    }

    /// Sends waiting queries to other levels, as long as few queries are under way.
    pub(super) fn begin_climbs(&mut self) {
        let LocalState { tree, own, membership, present, .. } = &mut *self.local;
        let asking = Asking {
            flights: &self.in_flight.flights,
            clock: present.clock(),
            own,
            is_complete: membership.completeness().is_complete(),
            now_ms: present.now_ms(),
        };
        tree.begin_climbs(&asking, self.outbox);
    }

    /// Sends the events that this level has decided without its parent to the parent level, if it is time.
    pub(super) fn replay_owed(&mut self) {
        let LocalState { tree, present, .. } = &mut *self.local;
        if let Some(climb) = tree.replay(present.clock().clock_ms(), present.now_ms()) {
            self.outbox.push(Command::LevelQuery(climb));
            if !present.keeps(Rule::ReportsUntilAnswered) {
                tree.forget_replay();
            }
        }
    }

    /// Handles the parent level's reply about an event. Returns the next step, if the event still waits for the reply.
    pub(super) fn answered_from_above(&mut self, ticket: Ticket, answer: LevelAnswer) -> Option<Next> {
        let LevelAnswer { decision, seen, is_degraded, contact } = answer;
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
            batch.degrade_event(index);
        }
        if !matches!(decision, Decision::Undecided(_)) {
            // If no node of this level decides alone, the parent level has the last word.
            batch.flight_mut(index).judged_above();
        }
        match decision {
            Decision::Undecided(reason) if self.is_cut_off(reason, contact) => {
                self.decide_alone(ticket, reason).or(Some(Next::Decide(decision)))
            }
            // The parent level was asked and cannot decide, so this level must not decide in its place.
            Decision::Undecided(_) => Some(Next::Decide(decision)),
            // The present head of the event at this level may have decided it without the parent level.
            Decision::FirstSeen if is_overtaken && self.local.tree.decides_alone() && !is_brought_up => {
                self.local.tree.forget(self.local.own.rule(), unit);
                Some(Next::Decide(Decision::Undecided(Reason::Unknown)))
            }
            // An earlier process of this node may have brought the event up, and the replay guard of that process is
            // lost.
            Decision::Duplicate if may_be_again && is_young => Some(Next::Decide(Decision::Undecided(Reason::TooOld))),
            Decision::FirstSeen | Decision::Duplicate => self.take_over(ticket, decision, seen),
        }
    }

    /// Returns whether an event is undecided with this reason because this level is cut off from its parent level.
    ///
    /// A parent level that was asked may give any of these reasons too, for example because its slices lack events. The
    /// reason therefore does not tell whether this level is cut off. What this node could reach does.
    ///
    /// There is one exception. The root may have a slice at the site that is cut off. This slice can be asked, but it
    /// records nothing after the lease of its node has ended, because the rest of the cluster may go on without it.
    /// Only the root depends on leases. A level between that passes on this reason has asked the root itself, and
    /// decides alone if it can.
    fn is_cut_off(&self, reason: Reason, contact: LevelContact) -> bool {
        let LocalState { tree, present, .. } = &*self.local;
        let may_mean_cut_off = match reason {
            Reason::Unknown | Reason::NotReady | Reason::SlicesDown => true,
            Reason::CutOff => present.keeps(Rule::DecidesAloneWithoutLease),
            _ => false,
        };
        let is_cut_off = match contact {
            LevelContact::Reached => false,
            LevelContact::WithoutMajority => reason == Reason::CutOff && tree.is_below_root(),
            LevelContact::Unreachable => true,
        };
        may_mean_cut_off && (is_cut_off || !present.keeps(Rule::DecidesAloneOnlyIfCutOff))
    }

    /// Decides an event at this level, because the level is cut off from its parent level. Three conditions must hold:
    /// - The filter's policy allows it.
    /// - There is room to store the event until it can be reported to the parent.
    /// - The event is certainly new at this level.
    fn decide_alone(&mut self, ticket: Ticket, reason: Reason) -> Option<Next> {
        let owed_events_max = self.local.present.limits().owed_events_max;
        if !self.local.tree.may_decide_alone(owed_events_max) {
            return None;
        }
        // An event that is decided alone must be found here the next time. Otherwise it stays undecided.
        if !self.is_new_for_certain(ticket) || !self.has_room_for(ticket) {
            return None;
        }
        let flights = &mut self.in_flight.flights;
        let positions: Box<[u64]> = flights.identity(ticket).into();
        let (batch, index) = flights.event_mut(ticket).filter(|(batch, _)| batch.header().operation.records())?;
        batch.degrade_event(index);
        let stamp = batch.flights()[index].stamp();
        let now_ms = self.local.present.now_ms();
        self.local.tree.owe(positions, stamp, now_ms, reason == Reason::Unknown);
        self.take_over(ticket, Decision::FirstSeen, Seen { unit: Some(stamp.unit), level: 0 })
    }

    /// Returns whether an event is certainly new, which means that this level cannot have called it first-seen before.
    /// Three conditions must hold:
    ///
    /// - No other node of this level may have been the head of the event in the meantime.
    /// - This level has not dropped a first-seen event for lack of room.
    /// - A cell of the event is empty in a slice that has not lost any event. If all slices are complete, the earlier
    ///   test of the event has already shown this.
    fn is_new_for_certain(&mut self, ticket: Ticket) -> bool {
        let LocalState { tree, own, membership, .. } = &mut *self.local;
        if tree.has_forgotten(own) {
            return false;
        }
        let event = self.in_flight.flights.event(ticket);
        let Some(event) = event.filter(|event| !event.flight().is_overtaken()) else { return false };
        let placement = membership.placement();
        let mut found = TestResult::ALL;
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

    /// Takes over the decision of another level, and records the event here if the mode of the tree requires it.
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
        // An event that finds no room here is not recorded. The next time it is sent to the parent level again.
        if records && must_remember {
            self.local.tree.forget(self.local.own.rule(), unit);
        }
        Some(Next::Decide(decision))
    }

    /// Handles the reply of a lower level about an event that was found here. Returns the next step once all lower
    /// levels have replied.
    pub(super) fn answered_from_below(&mut self, ticket: Ticket, answer: LevelAnswer) -> Option<Next> {
        let LevelAnswer { decision, is_degraded, .. } = answer;
        // The event may have been abandoned since.
        let (batch, index) = self.in_flight.flights.event_unless_over(ticket)?;
        let flight = batch.flight_mut(index);
        if flight.phase() != Phase::Checking {
            return None;
        }
        let is_known_below = flight.checked(is_degraded || decision != Decision::FirstSeen)?;
        Some(if is_known_below { Next::Decide(Decision::Duplicate) } else { Next::TreatAsMiss })
    }
}
