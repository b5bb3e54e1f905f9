//! The specification of a decaying filter, which estimates frequencies, and its resolution to a definition.
//!
//! If no filter can fulfil a specification, the error names the problem and says what to change.
//!
//! This module does not depend on command-line flags or files.

use super::{SpecError, load_of_one};
use crate::decaying::{CounterStorage, DecayRule, DecayingShape};
use crate::definition::{CellDefinition, DecayingCells, FilterDefinition};
use crate::kind::Kind;
use crate::rates::plain;
use crate::{GeometryError, HASHES_MAX, Unit, Window, WindowRule};

/// Window rule of decaying filters. No occurrence of a key ever expires. Its weight only decreases.
const RULE: WindowRule = WindowRule { span_units: u64::MAX, lateness_units: 0 };

/// Specification of a filter that estimates decayed frequencies. Create it with [`FrequencySpec::new`], and change the
/// fields whose default values do not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct FrequencySpec {
    /// Time between two decays: a duration, or a number of events.
    pub epoch: Window,
    /// Rule by which counters decay.
    pub rule: DecayRule,
    /// Number of keys that are counted at once.
    pub capacity_keys: u64,
    /// Highest acceptable probability that a key that was never seen has an estimate above zero.
    pub rate: f64,
    /// Number of cells (m), given instead of the number that follows from the capacity and the rate.
    pub cells: Option<u64>,
    /// Number of positions per key (k), given instead of the best number.
    pub hashes: Option<u32>,
    /// Whether to use plain counters of 16 bits instead of small counters with extensions.
    pub basic: bool,
    /// Maximum distance by which a single unconfirmed event can advance the filter's clock, in milliseconds.
    pub future_max_ms: u64,
}

impl FrequencySpec {
    /// Creates the specification of a filter for a million keys. After each `epoch`, the frequency of every key is
    /// multiplied by `lambda`. All other fields have their default values.
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

    /// Returns the specification of one of `slices` equal slices of this filter, which holds its share of the keys. As
    /// in [`crate::FilterSpec::share`], a slice has additional room, because its share varies at random.
    #[must_use]
    pub fn share(&self, slices: u32) -> Self {
        let slices = u64::from(slices.max(1));
        Self {
            capacity_keys: load_of_one(self.capacity_keys, slices),
            cells: self.cells.map(|cells| cells.div_ceil(slices)),
            ..self.clone()
        }
    }

    /// Returns the definition of a filter that fulfils this specification.
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
    /// Returns [`SpecError`], which says which fields do not fit together and what to change.
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
            // Cheng et al., section 4, use half as many extensions as cells.
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

    /// Returns the number of cells and the number of positions per key. They are chosen so that a key that was never
    /// seen rarely gets an estimate above zero. This happens only if all cells of the key are in use because of other
    /// keys. A Bloom filter gives a false positive under the same condition, so its formula is used here (Cheng et al.,
    /// section 4.1).
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
