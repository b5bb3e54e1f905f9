//! Events that are remembered for less than the window: each has a life of its own.
//!
//! Promises: an event is remembered for its life at least, and for two units more at most; what cannot be promised is
//! refused, and never cut short or drawn out in silence. Must not know: cells, who asks.

use thiserror::Error;

use crate::definition::FilterDefinition;
use crate::number::duration;
use crate::unit_number::UnitNumber;
use crate::{Kind, Stamp, Unit};

/// Why an event cannot be remembered for so long.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LifeError {
    /// The kind remembers all events for one time.
    #[error("kind {0} remembers every event for its window: use kind timing or cuckoo")]
    Kind(Kind),
    /// The window is not counted in time.
    #[error("a window of {window} has no milliseconds: give the filter a duration, such as 24h")]
    Unit {
        /// The window.
        window: String,
    },
    /// A life of nothing.
    #[error("a life of 0 ms: choose at least 1 ms")]
    Empty,
    /// Longer than the window.
    #[error("a life of {}, and the window is {window}: choose a longer window, or a shorter life", duration(*.life_ms))]
    TooLong {
        /// The life asked for.
        life_ms: u64,
        /// The window.
        window: String,
    },
    /// The clock shows less than a window.
    #[error("at unit {now}, less than a window after the first: a shorter life than the window cannot be counted yet")]
    TooEarly {
        /// The unit that the clock shows.
        now: UnitNumber,
    },
}

impl FilterDefinition {
    /// The stamp of an event at unit `now` that is remembered for `life_ms` instead of the window: its cells expire at
    /// `now + ceil(life / unit) + 1`, as if it had come so much earlier. Among the events for which the filter has room it
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
    /// [`LifeError`].
    pub fn stamp_for(&self, life_ms: u64, now: UnitNumber) -> Result<Stamp, LifeError> {
        let lives = self.lives()?;
        if life_ms == 0 {
            return Err(LifeError::Empty);
        }
        if !lives.fits(life_ms) {
            return Err(LifeError::TooLong { life_ms, window: self.window.to_string() });
        }
        lives.stamp(life_ms, now).ok_or(LifeError::TooEarly { now })
    }

    /// Returns how lives are counted in this filter.
    ///
    /// # Errors
    /// [`LifeError::Kind`] or [`LifeError::Unit`] where all events are remembered for the window.
    pub fn lives(&self) -> Result<Lives, LifeError> {
        let kind = self.cells.kind();
        if !kind.takes_lives() {
            return Err(LifeError::Kind(kind));
        }
        match self.unit {
            Unit::Milliseconds(unit_ms) => Ok(Lives { unit_ms, span_units: self.rule.span_units }),
            _ => Err(LifeError::Unit { window: self.window.to_string() }),
        }
    }
}

/// How a filter counts the lives of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    unit_ms: u64,
    span_units: u64,
}

impl Lives {
    /// Whether an event can be remembered for `life_ms`.
    pub fn fits(self, life_ms: u64) -> bool {
        life_ms > 0 && self.units(life_ms) <= self.span_units
    }

    /// The stamp of an event at unit `now` that is remembered for a time that [fits](Self::fits), as [`FilterDefinition::stamp_for`]
    /// has it; none less than a window after the first unit.
    pub fn stamp(self, life_ms: u64, now: UnitNumber) -> Option<Stamp> {
        let unit = now.after(self.units(life_ms)).0.checked_sub(self.span_units)?;
        Some(Stamp { unit: UnitNumber(unit), judged: now })
    }

    fn units(self, life_ms: u64) -> u64 {
        life_ms.div_ceil(self.unit_ms.max(1)).saturating_add(1)
    }
}
