//! Time to live of events that the filter remembers for less than its window.
//!
//! An event is remembered for at least its time to live, and for at most two units longer. If the filter cannot keep an
//! event for the requested time, the caller gets an error, because the filter must not shorten or extend the time
//! without notice.
//!
//! This module does not depend on cells or on the caller.

use thiserror::Error;

use crate::definition::FilterDefinition;
use crate::number::duration;
use crate::unit_number::UnitNumber;
use crate::{Ability, Kind, Stamp, Unit};

/// Reason why a filter cannot remember an event for the requested time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TtlError {
    /// The kind of the filter remembers all events for the same time.
    #[error("kind {0} remembers every event for its window: use kind timing or cuckoo")]
    Kind(Kind),
    /// The window of the filter is not measured in time.
    #[error("window {window} is not measured in time: give the filter a duration as its window, such as 24h")]
    Unit {
        /// Window of the filter.
        window: String,
    },
    /// The time to live is 0.
    #[error("a time to live of 0 ms: choose at least 1 ms")]
    Empty,
    /// The time to live is longer than the window.
    #[error("a time to live of {}, and the window is {window}: choose a longer window, or a shorter time to live", duration(*.ttl_ms))]
    TooLong {
        /// Requested time to live in milliseconds.
        ttl_ms: u64,
        /// Window of the filter.
        window: String,
    },
    /// The clock shows a unit that is less than one window after the first unit.
    #[error(
        "the clock is at unit {now}, less than one window after its first unit: use the window as the time to live until then"
    )]
    TooEarly {
        /// Unit that the clock shows.
        now: UnitNumber,
    },
}

impl FilterDefinition {
    /// Returns the stamp with which an event at unit `now` must be recorded so that the filter remembers it for
    /// `ttl_ms`. To make the event expire early, the stamp pretends that the event occurred at an earlier unit. This
    /// unit is chosen so that the cells of the event expire at `now + ceil(ttl / unit) + 1`.
    ///
    /// However short the time to live of an event is, the event counts for a whole window towards the capacity of the
    /// filter.
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
    /// Returns [`TtlError`] if the filter cannot remember an event for this time.
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

    /// Returns how this filter counts times to live in units.
    ///
    /// # Errors
    /// Returns [`TtlError::Kind`] or [`TtlError::Unit`] if the filter remembers all events for its window.
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

/// Conversion of a time to live to the units of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlUnits {
    unit_ms: u64,
    span_units: u64,
}

impl TtlUnits {
    /// Returns whether the filter can remember an event for `ttl_ms`.
    pub fn fits(self, ttl_ms: u64) -> bool {
        ttl_ms > 0 && self.units(ttl_ms) <= self.span_units
    }

    /// Returns the stamp of an event at unit `now` that the filter remembers for `ttl_ms`, as
    /// [`FilterDefinition::stamp_for`] describes. The time must [fit](Self::fits) into the window. Returns `None` if
    /// the stamp would need a unit before the first one, which can only happen if `now` is less than one window after
    /// the first unit.
    pub fn stamp(self, ttl_ms: u64, now: UnitNumber) -> Option<Stamp> {
        let unit = now.after(self.units(ttl_ms)).0.checked_sub(self.span_units)?;
        Some(Stamp { unit: UnitNumber(unit), judged: now })
    }

    fn units(self, ttl_ms: u64) -> u64 {
        ttl_ms.div_ceil(self.unit_ms.max(1)).saturating_add(1)
    }
}
