//! Windows in whole units: the time that an event carries, and how long its cells live.
//!
//! Every window of this crate is one rule with two numbers. Time is cut into units (ticks of a timer wheel, jumps
//! between generations, landmarks). What an event of unit `t` leaves behind expires at `t + span`; it is alive for
//! an event judged at `j` iff `expiry > j`. A filter without a window has one unit that never ends.
//!
//! Promises: pure; the same times in the same order give the same stamps. Must not know: cells, the real clock.

mod borne;
mod calendar;
mod clock;
mod spec;
mod unit_clock;

use serde::{Deserialize, Serialize};

pub use borne::AHEAD_EVENTS_MAX;
pub use calendar::{Calendar, CalendarError, Period};
pub use clock::{Placed, WindowClock};
pub use spec::{Unit, Window, WindowError};
pub use unit_clock::{Jump, UnitClock};

/// The place of one event in a window, in the window's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The unit in which the event occurred: its cells expire at `unit + span`.
    pub unit: u64,
    /// The unit at which the event is judged: its own, or the edge of lateness where it comes later than that. Cells
    /// with a greater expiry are alive for it.
    pub judged: u64,
}

impl Stamp {
    /// The stamp of an event that is not late.
    pub const fn on_time(unit: u64) -> Self {
        Self { unit, judged: unit }
    }
}

/// For how long the cells of an event count, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowRule {
    /// Cells that are set in unit `t` expire at `t + span_units`.
    pub span_units: u64,
    /// Cells are kept so many units beyond their expiry, for events that come late.
    pub lateness_units: u64,
}

impl WindowRule {
    /// The unit from which on the cells of an event of `unit` are no longer alive.
    #[inline(always)]
    pub fn expiry(&self, unit: u64) -> u64 {
        unit.saturating_add(self.span_units)
    }

    /// The place of an event of `unit` when the greatest unit seen is `now`; `None` if it comes so late that its cells
    /// would have expired already, beyond the lateness.
    ///
    /// ```
    /// use firstseen_filter::{Stamp, WindowRule};
    /// let rule = WindowRule { span_units: 10, lateness_units: 3 };
    /// assert_eq!(rule.stamp(100, 100), Some(Stamp { unit: 100, judged: 100 }));
    /// assert_eq!(rule.stamp(95, 100), Some(Stamp { unit: 95, judged: 97 }));
    /// assert_eq!(rule.stamp(87, 100), None);
    /// ```
    #[inline]
    pub fn stamp(&self, unit: u64, now: u64) -> Option<Stamp> {
        let judged = unit.max(now.saturating_sub(self.lateness_units));
        (self.expiry(unit) > judged).then_some(Stamp { unit, judged })
    }

    /// The place of an event of `unit` that is only looked up, by a clock that shows `now`, where `recorded` is the
    /// greatest unit that may have been recorded: the event moves nothing, so it stands in no later unit, and it is
    /// judged at its own unit all the same. `None` as in [`Self::stamp`].
    ///
    /// ```
    /// use firstseen_filter::{Stamp, WindowRule};
    /// let rule = WindowRule { span_units: 10, lateness_units: 3 };
    /// assert_eq!(rule.stamp_lookup(105, 100, 100), Some(Stamp { unit: 100, judged: 105 }));
    /// assert_eq!(rule.stamp_lookup(95, 100, 100), rule.stamp(95, 100));
    /// ```
    #[inline]
    pub fn stamp_lookup(&self, unit: u64, now: u64, recorded: u64) -> Option<Stamp> {
        let Stamp { unit, judged } = self.stamp(unit, now)?;
        Some(Stamp { unit: unit.min(recorded), judged })
    }
}
