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
mod disorder;
mod spec;
mod spread;
mod unit_clock;

use serde::{Deserialize, Serialize};

use crate::unit_number::UnitNumber;

pub use borne::AHEAD_EVENTS_MAX;
pub use calendar::{Calendar, CalendarError, Period};
pub use clock::{Placed, WindowClock};
pub use disorder::FORESEEN_EVENTS_MAX;
pub use spec::{Unit, Window, WindowError};
pub use spread::Spread;
pub use unit_clock::{Jump, UnitClock};

/// The place of one event in a window, in the window's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The unit in which the event occurred: its cells expire at `unit + span`.
    pub unit: UnitNumber,
    /// The unit at which the event is judged: its own, or the edge of lateness where it comes later than that. Cells
    /// with a greater expiry are alive for it.
    pub judged: UnitNumber,
}

impl Stamp {
    /// The stamp of an event that is not late.
    pub const fn on_time(unit: UnitNumber) -> Self {
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
    pub fn expiry(&self, unit: UnitNumber) -> UnitNumber {
        unit.after(self.span_units)
    }

    /// The greatest expiry of the cells of an event within the window after `unit`. Where cells expire later, the last
    /// event that set them is further away from `unit` than the window.
    ///
    /// ```
    /// use firstseen_filter::{UnitNumber, WindowRule};
    /// let rule = WindowRule { span_units: 10, lateness_units: 30 };
    /// assert_eq!(rule.expiry_max(UnitNumber(100)), rule.expiry(UnitNumber(109)));
    /// ```
    #[inline(always)]
    pub fn expiry_max(&self, unit: UnitNumber) -> UnitNumber {
        self.expiry(unit).after(self.span_units.saturating_sub(1))
    }

    /// The place of an event of `unit` when the greatest unit seen is `now`; `None` if it comes so late that its cells
    /// would have expired already, beyond the lateness.
    ///
    /// ```
    /// use firstseen_filter::{Stamp, UnitNumber, WindowRule};
    /// let rule = WindowRule { span_units: 10, lateness_units: 3 };
    /// let now = UnitNumber(100);
    /// assert_eq!(rule.stamp(now, now), Some(Stamp::on_time(now)));
    /// let late = Stamp { unit: UnitNumber(95), judged: UnitNumber(97) };
    /// assert_eq!(rule.stamp(late.unit, now), Some(late));
    /// assert_eq!(rule.stamp(UnitNumber(87), now), None);
    /// ```
    #[inline]
    pub fn stamp(&self, unit: UnitNumber, now: UnitNumber) -> Option<Stamp> {
        let judged = unit.max(now.before(self.lateness_units));
        (self.expiry(unit) > judged).then_some(Stamp { unit, judged })
    }

    /// The place of an event of `unit` that is only looked up, by a clock that shows `now`, where `recorded` is the
    /// greatest unit that may have been recorded: the event moves nothing, so it stands in no later unit, and it is
    /// judged at its own unit all the same. `None` as in [`Self::stamp`].
    ///
    /// ```
    /// use firstseen_filter::{Stamp, UnitNumber, WindowRule};
    /// let rule = WindowRule { span_units: 10, lateness_units: 3 };
    /// let (now, ahead, late) = (UnitNumber(100), UnitNumber(105), UnitNumber(95));
    /// assert_eq!(rule.stamp_lookup(ahead, now, now), Some(Stamp { unit: now, judged: ahead }));
    /// assert_eq!(rule.stamp_lookup(late, now, now), rule.stamp(late, now));
    /// ```
    #[inline]
    pub fn stamp_lookup(&self, unit: UnitNumber, now: UnitNumber, recorded: UnitNumber) -> Option<Stamp> {
        let Stamp { unit, judged } = self.stamp(unit, now)?;
        Some(Stamp { unit: unit.min(recorded), judged })
    }
}
