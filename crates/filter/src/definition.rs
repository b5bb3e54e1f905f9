//! A filter's definition: everything that two filters must share to give the same answers, and what was asked for where
//! that cannot be read off it ([`Asked`]).
//!
//! Promises: a definition that exists can be built, and says all that a saved filter depends on; whether two filters give
//! the same answers does not depend on what was asked for. Must not know: how a wish becomes a definition (see
//! [`crate::spec`]), where slices live.

mod bloom;
mod check;
mod counting;
mod cuckoo;
mod decaying;
mod generations;
mod kind_cells;
mod rates;
mod stable;
mod timing;

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use crate::growth::Growth;
use crate::{Unit, Window, WindowRule};
pub use bloom::BloomCells;
pub use counting::{JumpingCells, SlidingCells};
pub use cuckoo::CuckooCells;
pub use decaying::DecayingCells;
pub use generations::GenerationCells;
pub use kind_cells::{KindCells, Shape};
pub use rates::Rates;
pub use stable::StableCells;
pub use timing::TimingCells;

/// The kind of a slice's cells, and their sizes. All that differs between kinds is asked through [`KindCells`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CellDefinition {
    /// [`Kind::Bloom`].
    Bloom(BloomCells),
    /// [`Kind::Timing`].
    Timing(TimingCells),
    /// [`Kind::Generations`].
    Generations(GenerationCells),
    /// [`Kind::Cuckoo`].
    Cuckoo(CuckooCells),
    /// [`Kind::Counting`] with a jumping window.
    JumpingCounting(JumpingCells),
    /// [`Kind::Counting`] sliding by count.
    SlidingCounting(SlidingCells),
    /// [`Kind::Stable`].
    Stable(StableCells),
    /// [`Kind::Decaying`]: units are epochs.
    Decaying(DecayingCells),
}

/// Methods of every kind are called on the definition itself.
impl Deref for CellDefinition {
    type Target = dyn KindCells;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Bloom(cells) => cells,
            Self::Timing(cells) => cells,
            Self::Generations(cells) => cells,
            Self::Cuckoo(cells) => cells,
            Self::JumpingCounting(cells) => cells,
            Self::SlidingCounting(cells) => cells,
            Self::Stable(cells) => cells,
            Self::Decaying(cells) => cells,
        }
    }
}

impl DerefMut for CellDefinition {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Bloom(cells) => cells,
            Self::Timing(cells) => cells,
            Self::Generations(cells) => cells,
            Self::Cuckoo(cells) => cells,
            Self::JumpingCounting(cells) => cells,
            Self::SlidingCounting(cells) => cells,
            Self::Stable(cells) => cells,
            Self::Decaying(cells) => cells,
        }
    }
}

/// What a filter was asked for of which the rule of its window, in whole ticks or jumps, does not say all: a filter that
/// follows this one is asked for the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Ticks that fingerprints are to cut the window into, now or once the filter is of that kind again; none where these
    /// follow from the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<u32>,
    /// How late an event may come, in milliseconds, where that was rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_ms: Option<u64>,
    /// How far clocks may differ, in milliseconds, where that was rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_skew_ms: Option<u64>,
}

impl Asked {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Cells of kinds that are padded are rounded up to this number.
pub(crate) const LINE_CELLS: u64 = 512;

/// As many whole bytes as `bits` take; `u64::MAX` where that is more.
pub(crate) fn bytes_of(bits: u128) -> u64 {
    u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
}

/// One filter slice with its window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterDefinition {
    /// The window as it was asked for.
    pub window: Window,
    /// The unit in which its time is counted.
    pub unit: Unit,
    /// The window in units.
    pub rule: WindowRule,
    /// How far ahead an event takes the clock by its own word, in milliseconds; a time further ahead must be borne out.
    pub future_max_ms: u64,
    /// The cells that are stored.
    pub cells: CellDefinition,
    /// The rate of false positives it is sized for.
    pub rate: f64,
    /// Events of a window that it is sized for; none where no capacity was given.
    pub capacity_events: Option<u64>,
}

