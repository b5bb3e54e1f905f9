//! The place of a group in a tree of filters: the questions it asks other levels, and the events it still owes the
//! level above: those that it has decided by itself, to be brought up when it can (`owed.rs`).
//!
//! Promises: few questions to one level are under way at once; every event that this level has decided by itself climbs
//! in the end; it is known whether other levels may rely on this one (`has_forgotten`). Must not know: verdicts, cells,
//! how questions travel.

mod climbs;
mod level;
mod owed;

use firstseen_filter::{ProbeShape, Probes, Stamp, UnitNumber, WindowRule};

use super::flights::{Flights, Phase, Ticket};
use super::outbox::Outbox;
use super::own::OwnSlices;
use crate::group::clock::HeadClock;
use crate::group::state::OwedCounts;
use crate::ids::FilterId;
use crate::map::{CutOff, TreeMode};
use crate::plan::GroupPlan;
use crate::protocol::{Climb, Climbed, Command, FromLevel, MonotonicMs, Operation, Tick, Times};
use climbs::{ClimbTarget, Climbs};
pub(crate) use level::Level;
use owed::OwedToParent;

/// How long a replay may take.
const REPLAY_PATIENCE_MS: u64 = 10_000;

/// A group's place in a tree, where its filter is in one.
pub(super) struct Tree {
    filter: FilterId,
    group: u32,
    level: Option<Level>,
    climbs: Climbs,
    owed: OwedToParent,
    /// When the last first-seen event expires that found no room here; 0 where all have found room.
    forgotten_expiry: UnitNumber,
}

/// What a question to another level is made of.
pub(super) struct Asking<'a> {
    pub(super) flights: &'a Flights,
    pub(super) clock: &'a HeadClock,
    pub(super) own: &'a OwnSlices,
    /// The slices here have all that was ever recorded in them, as the map says.
    pub(super) is_complete: bool,
    pub(super) now_ms: MonotonicMs,
}

impl Tree {
    pub(super) fn new(filter: FilterId, group: u32, level: Option<Level>) -> Self {
        Self {
            filter,
            group,
            level,
            climbs: Climbs::default(),
            owed: OwedToParent::default(),
            forgotten_expiry: UnitNumber::FIRST,
        }
    }

    /// Whether the filter is in a tree.
    pub(super) fn is_any(&self) -> bool {
        self.level.is_some()
    }

    /// Whether there is a level above to ask.
    pub(super) fn has_parent(&self) -> bool {
        self.level.as_ref().is_some_and(|level| level.parent.is_some())
    }

    /// Steps from the root.
    pub(super) fn level_number(&self) -> u8 {
        self.level.as_ref().map_or(0, |level| level.number)
    }

    /// Whether an event that the level above has found is set here, too.
    pub(super) fn is_dense(&self) -> bool {
        self.level.as_ref().is_some_and(|level| level.mode == TreeMode::Dense)
    }

    /// The shape of the positions that producers send.
    pub(super) fn shape(&self, plan: &GroupPlan) -> ProbeShape {
        self.level.as_ref().map_or_else(|| plan.shape(), Level::root_shape)
    }

    /// Positions here, and those of the root where they are others.
    pub(super) fn split(&self, probes: Probes, plan: &GroupPlan) -> (Probes, Option<Probes>) {
        match self.level.as_ref().filter(|level| !level.is_whole()) {
            Some(level) => (level.fold(&probes, plan), Some(probes)),
            None => (probes, None),
        }
    }

    /// A first-seen event of `unit` is not recorded here.
    pub(super) fn forget(&mut self, rule: &WindowRule, unit: UnitNumber) {
        self.forgotten_expiry = self.forgotten_expiry.max(rule.expiry(unit));
    }

    /// Whether such an event may still count; then it proves nothing that this level does not know an event.
    pub(super) fn has_forgotten(&self, own: &OwnSlices) -> bool {
        self.forgotten_expiry.after(own.rule().lateness_units) > own.now_unit()
    }

    /// Forgets all questions; no event waits for an answer any more, and what was being brought up is brought up again.
    pub(super) fn clear(&mut self) {
        self.climbs.clear();
        self.owed.interrupt();
    }

    /// Adds an event to the next question to the level above; false where there is no such level.
    pub(super) fn climb(&mut self, ticket: Ticket, operation: Operation) -> bool {
        let Some(parent) = self.level.as_ref().and_then(|level| level.parent) else { return false };
        self.climbs.push(ClimbTarget { to: parent, operation }, ticket);
        true
    }

    /// Whether a find here, for an event that came from this level, is checked in the levels below: there are others.
    pub(super) fn is_checked_below(&self, from: Option<FromLevel>) -> bool {
        self.checkers(from).next().is_some()
    }

    /// The levels below that may know an event that is found here, but for the one that it came from.
    fn checkers(&self, from: Option<FromLevel>) -> impl Iterator<Item = FilterId> {
        let level = self.level.as_ref().filter(|level| level.checks() && from.is_none_or(|from| from.complete));
        let children = level.into_iter().flat_map(|level| level.children.iter().copied());
        // That level would know the event, had it lost nothing.
        children.filter(move |child| from.is_none_or(|from| from.filter != *child))
    }

    /// Adds an event to the next questions to the levels below; returns how many these are.
    pub(super) fn check_below(&mut self, ticket: Ticket, from: Option<FromLevel>) -> u16 {
        let others: Vec<FilterId> = self.checkers(from).collect();
        for child in &others {
            self.climbs.push(ClimbTarget { to: *child, operation: Operation::Verify }, ticket);
        }
        others.len() as u16
    }

