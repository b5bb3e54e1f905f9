//! Events whose verdict needs other levels of the tree: what is not known here climbs to the level above (K11 6,
//! first-test-then-set at every level), and what is found here may be checked in the levels below (top-down testing).
//!
//! Promises: few questions to one level are under way at once, and meanwhile events of all producers gather for the next
//! one; nothing is set here before the level above has told its verdict; what it has told first-seen is set here, in a
//! dense tree also what it has found, until it expires there. What is found here counts for false only where all other
//! levels below are complete and do not know it. Must not know: how questions travel, who owns other levels.

use std::collections::{BTreeMap, VecDeque};

use firstseen_filter::{Probes, Stamp};

use super::DividedGroup;
use super::flights::Phase;
use super::found::part;
use super::level::Level;
use crate::ids::FilterId;
use crate::map::{CutOff, TreeMode};
use crate::protocol::{Climb, Climbed, Command, FromLevel, Moment, Operation, Tick, Times};
use crate::verdict::{Decision, Reason, Seen};

/// Questions of one group to one level that are under way at once, but for full ones.
const CLIMBS_MAX: usize = 32;
/// Events of one question.
const CLIMB_EVENTS_MAX: usize = 1 << 12;

/// Whom to ask, and what for.
type Target = (FilterId, Operation);

/// Events on their way to other levels.
#[derive(Default)]
pub(super) struct Climbs {
    lanes: Vec<(Target, Lane)>,
    /// Tickets by the number of their question.
    under_way: BTreeMap<u64, (Target, Vec<u64>)>,
    last_number: u64,
}

#[derive(Default)]
struct Lane {
    /// In order.
    waiting: VecDeque<u64>,
    under_way: usize,
}

impl Climbs {
    /// Nobody waits for any of them. Numbers go on.
    pub(super) fn clear(&mut self) {
        *self = Self { last_number: self.last_number, ..Self::default() };
    }

    fn lane(&mut self, target: Target) -> &mut Lane {
        let index = match self.lanes.iter().position(|(known, _)| *known == target) {
            Some(index) => index,
            None => {
                self.lanes.push((target, Lane::default()));
                self.lanes.len() - 1
            }
        };
        &mut self.lanes[index].1
    }

    fn push(&mut self, target: Target, ticket: u64) {
        self.lane(target).waiting.push_back(ticket);
    }

    /// The events of the next question that may be asked; one that is full need not wait for others to come back.
    fn next(&mut self) -> Option<(Target, Vec<u64>)> {
        let may_ask = |lane: &Lane| {
            let is_full = lane.waiting.len() >= CLIMB_EVENTS_MAX;
            is_full || lane.under_way < CLIMBS_MAX && !lane.waiting.is_empty()
        };
        let (target, lane) = self.lanes.iter_mut().find(|(_, lane)| may_ask(lane))?;
        let events = lane.waiting.len().min(CLIMB_EVENTS_MAX);
        Some((*target, lane.waiting.drain(..events).collect()))
    }

    /// A number that no other question of the group has.
    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn begin(&mut self, target: Target, tickets: Vec<u64>) -> u64 {
        self.lane(target).under_way += 1;
        let number = self.number();
        self.under_way.insert(number, (target, tickets));
        number
    }

    fn end(&mut self, number: u64) -> Option<(Target, Vec<u64>)> {
        let (target, tickets) = self.under_way.remove(&number)?;
        self.lane(target).under_way -= 1;
        Some((target, tickets))
    }
}

impl DividedGroup {
    /// Whether there is a level above to ask.
    pub(super) fn has_parent(&self) -> bool {
        self.level.as_ref().is_some_and(|level| level.parent.is_some())
    }

    /// Sends an event that is not known here to the level above, which there is.
    pub(super) fn climb(&mut self, ticket: u64, operation: Operation) {
        let Some(parent) = self.level.as_ref().and_then(|level| level.parent) else { return };
        self.set_phase(ticket, Phase::Climbing);
        self.climbs.push((parent, operation), ticket);
        part(&mut self.parting, ticket);
    }

