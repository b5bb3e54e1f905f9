//! The place of a slice group in a tree of filters. This module manages the queries to other levels of the tree. It
//! also manages the events that the group has decided without its parent level and must report to the parent later
//! (`pending_reports.rs`).
//!
//! # Guarantees
//!
//! - Only few queries to one level are under way at once.
//! - Every event that this level has decided alone is reported to the parent level in the end.
//! - Other levels can find out whether they may rely on the knowledge of this level (`has_forgotten`).
//!
//! This module does not depend on verdicts, on cells, or on how queries travel.

mod level;
mod level_queries;
mod pending_reports;

use firstseen_filter::{PartError, ProbeShape, Probes, Stamp, UnitNumber, WindowRule};

use super::flights::{InFlightEvents, Phase, Ticket};
use super::local_slices::OwnSlices;
use super::outbox::Outbox;
use crate::group::clock::HeadClock;
use crate::group::state::OwedCounts;
use crate::ids::FilterId;
use crate::map::{ClusterMap, CutOff, TreeMode};
use crate::plan::GroupPlan;
use crate::protocol::{
    Command, Entry, FromLevel, LevelQuery, LevelReply, MonotonicMs, Operation, PositionLists, Tick, Times,
};
pub(crate) use level::Level;
use level_queries::{Climbs, LevelQueryTarget};
use pending_reports::PendingReports;

/// Time in milliseconds after which a replay of events to the parent level is abandoned.
const REPLAY_PATIENCE_MS: u64 = 10_000;

/// A group's place in a filter tree, if its filter belongs to one.
pub(super) struct Tree {
    filter: FilterId,
    group: u32,
    level: Option<Level>,
    climbs: Climbs,
    owed: PendingReports,
    /// Time at which the last first-seen event expires that found no room here. It is the first unit if all events have
    /// found room.
    forgotten_expiry: UnitNumber,
}

