//! The clock of a group whose events carry their own times. It decides which event times are accepted and which of them
//! are confirmed.
//!
//! # Guarantees
//!
//! - A producer cannot move the clock further beyond the owner's time of day than one step plus the clock skew. This
//!   limit is exact to the millisecond, however long a unit of the window is.
//! - Within that limit, only a confirmed time moves the clock far (see `recent_times.rs`).
//! - A lookup records nothing and does not move the clock.
//!
//! This module does not depend on cells or on other groups.

use firstseen_filter::{FilterDefinition, Jump, Placed, UnitClock, UnitNumber, WindowClock};

use super::recent_times::{BatchSender, RecentTimes};
use crate::group::limits::OwnerLimits;
use crate::group::rules::Rule;
use crate::protocol::{ClockReading, Submission, Times};

/// What the clock needs to know about the current batch.
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

/// Maximum time in milliseconds that a clock shows.
const TIME_MAX_MS: u64 = 1 << 62;

/// A clock that follows the event times of producers.
pub(crate) struct EventClock {
    clock: UnitClock,
    /// The greatest time that producers have sent within an accepted unit.
    shown: WindowClock,
    /// Time of day of a node whose clock is ahead by the maximum clock skew.
    present: WindowClock,
    /// Time of day of a node whose clock is behind by the maximum clock skew.
    earliest: WindowClock,
    /// The greatest event time that is accepted now.
    latest: WindowClock,
    clock_skew_max_ms: u64,
    future_max_ms: u64,
    lately: RecentTimes,
    /// Whether a time that is far ahead must be confirmed. Only tests switch this off.
    checks_future_times: bool,
}

impl EventClock {
    /// Creates a clock that has not seen any event yet, for slices of `definition`.
    pub(super) fn new(definition: &FilterDefinition, limits: &OwnerLimits) -> Self {
        let FilterDefinition { unit, rule, future_max_ms, .. } = definition;
        // These clocks have no limit of their own. They only show the owner's time, and times whose unit was already
        // accepted.
        let own = WindowClock::new(unit.clone(), *rule, u64::MAX);
        let checks_future_times = limits.rules.keep(Rule::ConfirmsFutureTimes);
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
            lately: RecentTimes::default(),
            checks_future_times,
        }
    }

    /// Prepares the clock for the events of a batch.
    pub(super) fn open_batch(&mut self, heading: Heading, times: &Times, now_wall_ms: u64) {
        let latest_ms = now_wall_ms.saturating_add(self.clock_skew_max_ms);
        self.present.catch_up_ms(latest_ms);
        self.earliest.catch_up_ms(now_wall_ms.saturating_sub(self.clock_skew_max_ms));
        self.latest.catch_up_ms(latest_ms.saturating_add(self.future_max_ms).min(TIME_MAX_MS));
        if self.checks_future_times {
            self.lately.open(self.clock.anchor_unit(), now_wall_ms);
            let units = self.earliest.now_unit()..=self.latest.now_unit();
            self.clock.show_present(units, !self.lately.outweighs_present(heading.sender));
        }
        if heading.moves_clock {
            let Self { clock, lately, checks_future_times, .. } = self;
            clock.catch_up(times.base_unit, |jump| confirms_jump(lately, *checks_future_times, heading, times, jump));
        }
    }

    /// Returns the place in the window of event `index` of the open batch, or of all its events if they share one
    /// place.
    #[inline]
    pub(super) fn place(&mut self, heading: Heading, times: &Times, index: usize) -> Placed {
        let (clock_unit, unit) = match times.ticks.get(index) {
            Some(tick) => (tick.clock_unit, tick.unit),
            None => (times.base_unit, times.base_unit),
        };
        let Self { clock, lately, checks_future_times, .. } = self;
        if heading.moves_clock {
            clock.place(clock_unit, unit, |jump| confirms_jump(lately, *checks_future_times, heading, times, jump))
        } else {
            clock.look_up(clock_unit, unit)
        }
    }

    /// Completes the clock's work on a batch. The reading of the producer's clock counts, unless it is ahead of the
    /// accepted units.
    pub(super) fn close_batch(&mut self, heading: Heading, times: &Times) {
        if !heading.moves_clock {
            return;
        }
        if self.clock.is_live() {
            self.lately.forget()
        } else {
            self.lately.note(heading.sender, times, heading.events)
        }
        // A unit can be long, so a time within an accepted unit may still be too far ahead.
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

    /// Notes that a producer has ended.
    pub(super) fn end_producer(&mut self, producer: u128) {
        self.lately.end(producer);
    }

    /// Returns the greatest time accepted, in milliseconds since 1970, if there is one.
    pub(super) fn clock_ms(&self) -> Option<u64> {
        self.shown.now_ms()
    }

    /// Returns the greatest unit in which an event was placed so far.
    pub(super) fn now_unit(&self) -> UnitNumber {
        self.clock.now_unit()
    }

    /// Returns the unit of this time of day. The result never lies before a unit that was the present earlier.
    pub(super) fn unit_at(&self, wall_ms: u64) -> UnitNumber {
        let mut present = self.present.clone();
        present.catch_up_ms(wall_ms);
        present.now_unit()
    }

    /// Moves the clock forward to at least an earlier reading of this group's clock.
    pub(super) fn restore(&mut self, reading: ClockReading) {
        self.clock.restore(reading.unit);
        reading.time_ms.into_iter().for_each(|time_ms| self.shown.catch_up_ms(time_ms));
    }
}

fn confirms_jump(lately: &RecentTimes, checks_future_times: bool, heading: Heading, times: &Times, jump: Jump) -> bool {
    !checks_future_times || lately.confirms(heading.sender, times, heading.events, jump)
}
