//! The clock of a group whose events bring their times: which of these times it accepts, and what bears them out.
//!
//! Promises: no producer moves the clock further beyond the owner's time of day than a step and the skew of clocks, to
//! the millisecond, however long a unit is; within that, only a time that is borne out moves it far (`lately.rs`); a
//! lookup, which records nothing, does not move it. Must not know: cells, other groups.

use firstseen_filter::{FilterDefinition, Jump, Placed, UnitClock, UnitNumber, WindowClock};

use super::lately::{BatchSender, Lately};
use crate::group::limits::OwnerLimits;
use crate::group::rules::Rule;
use crate::protocol::{ClockReading, Submission, Times};

/// What the clock must know of the batch in hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heading {
    sender: BatchSender,
    events: usize,
    pub(super) moves_clock: bool,
}

impl Heading {
    pub(crate) fn of(submission: &Submission) -> Self {
        let sender = match submission.from {
            Some(_) => BatchSender::Level,
            None => BatchSender::Producer(submission.producer),
        };
        Self { sender, events: submission.probes.len(), moves_clock: submission.operation.moves_clock() }
    }
}

/// Clocks show no later time.
const TIME_MAX_MS: u64 = 1 << 62;

/// A clock that follows producers.
pub(crate) struct EventClock {
    clock: UnitClock,
    /// The greatest time that producers have shown, of those in units that were accepted.
    shown: WindowClock,
    /// The time of day as a node shows it whose clock is ahead by as much as clocks may differ.
    present: WindowClock,
    /// The time of day as a node shows it whose clock is behind by as much.
    earliest: WindowClock,
    /// The greatest time that is accepted now.
    latest: WindowClock,
    clock_skew_max_ms: u64,
    future_max_ms: u64,
    lately: Lately,
    /// A time that is far ahead must be borne out.
    minds_others: bool,
}

impl EventClock {
    /// A clock that has seen nothing, for slices of `definition`.
    pub(super) fn new(definition: &FilterDefinition, limits: &OwnerLimits) -> Self {
        let FilterDefinition { unit, rule, future_max_ms, .. } = definition;
        // A time whose unit was accepted is never too far ahead, and neither is the owner's own time.
        let own = WindowClock::new(unit.clone(), *rule, u64::MAX);
        let minds_others = limits.rules.keep(Rule::BearsOutTimes);
        let clock = UnitClock::new(*rule, unit.future_units(*future_max_ms));
        let clock_skew_max_ms = limits.clock_skew_max_ms;
        Self {
            clock,
            shown: own.clone(),
            present: own.clone(),
            earliest: own.clone(),
            latest: own,
            clock_skew_max_ms,
            future_max_ms: *future_max_ms,
            lately: Lately::default(),
            minds_others,
        }
    }

    /// Before the events of a batch.
    pub(super) fn open_batch(&mut self, heading: Heading, times: &Times, now_wall_ms: u64) {
        let latest_ms = now_wall_ms.saturating_add(self.clock_skew_max_ms);
        self.present.catch_up_ms(latest_ms);
        self.earliest.catch_up_ms(now_wall_ms.saturating_sub(self.clock_skew_max_ms));
        self.latest.catch_up_ms(latest_ms.saturating_add(self.future_max_ms).min(TIME_MAX_MS));
        if self.minds_others {
            self.lately.open(self.clock.anchor_unit(), now_wall_ms);
            let units = self.earliest.now_unit()..=self.latest.now_unit();
            self.clock.show_present(units, !self.lately.outweighs_present(heading.sender));
        }
        if heading.moves_clock {
            let Self { clock, lately, minds_others, .. } = self;
            clock.catch_up(times.base_unit, |jump| is_said(lately, *minds_others, heading, times, jump));
        }
    }

    /// The place of event `index` of the open batch, or of all where they share one.
    #[inline]
    pub(super) fn place(&mut self, heading: Heading, times: &Times, index: usize) -> Placed {
        let (clock_unit, unit) = match times.ticks.get(index) {
            Some(tick) => (tick.clock_unit, tick.unit),
            None => (times.base_unit, times.base_unit),
        };
        let Self { clock, lately, minds_others, .. } = self;
        if heading.moves_clock {
            clock.place(clock_unit, unit, |jump| is_said(lately, *minds_others, heading, times, jump))
        } else {
            clock.look_up(clock_unit, unit)
        }
    }

    /// After the events of a batch. What a producer's clock shows counts unless it is ahead of the units that were
    /// accepted.
    pub(super) fn close_batch(&mut self, heading: Heading, times: &Times) {
        if !heading.moves_clock {
            return;
        }
        if self.clock.is_live() {
            self.lately.forget()
        } else {
            self.lately.note(heading.sender, times, heading.events)
        }
        // A unit may be long, so that a time within an accepted one may be far ahead all the same.
        let Some(clock_ms) = times.clock_ms else { return };
        let clock_ms = clock_ms.min(self.latest.now_ms().unwrap_or(u64::MAX));
        if self.shown.now_ms().is_none_or(|shown_ms| shown_ms < clock_ms) {
            let mut next = self.shown.clone();
            next.catch_up_ms(clock_ms);
            if next.now_unit() <= self.clock.now_unit() {
                self.shown = next;
            }
        }
    }

    /// A producer has ended.
    pub(super) fn end_producer(&mut self, producer: u128) {
        self.lately.end(producer);
    }

    /// The greatest time accepted, in milliseconds since 1970, if any.
    pub(super) fn clock_ms(&self) -> Option<u64> {
        self.shown.now_ms()
    }

    /// The greatest unit placed so far.
    pub(super) fn now_unit(&self) -> UnitNumber {
        self.clock.now_unit()
    }

    /// The unit of this time of day; a unit that was the present before is never after it.
    pub(super) fn unit_at(&self, wall_ms: u64) -> UnitNumber {
        let mut present = self.present.clone();
        present.catch_up_ms(wall_ms);
        present.now_unit()
    }

    /// From now on the clock shows at least what a clock of this group has shown before.
    pub(super) fn restore(&mut self, reading: ClockReading) {
        self.clock.restore(reading.unit);
        reading.time_ms.into_iter().for_each(|time_ms| self.shown.catch_up_ms(time_ms));
    }
}

fn is_said(lately: &Lately, minds_others: bool, heading: Heading, times: &Times, jump: Jump) -> bool {
    !minds_others || lately.bears_out(heading.sender, times, heading.events, jump)
}