/// The state that is needed to build a query to another level.
pub(super) struct Asking<'a> {
    pub(super) flights: &'a InFlightEvents,
    pub(super) clock: &'a HeadClock,
    pub(super) own: &'a OwnSlices,
    /// Whether the cluster map says that the slices here contain everything that was ever recorded in them.
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
            owed: PendingReports::default(),
            forgotten_expiry: UnitNumber::FIRST,
        }
    }

    /// Applies a new cluster map, which may have added levels directly below this level, or removed some.
    pub(super) fn follow(&mut self, map: &ClusterMap) {
        if let Some(level) = &mut self.level {
            level.follow(map, self.filter);
        }
    }

    /// Returns whether the filter belongs to a filter tree.
    pub(super) fn is_any(&self) -> bool {
        self.level.is_some()
    }

    /// Returns whether there is a parent level.
    pub(super) fn has_parent(&self) -> bool {
        self.level.as_ref().is_some_and(|level| level.parent.is_some())
    }

    /// Returns whether the parent level is the root.
    pub(super) fn is_below_root(&self) -> bool {
        self.level.as_ref().is_some_and(|level| level.number == 1)
    }

    /// Returns the number of steps from the root to this level.
    pub(super) fn level_number(&self) -> u8 {
        self.level.as_ref().map_or(0, |level| level.number)
    }

    /// Returns whether an event that the parent level has found is also set at this level.
    pub(super) fn is_dense(&self) -> bool {
        self.level.as_ref().is_some_and(|level| level.mode == TreeMode::Dense)
    }

    /// Returns the shape of the positions that producers send.
    pub(super) fn shape(&self, plan: &GroupPlan) -> ProbeShape {
        self.level.as_ref().map_or_else(|| plan.shape(), Level::root_shape)
    }

    /// Returns the positions at this level, and the positions of the root if they differ.
    pub(super) fn split(&self, probes: Probes, plan: &GroupPlan) -> (Probes, Option<Probes>) {
        match self.level.as_ref().filter(|level| !level.is_whole()) {
            Some(level) => (level.fold(&probes, plan), Some(probes)),
            None => (probes, None),
        }
    }

    /// Notes that a first-seen event of `unit` is not recorded here.
    pub(super) fn forget(&mut self, rule: &WindowRule, unit: UnitNumber) {
        self.forgotten_expiry = self.forgotten_expiry.max(rule.expiry(unit));
    }

    /// Returns whether such an event may still count. In that case, it proves nothing that this level does not know an
    /// event.
    pub(super) fn has_forgotten(&self, own: &OwnSlices) -> bool {
        self.forgotten_expiry.after(own.rule().lateness_units) > own.now_unit()
    }

    /// Forgets all queries, because no event waits for a reply any more. Events that were being brought up are brought
    /// up again.
    pub(super) fn clear(&mut self) {
        self.climbs.clear();
        self.owed.interrupt();
    }

    /// Adds an event to the next query to the parent level. Returns `false` if there is no parent.
    pub(super) fn climb(&mut self, ticket: Ticket, operation: Operation) -> bool {
        let Some(parent) = self.level.as_ref().and_then(|level| level.parent) else { return false };
        self.climbs.push(LevelQueryTarget { to: parent, operation }, ticket);
        true
    }

    /// Returns whether a find here is checked at the lower levels, for an event that came from level `from`.
    pub(super) fn is_checked_below(&self, from: Option<FromLevel>) -> bool {
        self.checkers(from).next().is_some()
    }

    /// Returns the lower levels that may know an event that was found here, except the level that the event came from.
    fn checkers(&self, from: Option<FromLevel>) -> impl Iterator<Item = FilterId> {
        let level = self.level.as_ref().filter(|level| level.checks() && from.is_none_or(|from| from.complete));
        let children = level.into_iter().flat_map(|level| level.children.iter().copied());
        // If the level that sent the event has lost nothing, it would know the event itself.
        children.filter(move |child| from.is_none_or(|from| from.filter != *child))
    }

    /// Adds an event to the next queries to the lower levels. Returns the number of these levels.
    pub(super) fn check_below(&mut self, ticket: Ticket, from: Option<FromLevel>) -> u16 {
        let others: Vec<FilterId> = self.checkers(from).collect();
        for child in &others {
            self.climbs.push(LevelQueryTarget { to: *child, operation: Operation::Verify }, ticket);
        }
        others.len() as u16
    }

    /// Returns whether an event that is first-seen here would be unknown at a lower level, because it did not come from
    /// one.
    pub(super) fn must_come_from_below(&self, from: Option<FromLevel>) -> bool {
        from.is_none() && self.level.as_ref().is_some_and(|level| level.checks() && !level.children.is_empty())
    }

    /// Sends waiting queries to other levels, as long as few queries are under way.
    pub(super) fn begin_climbs(&mut self, asking: &Asking<'_>, outbox: &mut Outbox) {
        while let Some((target, tickets)) = self.climbs.next() {
            if let Some(climb) = self.begin_climb(target, tickets, asking) {
                outbox.push(Command::LevelQuery(climb));
            }
        }
    }

    fn begin_climb(
        &mut self,
        target: LevelQueryTarget,
        tickets: Vec<Ticket>,
        asking: &Asking<'_>,
    ) -> Option<LevelQuery> {
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
            // An event that should be checked may have been abandoned since.
            let Some(batch) = flights.unless_over(ticket) else { continue };
            let Some(flight) = flights.flight(ticket) else { continue };
            let asks = matches!(flight.phase(), Phase::Climbing | Phase::Checking);
            if !asks || probes.push_positions(flights.identity(ticket)).is_err() {
                continue;
            }
            // Other levels judge an event as this level judged it, because their clocks never step back either. A
            // lookup, which may be later than everything that was recorded, moves no clock.
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
        // Some time is reserved for the reply from this level.
        let left_ms = deadline_ms.since(asking.now_ms);
        let deadline_ms = if level.cut_off == CutOff::Local { deadline_ms.before(left_ms / 4) } else { deadline_ms };
        let base_unit = ticks.first().map_or(UnitNumber::FIRST, |tick| tick.clock_unit);
        Some(LevelQuery {
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

    /// Ends a query that another level has answered. Returns its operation and its events.
    pub(super) fn end(&mut self, number: u64) -> Option<(Operation, Vec<Ticket>)> {
        self.climbs.end(number).map(|(target, tickets)| (target.operation, tickets))
    }

    /// Returns whether a node of this level may call an event first-seen without the parent level.
    pub(super) fn decides_alone(&self) -> bool {
        self.level.as_ref().is_some_and(|level| level.cut_off == CutOff::Local)
    }

    /// Returns whether this level may call another event first-seen alone. At most `events_max` such events may wait to
    /// be reported.
    pub(super) fn may_decide_alone(&self, events_max: usize) -> bool {
        self.decides_alone() && self.owed.events() < events_max
    }

    /// Stores an event that this level has called first-seen without the parent level.
    pub(super) fn owe(&mut self, positions: Box<[u64]>, stamp: Stamp, now_ms: MonotonicMs, may_be_above: bool) {
        self.owed.push(positions, stamp, now_ms, may_be_above);
    }

    /// Returns the journal entries for the changes in these events since the last call.
    pub(super) fn take_journal(&mut self) -> Vec<Entry> {
        self.owed.take_journal()
    }

    /// Returns the journal entries of a checkpoint, which contain all events that have not been reported.
    pub(super) fn checkpoint(&self) -> Vec<Entry> {
        self.owed.checkpoint()
    }

    /// Restores events that an earlier process has decided alone.
    ///
    /// # Errors
    /// Returns a [`PartError`] if the positions are not those of the root of this tree.
    pub(super) fn restore_owed(
        &mut self,
        numbers: &[u64],
        positions: &PositionLists,
        stamps: &[Stamp],
        now_ms: MonotonicMs,
    ) -> Result<(), PartError> {
        let level = self.level.as_ref().ok_or(PartError::Misfit("events of a tree in a filter without a tree"))?;
        for ((number, positions), stamp) in numbers.iter().zip(positions.iter()).zip(stamps) {
            Probes::new(level.root_shape())
                .push_positions(positions)
                .map_err(|_| PartError::Misfit("positions that the root does not have"))?;
            self.owed.restore(*number, positions.into(), *stamp, now_ms);
        }
        Ok(())
    }

    /// Forgets events that an earlier process has reported.
    pub(super) fn restore_reported(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.owed.restore_reported(*number));
    }

    /// Returns the time at which [`Self::replay`] has work to do.
    pub(super) fn next_replay_ms(&self) -> Option<MonotonicMs> {
        self.owed.next_ms()
    }

    /// Returns a query that reports the events which this level has decided alone to the parent level, oldest first, if
    /// it is time.
    pub(super) fn replay(&mut self, clock_ms: Option<u64>, now_ms: MonotonicMs) -> Option<LevelQuery> {
        self.owed.next_ms().filter(|next_ms| *next_ms <= now_ms)?;
        let level = self.level.as_ref()?;
        let to = level.parent?;
        let number = self.climbs.number();
        let (probes, ticks) = self.owed.begin(number, level.root_shape());
        let base_unit = ticks.first().map_or(UnitNumber::FIRST, |tick| tick.clock_unit);
        Some(LevelQuery {
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

    /// Forgets the events of the replay that is under way, although the parent level has not answered.
    pub(super) fn forget_replay(&mut self) {
        self.owed.forget_replay();
    }

    /// Handles the parent level's reply to a replay. Returns `false` if the reply belongs to another query.
    pub(super) fn replayed(&mut self, climbed: &LevelReply, now_ms: MonotonicMs) -> bool {
        self.owed.end(climbed, now_ms)
    }

    /// Returns the counts of the events that this level has decided alone.
    pub(super) fn owed_counts(&self) -> OwedCounts {
        self.owed.counts()
    }
}