impl FilterDefinition {
    /// The window for which an event counts among those that fill the cells: entries of kind cuckoo take their places until
    /// the latest event that may still come is judged.
    ///
    /// ```
    /// use firstseen_filter::{FilterSpec, Kind};
    /// let counted = |kind| {
    ///     let (capacity_events, lateness_ms) = (Some(1000), Some(600_000));
    ///     let spec = FilterSpec { capacity_events, lateness_ms, ..FilterSpec::new(kind, "1h".parse().unwrap()) };
    ///     let definition = spec.resolve().unwrap();
    ///     definition.counted_rule().span_units - definition.rule.span_units
    /// };
    /// assert_eq!((counted(Kind::Timing), counted(Kind::Cuckoo) > 0), (0, true));
    /// ```
    pub fn counted_rule(&self) -> WindowRule {
        self.cells.counted_rule(self.rule)
    }

    /// Whether filters of both give the same answers, and one can be continued as the other: they may have been asked for
    /// by different flags ([`Asked`]).
    ///
    /// ```
    /// use firstseen_filter::{FilterSpec, Kind};
    /// let asked = |ticks, capacity| {
    ///     let spec = FilterSpec::new(Kind::Cuckoo, "24h".parse().unwrap());
    ///     FilterSpec { ticks, capacity_events: Some(capacity), ..spec }.resolve().unwrap()
    /// };
    /// let by_default = asked(None, 1000);
    /// assert!(by_default != asked(Some(19), 1000) && by_default.answers_like(&asked(Some(19), 1000)));
    /// assert!(!by_default.answers_like(&asked(Some(18), 1000)));
    /// assert!(!by_default.answers_like(&asked(None, 100_000)));
    /// ```
    pub fn answers_like(&self, other: &Self) -> bool {
        self.without_asked() == other.without_asked()
    }

    fn without_asked(&self) -> Self {
        let mut definition = self.clone();
        if let Some(asked) = definition.cells.asked_mut() {
            *asked = Asked::default();
        }
        definition
    }

    /// The rates of false positives over first tests if one window brings `events` and all of them are recorded.
    ///
    /// ```
    /// use firstseen_filter::{FilterSpec, Kind};
    /// let spec = FilterSpec {
    ///     capacity_events: Some(1_000_000),
    ///     ..FilterSpec::new(Kind::Bloom, "unbounded".parse().unwrap())
    /// };
    /// let rates = spec.resolve().unwrap().rates(1_000_000.0);
    /// assert!(rates.mean < rates.worst && rates.worst <= 0.01);
    /// ```
    pub fn rates(&self, events: f64) -> Rates {
        self.cells.rates(self, events)
    }

    /// Bytes of a slice's cells with all that belongs to them; of the first generation, where it grows.
    ///
    /// ```
    /// use firstseen_filter::{FilterSlice, FilterSpec, Kind};
    /// let spec = FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap()) };
    /// let definition = spec.resolve().unwrap();
    /// assert_eq!(definition.bytes(), FilterSlice::build(&definition).unwrap().bytes());
    /// ```
    pub fn bytes(&self) -> u64 {
        bytes_of(self.cells.bits(&self.rule, 1))
    }

    /// Bytes that a slice may ever take: every generation that it may have at once, cells rounded up to whole lines.
    pub fn bytes_max(&self) -> u64 {
        let generations = self.cells.growth().map_or(1, |growth| growth.generations_max.max(1));
        bytes_of(self.cells.bits(&self.rule, LINE_CELLS)).saturating_mul(u64::from(generations))
    }

    /// Whether all generations of cells have one shape, so that an event has the same positions in all of them: only
    /// then can a slice be asked by positions.
    ///
    /// ```
    /// use firstseen_filter::{FilterSpec, Kind};
    /// let grows = FilterSpec::new(Kind::Timing, "1h".parse().unwrap());
    /// assert!(!grows.resolve().unwrap().one_shape());
    /// let sized = FilterSpec { capacity_events: Some(1000), ..grows };
    /// assert!(sized.resolve().unwrap().one_shape());
    /// ```
    pub fn one_shape(&self) -> bool {
        self.cells.growth().is_none_or(Growth::keeps_shape)
    }
}
