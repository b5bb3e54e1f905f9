//! One event in flight.
//!
//! Promises: its fields change by steps, each of which belongs to a phase; an event is decided once. Must not know: cells,
//! nodes, other events.

use firstseen_filter::{Refresh, Sighting, Stamp, UnitNumber, WindowRule};

use super::{Phase, Ticket};
use crate::verdict::{Decision, Reason, Seen};

/// One event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    phase: Phase,
    stamp: Stamp,
    /// Generations still possible.
    generations: u16,
    /// The least expiry that the event was found with, or that its cells get; in trees only.
    expiry: UnitNumber,
    /// The level of the tree at which the event was found.
    level: u8,
    /// A level below knows the event too, or cannot say.
    is_confirmed: bool,
    /// Answers or acknowledgements that are missing.
    waiting: u16,
    /// The verdict, which counts once `is_decided` is true.
    outcome: Decision,
    is_decided: bool,
    /// Another node may have headed the event since this one found it new, or has before.
    is_overtaken: bool,
    /// An earlier submission of the same name has got this verdict.
    is_repeat: bool,
    /// Events that wait for this one, oldest first.
    joiners: Queue,
    /// Retries of this event.
    echoes: Queue,
    /// The next in the queue that this event waits in.
    pub(super) next: Option<Ticket>,
}

impl Flight {
    pub(super) const IDLE: Self = Self {
        phase: Phase::Over,
        stamp: Stamp::on_time(UnitNumber::FIRST),
        generations: u16::MAX,
        expiry: UnitNumber::NEVER,
        level: 0,
        is_confirmed: false,
        waiting: 0,
        outcome: Decision::Undecided(Reason::Unknown),
        is_decided: false,
        is_overtaken: false,
        is_repeat: false,
        joiners: Queue::EMPTY,
        echoes: Queue::EMPTY,
        next: None,
    };

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    #[inline]
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(crate) fn outcome(&self) -> Decision {
        self.outcome
    }

    pub(crate) fn is_decided(&self) -> bool {
        self.is_decided
    }

    pub(crate) fn is_overtaken(&self) -> bool {
        self.is_overtaken
    }

    pub(crate) fn is_repeat(&self) -> bool {
        self.is_repeat
    }

    /// Whether no zero was found so far.
    pub(crate) fn is_found(&self) -> bool {
        self.generations != 0
    }

    /// Generations that may hold the event.
    pub(crate) fn generations(&self) -> u16 {
        self.generations
    }

    /// Begins another phase.
    #[inline]
    pub(crate) fn enter(&mut self, next: Phase) {
        debug_assert!(self.phase.leads_to(next), "{:?} does not lead to {next:?}", self.phase);
        self.phase = next;
    }

