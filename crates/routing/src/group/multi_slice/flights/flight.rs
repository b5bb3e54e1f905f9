//! State of one event in flight. Each method that changes it is allowed only in certain phases of the event. An event
//! is decided once.

use firstseen_filter::{Refresh, Stamp, TestResult, UnitNumber, WindowRule};

use super::{Phase, Ticket};
use crate::verdict::{Decision, Reason, Seen};

/// One event in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlightEvent {
    phase: Phase,
    stamp: Stamp,
    /// Generations that may contain the event.
    generations: u16,
    /// Least expiry of the cells that the event was found with, or expiry of the cells that it gets. Only used in
    /// filter trees.
    expiry: UnitNumber,
    /// The level of the filter tree at which the event was found.
    level: u8,
    /// Whether a lower level knows the event too, or cannot tell.
    is_confirmed: bool,
    /// Number of replies or acknowledgements that are missing.
    waiting: u16,
    /// The verdict. It counts once `is_decided` is true.
    outcome: Decision,
    is_decided: bool,
    /// Whether another node may have headed the event, either before this node found it new or since then.
    is_overtaken: bool,
    /// Whether the verdict was already sent to an earlier submission with the same idempotency key.
    is_repeat: bool,
    /// Events that wait for this event, oldest first.
    joiners: Queue,
    /// Retries of this event.
    echoes: Queue,
    /// The next event in the queue in which this event waits.
    pub(super) next: Option<Ticket>,
}

impl InFlightEvent {
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

    /// Returns whether no empty cell was found so far.
    pub(crate) fn is_found(&self) -> bool {
        self.generations != 0
    }

    /// Returns the generations that may contain the event.
    pub(crate) fn generations(&self) -> u16 {
        self.generations
    }

    /// Enters another phase.
    #[inline]
    pub(crate) fn enter(&mut self, next: Phase) {
        debug_assert!(self.phase.leads_to(next), "{:?} does not lead to {next:?}", self.phase);
        self.phase = next;
    }

    /// Ends the event.
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

    /// Sets the event's place in the window and its level in a filter tree.
    pub(crate) fn place(&mut self, stamp: Stamp, level: u8) {
        self.assert_is(Phase::Over);
        (self.stamp, self.level) = (stamp, level);
    }

    /// Marks the event as a repetition of which only the verdict is remembered.
    pub(super) fn repeat(&mut self) {
        self.assert_is(Phase::Over);
        (self.is_repeat, self.level) = (true, Seen::LEVEL_FORGOTTEN);
    }

    /// Updates the stamp after the clock has advanced since the event was placed.
    #[inline]
    pub(crate) fn rejudge(&mut self, stamp: Stamp) {
        self.assert_is(Phase::Testing);
        self.stamp = stamp;
    }

    /// Notes what this node's slices know about the event, and that `nodes` other nodes are asked.
    #[inline]
    pub(crate) fn await_answers(&mut self, nodes: u16, found: TestResult) {
        self.assert_is(Phase::Testing);
        (self.waiting, self.generations, self.expiry) = (nodes, found.generations, found.expiry);
    }

    /// Notes the reply of a node. Returns whether all nodes have replied.
    #[inline]
    pub(crate) fn answered(&mut self, found: TestResult) -> bool {
        self.assert_is(Phase::Testing);
        self.generations &= found.generations;
        self.expiry = self.expiry.min(found.expiry);
        self.await_less();
        self.waiting == 0
    }

    /// Notes that this level does not know the event. Cells that are set for it live as long as its window.
    pub(crate) fn miss(&mut self, rule: &WindowRule) {
        self.expiry = rule.expiry(self.stamp.unit);
    }

    /// Notes that the event was found here, and that `levels` lower levels are asked whether they know it.
    pub(crate) fn check(&mut self, levels: u16) {
        self.enter(Phase::Checking);
        (self.waiting, self.is_confirmed) = (levels, false);
    }

    /// Notes the reply of a lower level. Once all lower levels have replied, returns whether one of them knows the
    /// event or cannot tell.
    pub(crate) fn checked(&mut self, may_know: bool) -> Option<bool> {
        self.assert_is(Phase::Checking);
        self.is_confirmed |= may_know;
        self.await_less();
        (self.waiting == 0).then_some(self.is_confirmed)
    }

    /// Notes that the parent level has the last word, whichever node has headed the event at this level.
    pub(crate) fn judged_above(&mut self) {
        self.assert_is(Phase::Climbing);
        self.is_overtaken = false;
    }