    /// Whether what is found here of an event that came from this level is checked in the levels below: there are others.
    pub(super) fn is_checked_below(&self, from: Option<FromLevel>) -> bool {
        self.checkers(from).next().is_some()
    }

    /// The levels below that may know an event that is found here, but for the one that it came from.
    fn checkers(&self, from: Option<FromLevel>) -> impl Iterator<Item = FilterId> {
        let checks = |level: &&Level| level.number < level.top_down && from.is_none_or(|from| from.complete);
        let level = self.level.as_ref().filter(checks);
        let children = level.into_iter().flat_map(|level| level.children.iter().copied());
        // It would know its own, had it lost nothing.
        children.filter(move |child| from.is_none_or(|from| from.filter != *child))
    }

    /// Asks the levels below about an event that is found here.
    pub(super) fn check_below(&mut self, ticket: u64) {
        let from = self.flights.as_ref().and_then(|flights| flights.batch(ticket)).and_then(|batch| batch.head.from);
        let others: Vec<FilterId> = self.checkers(from).collect();
        if let Some(flight) = self.flight_mut(ticket) {
            (flight.phase, flight.waiting, flight.is_confirmed) = (Phase::Checking, others.len() as u16, false);
        }
        others.into_iter().for_each(|child| self.climbs.push((child, Operation::Verify), ticket));
    }

    /// Whether a level below would not know an event that is told first-seen here: it has come from nobody there.
    pub(super) fn must_come_from_below(&self, from: Option<FromLevel>) -> bool {
        let checks = |level: &Level| level.number < level.top_down && !level.children.is_empty();
        from.is_none() && self.level.as_ref().is_some_and(checks)
    }

    /// Asks other levels while few questions to them are under way.
    pub(super) fn begin_climbs(&mut self) {
        while let Some((target, tickets)) = self.climbs.next() {
            self.begin_climb(target, tickets);
        }
    }

    fn begin_climb(&mut self, target: Target, tickets: Vec<u64>) {
        let (Some(level), Some(flights)) = (&self.level, &self.flights) else { return };
        let mut probes = Probes::new(level.root_shape());
        let (mut ticks, mut taken) = (Vec::with_capacity(tickets.len()), Vec::with_capacity(tickets.len()));
        let (mut clock_unit, mut deadline_ms, mut traceparent, mut again) = (0, 0, None, false);
        let mut complete = self.complete && !self.has_forgotten();
        for ticket in tickets {
            let Some((flight, batch)) = flights.flight(ticket).zip(flights.batch(ticket)) else { continue };
            let asks = matches!(flight.phase, Phase::Climbing | Phase::Checking);
            if !asks || probes.push_positions(flights.identity(ticket)).is_err() {
                continue;
            }
            // Other levels judge an event as it was judged here; their clocks never step back either, and what is only looked
            // up, after all that was recorded perhaps, moves none.
            let Stamp { unit, judged } = flight.stamp;
            let (shown_unit, unit) =
                if target.1.records() { (judged, unit) } else { (judged.min(self.clock.now_unit()), judged) };
            clock_unit = shown_unit.max(clock_unit);
            ticks.push(Tick { clock_unit, unit });
            deadline_ms = batch.head.deadline_ms.max(deadline_ms);
            again |= batch.head.again;
            // So has every node of the level that was asked.
            complete &= !batch.degraded;
            traceparent = traceparent.or_else(|| batch.head.traceparent.clone());
            taken.push(ticket);
        }
        if taken.is_empty() {
            return;
        }
        // Time is left to tell it here.
        let left_ms = deadline_ms.saturating_sub(self.now.monotonic_ms);
        let deadline_ms = if level.cut_off == CutOff::Local { deadline_ms - left_ms / 4 } else { deadline_ms };
        let number = self.climbs.begin(target, taken);
        let base_unit = ticks.first().map_or(0, |tick| tick.clock_unit);
        self.outbox.push(Command::Climb(Climb {
            number,
            from: FromLevel { filter: self.filter, complete },
            group: self.group,
            to: target.0,
            operation: target.1,
            probes,
            times: Times { base_unit, ticks, clock_ms: self.clock.clock_ms() },
            deadline_ms,
            again,
            traceparent,
        }));
    }

