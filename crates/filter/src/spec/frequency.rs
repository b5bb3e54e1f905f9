//! What a user asks for in a filter of kind decaying, and the definition that fulfils it.
//!
//! Promises: a filter that cannot be built is refused by name, with what to do instead. Must not know: flags, files.

use super::{SpecError, load_of_one};
use crate::decaying::{CounterStorage, DecayRule, DecayingShape};
use crate::definition::{CellDefinition, DecayingCells, FilterDefinition};
use crate::kind::Kind;
use crate::rates::plain;
use crate::{GeometryError, HASHES_MAX, Unit, Window, WindowRule};

/// No occurrence is too old to be counted: only less is left of it.
const RULE: WindowRule = WindowRule { span_units: u64::MAX, lateness_units: 0 };

/// A filter that estimates decayed frequencies. Start from [`FrequencySpec::new`] and change the fields that are known.
#[derive(Clone, Debug, PartialEq)]
pub struct FrequencySpec {
    /// From one decay to the next: a duration, or a number of events.
    pub epoch: Window,
    /// How counters decay.
    pub rule: DecayRule,
    /// Keys that are counted at once.
    pub capacity_keys: u64,
    /// Highest acceptable chance that a key never seen has an estimate above zero.
    pub rate: f64,
    /// Cells (m) instead of the number that follows from capacity and rate.
    pub cells: Option<u64>,
    /// Positions a key (k) instead of the best.
    pub hashes: Option<u32>,
    /// Counters of 16 bits instead of small ones with extensions.
    pub basic: bool,
    /// How far ahead an event takes the clock by its own word, in milliseconds.
    pub future_max_ms: u64,
}

impl FrequencySpec {
    /// Frequencies that fall to a `lambda`-th from one `epoch` to the next, of a million keys; everything else by
    /// default.
    pub fn new(epoch: Window, lambda: f64) -> Self {
        let future_max_ms = epoch.future_default_ms();
        Self {
            epoch,
            rule: DecayRule::Lasting { lambda, fraction_bits: 4 },
            capacity_keys: 1_000_000,
            rate: 0.01,
            cells: None,
            hashes: None,
            basic: false,
            future_max_ms,
        }
    }

    /// One of `slices` equal slices of this filter: its share of the keys. As in
    /// [`crate::FilterSpec::share`] a slice has room for the keys that fall on it by chance.
    #[must_use]
    pub fn share(&self, slices: u32) -> Self {
        let slices = u64::from(slices.max(1));
        Self {
            capacity_keys: load_of_one(self.capacity_keys, slices),
            cells: self.cells.map(|cells| cells.div_ceil(slices)),
            ..self.clone()
        }
    }

    /// The definition that fulfils this.
    ///
    /// ```
    /// use firstseen_filter::{FilterSecret, FilterSlice, FrequencySpec, Stamp, UnitNumber};
    /// let definition = FrequencySpec::new("1h".parse().unwrap(), 0.5).resolve().unwrap();
    /// let mut slice = FilterSlice::build(&definition).unwrap();
    /// let page = FilterSecret::from_seed(1).digest(b"/index.html");
    /// let mut estimates = [0.0; 3];
    /// slice.count_batch(&[page; 3], &[0, 0, 1].map(|unit| Stamp::on_time(UnitNumber(unit))), &mut estimates).unwrap();
    /// assert_eq!(estimates, [1.0, 2.0, 2.0]);
    /// ```
    ///
    /// # Errors
    /// [`SpecError`]: what does not fit together, and what to change.
    pub fn resolve(&self) -> Result<FilterDefinition, SpecError> {
        let unit = match self.epoch {
            Window::Duration(0) | Window::Events(0) => return Err(SpecError::WindowEmpty(self.epoch.clone())),
            Window::Duration(ms) => Unit::Milliseconds(ms),
            Window::Events(events) => Unit::Events(events),
            ref window => {
                let instead = "an epoch is a duration (1h) or a number of events (1000000events)";
                return Err(SpecError::Window { kind: Kind::Decaying, window: window.clone(), instead });
            }
        };
        let (cells, hashes) = self.size()?;
        let storage = if self.basic {
            CounterStorage::Basic
        } else {
            // C05 4: half as many extensions as cells.
            CounterStorage::Extended { extensions: u32::try_from(cells / 2).unwrap_or(u32::MAX) }
        };
        let shape = DecayingShape { cells, hashes, rule: self.rule, storage };
        shape.check()?;
        Ok(FilterDefinition {
            window: self.epoch.clone(),
            unit,
            rule: RULE,
            future_max_ms: self.future_max_ms,
            cells: CellDefinition::Decaying(DecayingCells { shape }),
            rate: self.rate,
            capacity_events: Some(self.capacity_keys),
        })
    }

    /// Cells and positions: a key never seen has an estimate above zero where all its cells are in use, so a plain
    /// filter's formula gives the rate (C05 4.1).
    fn size(&self) -> Result<(u64, u32), SpecError> {
        if !(self.rate > 0.0 && self.rate < 1.0) {
            return Err(SpecError::Rate(self.rate));
        }
        if self.capacity_keys == 0 {
            return Err(SpecError::Capacity);
        }
        if let Some(hashes) = self.hashes.filter(|hashes| !(1..=HASHES_MAX).contains(hashes)) {
            return Err(GeometryError::Hashes(hashes).into());
        }
        let keys = self.capacity_keys as f64;
        let size = match (self.cells, self.hashes) {
            (Some(cells), hashes) => {
                let best = plain::best_hashes(cells as f64, keys).round().clamp(1.0, f64::from(HASHES_MAX)) as u32;
                return Ok((cells, hashes.unwrap_or(best)));
            }
            (None, Some(hashes)) => plain::size_with(keys, self.rate, hashes)?,
            (None, None) => plain::size(keys, self.rate)?,
        };
        Ok((size.cells, size.hashes))
    }
}