    /// Whether an event that is first-seen here would be unknown to a level below: it has come from no such level.
    pub(super) fn must_come_from_below(&self, from: Option<FromLevel>) -> bool {
        from.is_none() && self.level.as_ref().is_some_and(|level| level.checks() && !level.children.is_empty())
    }

    /// Asks other levels while few questions to them are under way.
    pub(super) fn begin_climbs(&mut self, asking: &Asking<'_>, outbox: &mut Outbox) {
        while let Some((target, tickets)) = self.climbs.next() {
            if let Some(climb) = self.begin_climb(target, tickets, asking) {
                outbox.push(Command::Climb(climb));
            }
        }
    }

    fn begin_climb(&mut self, target: ClimbTarget, tickets: Vec<Ticket>, asking: &Asking<'_>) -> Option<Climb> {
        let Asking { flights, clock, .. } = *asking;
        let level = self.level.as_ref()?;
        let mut probes = Probes::new(level.root_shape());
        let mut ticks = Vec::with_capacity(tickets.len());
        let mut taken = Vec::with_capacity(tickets.len());
        let mut clock_unit = UnitNumber::FIRST;
        let mut deadline_ms = MonotonicMs::START;
        let mut traceparent = None;
        let mut again = false;
        let mut complete = asking.is_complete && !self.has_forgotten(asking.own);
        for ticket in tickets {
            // One that was to be checked may have been given up since.
            let Some(batch) = flights.unless_over(ticket) else { continue };
            let Some(flight) = flights.flight(ticket) else { continue };
            let asks = matches!(flight.phase(), Phase::Climbing | Phase::Checking);
            if !asks || probes.push_positions(flights.identity(ticket)).is_err() {
                continue;
            }
            // Other levels judge an event as it was judged here; their clocks never step back either, and a lookup,
            // perhaps later than all that was recorded, moves none.
            let Stamp { unit, judged } = flight.stamp();
            let (shown_unit, unit) =
                if target.operation.records() { (judged, unit) } else { (judged.min(clock.now_unit()), judged) };
            clock_unit = shown_unit.max(clock_unit);
            ticks.push(Tick { clock_unit, unit });
            deadline_ms = batch.header().deadline_ms.max(deadline_ms);
            again |= batch.header().again;
            // Every node of this level that was asked must be complete too.
            complete &= !batch.is_degraded();
            traceparent = traceparent.or_else(|| batch.header().traceparent.clone());
            taken.push(ticket);
        }
        if taken.is_empty() {
            return None;
        }
        // Some time is left for the reply from here.
        let left_ms = deadline_ms.since(asking.now_ms);
        let deadline_ms = if level.cut_off == CutOff::Local { deadline_ms.before(left_ms / 4) } else { deadline_ms };
        let base_unit = ticks.first().map_or(UnitNumber::FIRST, |tick| tick.clock_unit);
        Some(Climb {
            number: self.climbs.begin(target, taken),
            from: FromLevel { filter: self.filter, complete },
            group: self.group,
            to: target.to,
            operation: target.operation,
            probes,
            times: Times { base_unit, ticks, clock_ms: clock.clock_ms(), ttl_ms: None },
            deadline_ms,
            again,
            traceparent,
        })
    }

    /// Another level has answered a question: returns what it was asked, and about which events.
    pub(super) fn end(&mut self, number: u64) -> Option<(Operation, Vec<Ticket>)> {
        self.climbs.end(number).map(|(target, tickets)| (target.operation, tickets))
    }

    /// Whether a node of this level may call an event first-seen by itself.
    pub(super) fn decides_alone(&self) -> bool {
        self.level.as_ref().is_some_and(|level| level.cut_off == CutOff::Local)
    }

    /// Whether this level may call another event first-seen by itself, where at most `events_max` of these wait to climb.
    pub(super) fn may_decide_alone(&self, events_max: usize) -> bool {
        self.decides_alone() && self.owed.events() < events_max
    }

    /// This level has called an event first-seen by itself.
    pub(super) fn owe(&mut self, positions: Box<[u64]>, stamp: Stamp, may_be_above: bool) {
        self.owed.push(positions, stamp, may_be_above);
    }

    /// When [`Self::replay`] has something to do.
    pub(super) fn next_replay_ms(&self) -> Option<MonotonicMs> {
        self.owed.next_ms()
    }

    /// Has the events climb that this level has decided by itself, oldest first, if it is time.
    pub(super) fn replay(&mut self, clock_ms: Option<u64>, now_ms: MonotonicMs) -> Option<Climb> {
        self.owed.next_ms().filter(|next_ms| *next_ms <= now_ms)?;
        let level = self.level.as_ref()?;
        let to = level.parent?;
        let number = self.climbs.number();
        let (probes, ticks) = self.owed.begin(number, level.root_shape());
        let base_unit = ticks.first().map_or(UnitNumber::FIRST, |tick| tick.clock_unit);
        Some(Climb {
            number,
            from: FromLevel { filter: self.filter, complete: false },
            group: self.group,
            to,
            operation: Operation::BringUp,
            probes,
            times: Times { base_unit, ticks, clock_ms, ttl_ms: None },
            deadline_ms: now_ms.after(REPLAY_PATIENCE_MS),
            again: false,
            traceparent: None,
        })
    }

    /// The level above has answered a replay; false where the answer is about something else.
    pub(super) fn replayed(&mut self, climbed: &Climbed, now_ms: MonotonicMs) -> bool {
        self.owed.end(climbed, now_ms)
    }

    /// Counts of the events that this level has decided alone.
    pub(super) fn owed_counts(&self) -> OwedCounts {
        self.owed.counts()
    }
}
