//! Time to live: events that are remembered for less than the window.
//!
//! An event is remembered for its time to live at least, and for two units longer at most. A time to live that the filter cannot keep is
//! an error; it is never cut short or extended. This module must not depend on cells and on who asks.

use thiserror::Error;

use crate::definition::FilterDefinition;
use crate::number::duration;
use crate::unit_number::UnitNumber;
use crate::{Ability, Kind, Stamp, Unit};

/// Why an event cannot be remembered for so long.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TtlError {
    /// The kind remembers all events for one time.
    #[error("kind {0} remembers every event for its window: use kind timing or cuckoo")]
    Kind(Kind),
    /// The window is not counted in time.
    #[error("a window of {window} has no milliseconds: give the filter a duration, such as 24h")]
    Unit {
        /// The window.
        window: String,
    },
    /// A time to live of nothing.
    #[error("a time to live of 0 ms: choose at least 1 ms")]
    Empty,
    /// Longer than the window.
    #[error("a time to live of {}, and the window is {window}: choose a longer window, or a shorter time to live", duration(*.ttl_ms))]
    TooLong {
        /// The requested time to live.
        ttl_ms: u64,
        /// The window.
        window: String,
    },
    /// The clock shows less than a window.
    #[error(
        "at unit {now}, less than a window after the first: a shorter time to live than the window cannot be counted yet"
    )]
    TooEarly {
        /// The unit that the clock shows.
        now: UnitNumber,
    },
}

impl FilterDefinition {
    /// Returns the stamp of an event at unit `now` that is remembered for `ttl_ms` instead of the window: its cells expire at
    /// `now + ceil(ttl / unit) + 1`, as those of an earlier event do. Among the events for which the filter has room it
    /// counts for the whole window nevertheless.
    ///
    /// ```
    /// use firstseen_filter::{FilterSecret, FilterSlice, FilterSpec, Kind, Stamp, UnitNumber, Verdict};
    /// let spec = FilterSpec {
    ///     capacity_events: Some(1000),
    ///     ..FilterSpec::new(Kind::Cuckoo, "1h".parse().unwrap())
    /// };
    /// let definition = spec.resolve().unwrap();
    /// let mut slice = FilterSlice::build(&definition).unwrap();
    /// let click = [FilterSecret::from_seed(1).digest(b"click")];
    /// let mut verdict = [Verdict::Undecided];
    /// let now = UnitNumber(1_000);
    /// slice.observe_batch(&click, &[definition.stamp_for(600_000, now).unwrap()], &mut verdict);
    /// let after_ten_minutes = now.after(definition.rule.span_units / 6 + 2);
    /// slice.observe_batch(&click, &[Stamp::on_time(after_ten_minutes)], &mut verdict);
    /// assert_eq!(verdict, [Verdict::FirstSeen]);
    /// assert!(definition.stamp_for(7_200_000, now).is_err());
    /// ```
    ///
    /// # Errors
    /// [`TtlError`].
    pub fn stamp_for(&self, ttl_ms: u64, now: UnitNumber) -> Result<Stamp, TtlError> {
        let ttl_units = self.ttl_units()?;
        if ttl_ms == 0 {
            return Err(TtlError::Empty);
        }
        if !ttl_units.fits(ttl_ms) {
            return Err(TtlError::TooLong { ttl_ms, window: self.window.to_string() });
        }
        ttl_units.stamp(ttl_ms, now).ok_or(TtlError::TooEarly { now })
    }

    /// Returns how ttl_units are counted in this filter.
    ///
    /// # Errors
    /// [`TtlError::Kind`] or [`TtlError::Unit`] where all events are remembered for the window.
    pub fn ttl_units(&self) -> Result<TtlUnits, TtlError> {
        let kind = self.cells.kind();
        if !kind.can(Ability::Ttl) {
            return Err(TtlError::Kind(kind));
        }
        match self.unit {
            Unit::Milliseconds(unit_ms) => Ok(TtlUnits { unit_ms, span_units: self.rule.span_units }),
            _ => Err(TtlError::Unit { window: self.window.to_string() }),
        }
    }
}

/// How a filter counts the ttl_units of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlUnits {
    unit_ms: u64,
    span_units: u64,
}

impl TtlUnits {
    /// Whether an event can be remembered for `ttl_ms`.
    pub fn fits(self, ttl_ms: u64) -> bool {
        ttl_ms > 0 && self.units(ttl_ms) <= self.span_units
    }

    /// The stamp of an event at unit `now` that is remembered for a time that [fits](Self::fits), as [`FilterDefinition::stamp_for`]
    /// has it; none less than a window after the first unit.
    pub fn stamp(self, ttl_ms: u64, now: UnitNumber) -> Option<Stamp> {
        let unit = now.after(self.units(ttl_ms)).0.checked_sub(self.span_units)?;
        Some(Stamp { unit: UnitNumber(unit), judged: now })
    }

    fn units(self, ttl_ms: u64) -> u64 {
        ttl_ms.div_ceil(self.unit_ms.max(1)).saturating_add(1)
    }
}
