//! The definition of a filter: everything that two filters must have in common to give the same answers.
//!
//! - A valid definition can be built, and contains everything on which a saved filter depends.
//! - A definition also records parts of the user's request that cannot be derived from it ([`Asked`]). These parts
//!   never affect whether two filters give the same answers.
//!
//! This module does not depend on how a user's request becomes a definition (see [`crate::spec`]) or on where slices
//! live.

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

/// Kind of a slice's cells, together with their sizes. Everything that differs between kinds is available through
/// [`KindCells`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CellDefinition {
    /// Cells of [`Kind::Bloom`](crate::Kind::Bloom).
    Bloom(BloomCells),
    /// Cells of [`Kind::Timing`](crate::Kind::Timing).
    Timing(TimingCells),
    /// Cells of [`Kind::Generations`](crate::Kind::Generations).
    Generations(GenerationCells),
    /// Cells of [`Kind::Cuckoo`](crate::Kind::Cuckoo).
    Cuckoo(CuckooCells),
    /// Cells of [`Kind::Counting`](crate::Kind::Counting) with a jumping window.
    JumpingCounting(JumpingCells),
    /// Cells of [`Kind::Counting`](crate::Kind::Counting) with a window that slides by the number of events.
    SlidingCounting(SlidingCells),
    /// Cells of [`Kind::Stable`](crate::Kind::Stable).
    Stable(StableCells),
    /// Cells of [`Kind::Decaying`](crate::Kind::Decaying), whose units are epochs.
    Decaying(DecayingCells),
}

/// Lets callers call the methods of [`KindCells`] on the definition itself.
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

/// Values that the user requested and that the definition contains only in rounded form. For example, a requested
/// lateness is rounded up to whole ticks or jumps. The requested values are kept because this filter may be replaced by
/// a successor of the same name. The successor is created from the original request, so values are not rounded twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Number of ticks into which a cuckoo filter divides its window. `None` means that the number of ticks follows
    /// from the false-positive rate. If the user changes the kind of the filter, the number is kept, because a later
    /// change may make the filter a cuckoo filter again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<u32>,
    /// Requested lateness in milliseconds, if the definition has rounded it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness_ms: Option<u64>,
    /// Requested maximum clock skew in milliseconds, if the definition has rounded it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_skew_ms: Option<u64>,
}

impl Asked {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Number of cells in a line. Kinds with padding round their cells up to a multiple of this number.
pub(crate) const LINE_CELLS: u64 = 512;

/// Returns the number of whole bytes that `bits` bits take. The result saturates at `u64::MAX`.
pub(crate) fn bytes_of(bits: u128) -> u64 {
    u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
}

/// Definition of one filter slice with its window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterDefinition {
    /// Window as the user specified it.
    pub window: Window,
    /// Unit in which the time of the window is counted.
    pub unit: Unit,
    /// Window in units.
    pub rule: WindowRule,
    /// Maximum distance by which a single event can advance the filter's clock without confirmation, in milliseconds.
    /// If the time of an event is further ahead, the clock advances only if the times of other events or the time of
    /// day agree with it.
    pub future_max_ms: u64,
    /// Kind and sizes of the cells.
    pub cells: CellDefinition,
    /// False-positive rate for which the filter is sized.
    pub rate: f64,
    /// Number of events per window for which the filter is sized. `None` if the user gave no capacity.
    pub capacity_events: Option<u64>,
}

impl FilterDefinition {
    /// Returns the window during which an event counts towards the capacity. In most kinds this is the window of the
    /// filter. In a cuckoo filter it is longer by the lateness, because an entry keeps its place until no event can be
    /// compared with it. After the window of the entry has ended, a late event may still arrive whose own time lies
    /// within this window.
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

    /// Returns whether filters of both definitions give the same answers, so that one filter can take over the state of
    /// the other. The original requests of the users ([`Asked`]) may differ.
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

    /// Returns the expected false-positive rates of the filter if every window brings `events` events and the filter
    /// records all of them. The rates refer to first tests, which means that an event that was dropped by mistake does
    /// not count again when the same event is repeated.
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

    /// Returns the size of a slice in bytes, including everything that belongs to its cells, such as the queue of a
    /// counting filter. If the filter grows, the result is the size of the first generation only.
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

    /// Returns the maximum size of a slice in bytes: all generations that it may have at once, with their cells rounded
    /// up to whole lines.
    pub fn bytes_max(&self) -> u64 {
        let generations = self.cells.growth().map_or(1, |growth| growth.generations_max.max(1));
        bytes_of(self.cells.bits(&self.rule, LINE_CELLS)).saturating_mul(u64::from(generations))
    }

    /// Returns whether all generations of cells have the same geometry. Only in that case does an event have the same
    /// positions in all generations, which is required for queries by positions.
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
