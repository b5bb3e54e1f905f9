//! Windows in whole units: the time that an event carries, and how long the cells of the event live.
//!
//! All windows of this crate follow one rule with two numbers, the span and the lateness. Time is divided into units,
//! such as ticks of a timer wheel, jumps between generations, or landmarks. The cells of an event of unit `t` expire at
//! `t + span`. A cell is alive for an event that is judged at unit `j` iff `expiry > j`. A filter without a window has
//! a single unit that never ends.
//!
//! The functions of this module are pure: the same times in the same order give the same stamps.
//!
//! The module does not depend on cells or on the clock of the machine.
//!
//! The module does not depend on cells or on the clock of the machine.

mod calendar;
mod clock;
mod confirmation;
mod disorder;
mod spec;
mod spread;
mod unit_clock;

use serde::{Deserialize, Serialize};

use crate::unit_number::UnitNumber;

pub use calendar::{Calendar, CalendarError, Period};
pub use clock::{Placed, WindowClock};
pub use confirmation::AHEAD_EVENTS_MAX;
pub use disorder::FORESEEN_EVENTS_MAX;
pub use spec::{Unit, Window, WindowError};
pub use spread::Spread;
pub use unit_clock::{Jump, UnitClock};

/// Place of one event in a window, in the units of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Unit in which the event occurred. The cells of the event expire at `unit + span`.
    pub unit: UnitNumber,
    /// Unit at which the event is judged, that is, compared with the cells. Only cells whose expiry is greater than
    /// this unit are alive for the event. An event is normally judged at its own unit. If it arrives later than the
    /// lateness allows, its own unit is too far back, because cells that were alive then may be cleared already. It is
    /// then judged at the earliest unit for which cells are still kept.
    pub judged: UnitNumber,
}

impl Stamp {
    /// Returns the stamp of an event that is not late.
    pub const fn on_time(unit: UnitNumber) -> Self {
        Self { unit, judged: unit }
    }
}

/// How long the cells of an event count, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowRule {
    /// Lifetime of cells: cells that are set in unit `t` expire at `t + span_units`.
    pub span_units: u64,
    /// Number of units for which cells are kept after they have expired, so that late events can be judged exactly.
    pub lateness_units: u64,
}

impl WindowRule {
    /// Returns the unit from which on the cells of an event of `unit` are no longer alive.
    #[inline(always)]
    pub fn expiry(&self, unit: UnitNumber) -> UnitNumber {
        unit.after(self.span_units)
    }

    /// Returns the greatest expiry that a cell may have if it makes an event at `unit` a duplicate. An event is also a
    /// duplicate if the other event occurred later, but arrived first. However, the two events must be less than one
    /// window apart. A cell with an expiry above the result was set by an event at least one window later than `unit`.
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

    /// Returns the place of an event that occurred in `unit`, if `now` is the greatest unit seen so far. Returns `None`
    /// if the event is so late that it has no place in the window. This is the case if its cells would already have
    /// expired at the earliest unit for which cells are still kept.
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

    /// Returns the place of an event that is only looked up. The parameter `unit` is the unit of the event, `now` is
    /// the unit that the clock shows, and `recorded` is the greatest unit that may have been recorded.
    ///
    /// A lookup must not move the window, so the unit of the returned stamp is at most `recorded`. An event that occurs
    /// later than `recorded` is still judged at its own unit. It therefore does not match earlier events that will have
    /// left the window by then. Returns `None` in the same cases as [`Self::stamp`].
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