    /// The event is over.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Over;
    }

    #[inline]
    fn assert_is(&self, phase: Phase) {
        debug_assert!(self.phase == phase, "a step of {phase:?} comes in {:?}", self.phase);
    }

    #[inline]
    fn await_less(&mut self) {
        debug_assert!(self.waiting > 0, "nothing was missing in {:?}", self.phase);
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// The event has its place in the window, at this level of a tree.
    pub(crate) fn place(&mut self, stamp: Stamp, level: u8) {
        self.assert_is(Phase::Over);
        (self.stamp, self.level) = (stamp, level);
    }

    /// The event was submitted before, and nothing is remembered but its verdict.
    pub(super) fn repeat(&mut self) {
        self.assert_is(Phase::Over);
        (self.is_repeat, self.level) = (true, Seen::LEVEL_FORGOTTEN);
    }

    /// The clock has gone on since the event was placed.
    #[inline]
    pub(crate) fn rejudge(&mut self, stamp: Stamp) {
        self.assert_is(Phase::Testing);
        self.stamp = stamp;
    }

    /// The own slices have said what they know, and so many nodes are asked.
    #[inline]
    pub(crate) fn await_answers(&mut self, nodes: u16, found: Sighting) {
        self.assert_is(Phase::Testing);
        (self.waiting, self.generations, self.expiry) = (nodes, found.generations, found.expiry);
    }

    /// A node has answered what it knows; returns whether all have.
    #[inline]
    pub(crate) fn answered(&mut self, found: Sighting) -> bool {
        self.assert_is(Phase::Testing);
        self.generations &= found.generations;
        self.expiry = self.expiry.min(found.expiry);
        self.await_less();
        self.waiting == 0
    }

    /// This level does not know the event: cells that are set for it live as long as its window.
    pub(crate) fn miss(&mut self, rule: &WindowRule) {
        self.expiry = rule.expiry(self.stamp.unit);
    }

    /// The event was found here, and so many levels below are asked whether they know it.
    pub(crate) fn check(&mut self, levels: u16) {
        self.enter(Phase::Checking);
        (self.waiting, self.is_confirmed) = (levels, false);
    }

    /// A level below has answered. Once all have, returns whether one knows the event, or cannot say.
    pub(crate) fn checked(&mut self, may_know: bool) -> Option<bool> {
        self.assert_is(Phase::Checking);
        self.is_confirmed |= may_know;
        self.await_less();
        (self.waiting == 0).then_some(self.is_confirmed)
    }

    /// The level above has the last word, whoever has headed the event here.
    pub(crate) fn judged_above(&mut self) {
        self.assert_is(Phase::Climbing);
        self.is_overtaken = false;
    }

    /// Another level has decided the event and says where it has seen it; returns the verdict that follows. An event that
    /// is brought up counts from its own time on, whatever else is known.
    pub(crate) fn take_over(
        &mut self,
        decision: Decision,
        seen: Seen,
        is_brought_up: bool,
        rule: &WindowRule,
    ) -> Decision {
        let decision = if is_brought_up && self.is_found() { Decision::Duplicate } else { decision };
        if decision == Decision::Duplicate {
            self.level = seen.level;
        }
        let unit = if is_brought_up { Some(self.stamp.unit) } else { seen.unit };
        self.stamp.unit = unit.unwrap_or(self.stamp.unit);
        self.expiry = if unit.is_some() { rule.expiry(self.stamp.unit) } else { UnitNumber::NEVER };
        decision
    }

    /// So many nodes are asked to set the event's cells, and this will be its verdict.
    pub(crate) fn set(&mut self, nodes: u16, outcome: Decision) {
        self.enter(Phase::Setting);
        (self.waiting, self.outcome) = (nodes, outcome);
    }

    /// A set is over, and so many others take its place; returns whether all are over.
    pub(crate) fn end_set(&mut self, others: u16) -> bool {
        self.assert_is(Phase::Setting);
        self.await_less();
        self.waiting = self.waiting.saturating_add(others);
        self.waiting == 0
    }

    /// Another node heads the event, or may have.
    pub(crate) fn overtake(&mut self) {
        self.is_overtaken = true;
    }

    /// The event was found because of another of the same positions.
    pub(crate) fn found_with(&mut self, leader: &Self) {
        self.expiry = leader.expiry;
    }

    /// This is the verdict from which those of waiting events follow, also where the caller got another one before.
    pub(crate) fn conclude(&mut self, outcome: Decision) {
        self.outcome = outcome;
    }

    /// The verdict counts from now on; false where the event was decided before.
    pub(super) fn decide(&mut self, outcome: Decision) -> bool {
        let is_first = !self.is_decided;
        if is_first {
            (self.is_decided, self.outcome) = (true, outcome);
        }
        is_first
    }

    /// The caller is told that nothing is known, whatever becomes of the event; false where it was decided before.
    pub(super) fn give_up(&mut self) -> bool {
        !std::mem::replace(&mut self.is_decided, true)
    }

    /// Whether an event of the same positions with this stamp is certainly a duplicate, now that this one is decided,
    /// and leaves nothing more to be set.
    pub(crate) fn covers(&self, stamp: Stamp, rule: &WindowRule, refresh: Refresh) -> bool {
        let is_found = match self.outcome {
            Decision::FirstSeen => stamp.judged < rule.expiry(self.stamp.unit),
            Decision::Duplicate => stamp.judged <= self.stamp.judged,
            Decision::Undecided(_) => false,
        };
        is_found && (refresh == Refresh::Fixed || stamp.unit <= self.stamp.unit)
    }

    /// Whether cells are being set for an event that may be recorded nowhere in the end.
    pub(crate) fn may_come_to_nothing(&self) -> bool {
        self.phase == Phase::Setting && (!self.is_decided || matches!(self.outcome, Decision::Undecided(_)))
    }

    /// Where the event was found, in a window of so many units.
    pub(crate) fn seen(&self, span_units: u64) -> Seen {
        let unit = (self.expiry != UnitNumber::NEVER).then(|| self.expiry.before(span_units));
        Seen { unit, level: self.level }
    }

    /// How many events wait for this one.
    pub(crate) fn joiners(&self) -> usize {
        self.joiners.len as usize
    }

    /// The events that wait for this one, which from now on wait for nobody.
    pub(crate) fn take_joiners(&mut self) -> Queue {
        std::mem::replace(&mut self.joiners, Queue::EMPTY)
    }

    /// These wait for this event from now on, and no others do.
    pub(crate) fn give_joiners(&mut self, joiners: Queue) {
        debug_assert!(self.joiners.first.is_none(), "others wait already");
        self.joiners = joiners;
    }

    /// The retries of this event, which from now on wait for nobody.
    pub(crate) fn take_echoes(&mut self) -> Queue {
        std::mem::replace(&mut self.echoes, Queue::EMPTY)
    }

    /// Lets an event wait for this one; returns the one that was the last to.
    pub(super) fn join(&mut self, ticket: Ticket) -> Option<Ticket> {
        self.joiners.push(ticket)
    }

    /// Lets a retry wait for this event; returns the one that was the last to.
    pub(super) fn echo(&mut self, ticket: Ticket) -> Option<Ticket> {
        self.echoes.push(ticket)
    }
}

/// A list of events that is threaded through them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    first: Option<Ticket>,
    last: Option<Ticket>,
    len: u32,
}

impl Queue {
    const EMPTY: Self = Self { first: None, last: None, len: 0 };

    fn push(&mut self, ticket: Ticket) -> Option<Ticket> {
        self.len += 1;
        self.first = self.first.or(Some(ticket));
        self.last.replace(ticket)
    }

    pub(super) fn first(&self) -> Option<Ticket> {
        self.first
    }

    /// The first event leaves, and this one follows it.
    pub(super) fn shift(&mut self, next: Option<Ticket>) {
        self.first = next;
        self.len = self.len.saturating_sub(1);
        if next.is_none() {
            self.last = None;
        }
    }
}