    /// Takes over the decision of another level of a filter tree, and returns the resulting verdict. `seen` states
    /// where the other level has found the event.
    ///
    /// If `is_brought_up` is set, a lower level has sent the event up to this level after it had decided the event
    /// alone, because it could not reach this level at that time. If this level has found the event in its own cells,
    /// the verdict is then duplicate, no matter what the other level has decided.
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

    /// Notes that `nodes` nodes are asked to set the event's cells, and that `outcome` will be its verdict.
    pub(crate) fn set(&mut self, nodes: u16, outcome: Decision) {
        self.enter(Phase::Setting);
        (self.waiting, self.outcome) = (nodes, outcome);
    }

    /// Notes that a set has ended and that `others` further sets replace it. Returns whether all sets have ended.
    pub(crate) fn end_set(&mut self, others: u16) -> bool {
        self.assert_is(Phase::Setting);
        self.await_less();
        self.waiting = self.waiting.saturating_add(others);
        self.waiting == 0
    }

    /// Notes that another node heads the event or may have headed it.
    pub(crate) fn overtake(&mut self) {
        self.is_overtaken = true;
    }

    /// Notes that the event was found because of another event with the same positions.
    pub(crate) fn found_with(&mut self, leader: &Self) {
        self.expiry = leader.expiry;
    }

    /// Sets the verdict that determines the verdicts of waiting events. The event's own caller may already have got a
    /// different verdict.
    pub(crate) fn conclude(&mut self, outcome: Decision) {
        self.outcome = outcome;
    }

    /// Decides the event. Returns `false` if it was decided before.
    pub(super) fn decide(&mut self, outcome: Decision) -> bool {
        let is_first = !self.is_decided;
        if is_first {
            (self.is_decided, self.outcome) = (true, outcome);
        }
        is_first
    }

    /// Abandons the event for its caller, who gets an undecided reply whatever becomes of the event. Returns `false` if
    /// it was decided before.
    pub(super) fn abandon(&mut self) -> bool {
        !std::mem::replace(&mut self.is_decided, true)
    }

    /// Returns whether the verdict on this event also decides another event, which has the same positions and waits for
    /// this event. `stamp` states to which unit of the window the waiting event belongs. The waiting event needs no
    /// test of its own if it is certainly a duplicate of this event, and if no further cells must be set for it.
    pub(crate) fn covers(&self, stamp: Stamp, rule: &WindowRule, refresh: Refresh) -> bool {
        let is_found = match self.outcome {
            Decision::FirstSeen => stamp.judged < rule.expiry(self.stamp.unit),
            Decision::Duplicate => stamp.judged <= self.stamp.judged,
            Decision::Undecided(_) => false,
        };
        is_found && (refresh == Refresh::Fixed || stamp.unit <= self.stamp.unit)
    }

    /// Returns whether cells are being set for the event although recording it may still fail.
    pub(crate) fn may_come_to_nothing(&self) -> bool {
        self.phase == Phase::Setting && (!self.is_decided || matches!(self.outcome, Decision::Undecided(_)))
    }

    /// Returns where the event was found, in a window of `span_units` units.
    pub(crate) fn seen(&self, span_units: u64) -> Seen {
        let unit = (self.expiry != UnitNumber::NEVER).then(|| self.expiry.before(span_units));
        Seen { unit, level: self.level }
    }

    /// Returns the number of events that wait for this event.
    pub(crate) fn joiners(&self) -> usize {
        self.joiners.len as usize
    }

    /// Removes and returns the events that wait for this event.
    pub(crate) fn take_joiners(&mut self) -> Queue {
        std::mem::replace(&mut self.joiners, Queue::EMPTY)
    }

    /// Lets these events wait for this event, which must have no other waiting events.
    pub(crate) fn give_joiners(&mut self, joiners: Queue) {
        debug_assert!(self.joiners.first.is_none(), "others wait already");
        self.joiners = joiners;
    }

    /// Removes and returns the retries of this event.
    pub(crate) fn take_echoes(&mut self) -> Queue {
        std::mem::replace(&mut self.echoes, Queue::EMPTY)
    }

    /// Lets an event wait for this event. Returns the event that was last in the queue before.
    pub(super) fn join(&mut self, ticket: Ticket) -> Option<Ticket> {
        self.joiners.push(ticket)
    }

    /// Lets a retry wait for this event. Returns the retry that was last in the queue before.
    pub(super) fn echo(&mut self, ticket: Ticket) -> Option<Ticket> {
        self.echoes.push(ticket)
    }
}

/// A linked list of events. Each event contains the link to the next one.
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

    /// Removes the first event. `next` is the event that follows it.
    pub(super) fn shift(&mut self, next: Option<Ticket>) {
        self.first = next;
        self.len = self.len.saturating_sub(1);
        if next.is_none() {
            self.last = None;
        }
    }
}