    /// Another level has answered.
    pub(crate) fn climbed(&mut self, climbed: &Climbed, now: Moment, commands: &mut Vec<Command>) {
        self.now = now;
        if self.replayed(climbed) {
            self.replay_journal();
        }
        let Some(((_, operation), tickets)) = self.climbs.end(climbed.number) else { return self.finish(commands) };
        for (index, ticket) in tickets.into_iter().enumerate() {
            let decision = climbed.decisions.get(index).copied().unwrap_or(Decision::Undecided(Reason::Unknown));
            let seen = climbed.seen.get(index).copied().unwrap_or_default();
            match operation {
                Operation::Verify => self.told_below(ticket, decision, climbed.degraded),
                _ => self.told_above(ticket, decision, seen, climbed.degraded),
            }
            self.run_ready();
        }
        self.finish(commands);
    }

    fn told_above(&mut self, ticket: u64, decision: Decision, seen: Seen, degraded: bool) {
        let is_young = self.is_young() || self.was_headed_elsewhere(ticket);
        let Some((batch, event)) = self.flights.as_mut().and_then(|flights| flights.event_mut(ticket)) else { return };
        let may_be_again = batch.head.may_be_again();
        let flight = &mut batch.flights[event];
        if flight.phase != Phase::Climbing {
            return;
        }
        batch.degraded |= degraded;
        match decision {
            Decision::Undecided(reason) if self.tell_alone(ticket, reason) => {}
            Decision::Undecided(_) => self.settle(ticket, decision),
            // A process of this node before may have brought it up, and its guard is lost.
            Decision::Duplicate if may_be_again && is_young => {
                self.settle(ticket, Decision::Undecided(Reason::TooOld));
            }
            Decision::FirstSeen | Decision::Duplicate => self.take_over(ticket, decision, seen),
        }
    }

    /// An event is decided, and remembered here where the tree wants it to be.
    pub(super) fn take_over(&mut self, ticket: u64, decision: Decision, seen: Seen) {
        let rule = *self.own.rule();
        let dense = self.level.as_ref().is_some_and(|level| level.mode == TreeMode::Dense);
        let Some((batch, event)) = self.flights.as_mut().and_then(|flights| flights.event_mut(ticket)) else { return };
        let (records, is_brought_up) = (batch.head.records(), batch.head.is_brought_up());
        let flight = &mut batch.flights[event];
        let is_found = is_brought_up && flight.generations > 0;
        let decision = if is_found { Decision::Duplicate } else { decision };
        if decision == Decision::Duplicate {
            flight.level = seen.level;
        }
        // What was told below counts from its own time on, whatever else is known.
        let seen_unit = if is_brought_up { Some(flight.stamp.unit) } else { seen.unit };
        flight.stamp.unit = seen_unit.unwrap_or(flight.stamp.unit);
        flight.expiry = if seen_unit.is_some() { rule.expiry(flight.stamp.unit) } else { u64::MAX };
        let unit = flight.stamp.unit;
        let must_remember = decision == Decision::FirstSeen || is_brought_up;
        let remembers = records && (must_remember || dense && seen.unit.is_some());
        if remembers && self.room(unit).is_ok() {
            return self.record(ticket, self.fill.newest(), decision);
        }
        // Where it finds no room it is not remembered here, and climbs again.
        if records && must_remember {
            self.forget(unit);
        }
        self.settle(ticket, decision);
    }

    /// One of the levels below knows an event that was found here, or does not.
    fn told_below(&mut self, ticket: u64, decision: Decision, degraded: bool) {
        let Some(flight) = self.flight_mut(ticket).filter(|flight| flight.phase == Phase::Checking) else { return };
        flight.is_confirmed |= degraded || decision != Decision::FirstSeen;
        flight.waiting = flight.waiting.saturating_sub(1);
        match (flight.waiting, flight.is_confirmed) {
            (0, true) => self.settle(ticket, Decision::Duplicate),
            (0, false) => self.not_found(ticket),
            _ => {}
        }
    }
}
