//! From what a user asks for to a [`FilterDefinition`]: sizes, units, growth.
//!
//! Promises: a filter that cannot be built is refused by name, with what to do instead. Must not know: flags, files.

use thiserror::Error;

use crate::definition::{Asked, FilterDefinition};
use crate::growth::Limit;
use crate::kind::{Kind, Windows};
use crate::number::number;
use crate::rates::SizingError;
use crate::stable::StableError;
use crate::{DecayingError, GeometryError, Layout, Refresh, Unit, Window};
pub use frequency::FrequencySpec;

mod counting;
mod cuckoo;
mod frequency;
mod resolve;
mod size;
mod stable;
mod units;

/// How a filter may grow beyond its capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrowthSpec {
    /// The measure by which a generation is full.
    pub limit: Limit,
    /// Most generations at once, 1 to 16.
    pub generations_max: u32,
    /// Size of a generation relative to the one before.
    pub ratio: f64,
}

/// A filter as a user asks for it. Start from [`FilterSpec::new`] and change the fields that are known.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterSpec {
    /// The kind.
    pub kind: Kind,
    /// How long a sighting counts.
    pub window: Window,
    /// Highest acceptable rate of false positives, above 0 and below 1.
    pub rate: f64,
    /// Events that one window brings; unknown: the filter starts small and grows.
    pub capacity_events: Option<u64>,
    /// Bytes of cells to use instead of a capacity.
    pub memory_bytes: Option<u64>,
    /// Cells (m) instead of a capacity; the filter then never refuses, its rate rises.
    pub cells: Option<u64>,
    /// Positions an event (k) instead of the best.
    pub hashes: Option<u32>,
    /// Where positions may lie; by default blocked where the kind allows it.
    pub layout: Option<Layout>,
    /// Bits a cell: 8 or 16 for timers and generations.
    pub cell_bits: Option<u32>,
    /// Jumps of a jumping window (Q).
    pub jumps: Option<u32>,
    /// Ticks that the window of a filter of fingerprints is cut into; by default as many as fit its buckets.
    pub ticks: Option<u32>,
    /// From which sighting a sliding window counts.
    pub refresh: Refresh,
    /// How late an event may come and still be judged exactly, in milliseconds.
    pub lateness_ms: Option<u64>,
    /// How far the clocks of those that stamp events may differ, in milliseconds. An event that was recorded by a clock
    /// that is so much behind must not have expired by another: a sliding or jumping window keeps all events for so
    /// much longer.
    pub clock_skew_ms: u64,
    /// How far ahead an event takes the clock by its own word, in milliseconds; a time further ahead must be borne out.
    pub future_max_ms: u64,
    /// k' of the equal-timers heuristic; 0 is the plain filter.
    pub equal_timers: u32,
    /// Growth; by default only where the capacity is unknown.
    pub growth: Option<GrowthSpec>,
    /// `Max` of a stable filter.
    pub stable_max: Option<u8>,
    /// Cells decremented an event (P) in a stable filter, instead of the number that follows from the rate.
    pub stable_decrements: Option<f64>,
    /// Seed of the choices that a stable filter makes.
    pub seed: u64,
}

/// Bytes with which most kinds hold a few events.
const MEMORY_MIN_BYTES: u64 = 4096;

/// The events a filter of unknown capacity is first sized for.
pub const FIRST_CAPACITY_EVENTS: u64 = 1 << 20;

impl FilterSpec {
    /// A filter of `kind` over `window` with a rate of 1 %, everything else by default.
    pub fn new(kind: Kind, window: Window) -> Self {
        let future_max_ms = window.future_default_ms();
        Self {
            kind,
            window,
            rate: 0.01,
            capacity_events: None,
            memory_bytes: None,
            cells: None,
            hashes: None,
            layout: None,
            cell_bits: None,
            jumps: None,
            ticks: None,
            refresh: Refresh::Fixed,
            lateness_ms: None,
            clock_skew_ms: 0,
            future_max_ms,
            equal_timers: 0,
            growth: None,
            stable_max: None,
            stable_decrements: None,
            seed: 0,
        }
    }

    /// One of `slices` equal slices of this filter: its share of the events and of the memory. Events fall into slices at random, so a slice must hold more than its part of a given capacity:
    /// five standard deviations more, which none of a thousand slices exceeds in a thousand windows (3e-7 each).
    ///
    /// ```
    /// use firstseen_filter::{FilterSpec, Kind};
    /// let whole = FilterSpec {
    ///     capacity_events: Some(8_000_000),
    ///     ..FilterSpec::new(Kind::Bloom, "unbounded".parse().unwrap())
    /// };
    /// assert_eq!(whole.share(8).capacity_events, Some(1_004_678));
    /// assert_eq!(whole.share(1), whole);
    /// ```
    #[must_use]
    pub fn share(&self, slices: u32) -> Self {
        let slices = u64::from(slices.max(1));
        Self {
            capacity_events: self.capacity_events.map(|whole| load_of_one(whole, slices)),
            memory_bytes: self.memory_bytes.map(|whole| whole / slices),
            cells: self.cells.map(|whole| whole.div_ceil(slices)),
            ..self.clone()
        }
    }

    /// The definition that fulfils this.
    ///
    /// ```
    /// use firstseen_filter::{FilterSpec, Kind};
    /// let spec = FilterSpec {
    ///     capacity_events: Some(1_000_000),
    ///     ..FilterSpec::new(Kind::Timing, "24h".parse().unwrap())
    /// };
    /// let definition = spec.resolve().unwrap();
    /// assert_eq!(definition.capacity_events, Some(1_000_000));
    /// assert!(FilterSpec { rate: 1.0, ..spec.clone() }.resolve().is_err());
    /// assert!(FilterSpec { kind: Kind::Stable, ..spec }.resolve().unwrap_err().to_string().contains("window"));
    /// ```
    ///
    /// # Errors
    /// [`SpecError`]: what does not fit together, and what to change.
    pub fn resolve(&self) -> Result<FilterDefinition, SpecError> {
        let mut definition = match (self.kind.properties().windows, &self.window) {
            (Windows::Sliding | Windows::Jumping, Window::Duration(window_ms)) if self.clock_skew_ms > 0 => {
                self.resolve_kept_longer(*window_ms)
            }
            _ => self.resolve_as_asked(),
        }?;
        let asked = self.asked(&definition);
        if let Some(place) = definition.cells.asked_mut() {
            *place = asked;
        }
        Ok(definition)
    }

    /// What the rule of `definition` does not say of what is asked for here.
    fn asked(&self, definition: &FilterDefinition) -> Asked {
        let FilterDefinition { window, unit, rule, .. } = definition;
        let (Window::Duration(window_ms), Unit::Milliseconds(unit_ms)) = (window, unit) else {
            return Asked { ticks: self.ticks, ..Asked::default() };
        };
        let kept_ms = (rule.span_units - 1).saturating_mul(*unit_ms);
        let judged_ms = rule.lateness_units.saturating_mul(*unit_ms);
        let is_longer = kept_ms != window_ms.saturating_add(self.clock_skew_ms);
        Asked {
            ticks: self.ticks,
            lateness_ms: self.lateness_ms.filter(|lateness_ms| judged_ms != *lateness_ms),
            clock_skew_ms: Some(self.clock_skew_ms).filter(|skew_ms| *skew_ms > 0 && is_longer),
        }
    }

    fn resolve_as_asked(&self) -> Result<FilterDefinition, SpecError> {
        match self.kind {
            Kind::Bloom => resolve::resolve(self, resolve::bloom),
            Kind::Timing => resolve::resolve(self, resolve::timers),
            Kind::Generations => resolve::resolve(self, resolve::words),
            Kind::Cuckoo => cuckoo::resolve(self),
            Kind::Counting => resolve::resolve(self, counting::counters),
            Kind::Stable => resolve::resolve(self, stable::fading),
            Kind::Decaying => Err(units::refused(self, "it estimates frequencies; use `firstseen estimate`")),
        }
    }

    /// As a window that is longer by the skew of clocks, with as many more events.
    fn resolve_kept_longer(&self, window_ms: u64) -> Result<FilterDefinition, SpecError> {
        let kept_ms = window_ms.saturating_add(self.clock_skew_ms);
        let ratio = kept_ms as f64 / window_ms.max(1) as f64;
        let kept = Self {
            window: Window::Duration(if window_ms == 0 { 0 } else { kept_ms }),
            capacity_events: self.capacity_events.map(|events| (events as f64 * ratio).ceil() as u64),
            ..self.clone()
        };
        let definition = kept.resolve_as_asked()?;
        let capacity_events =
            definition.capacity_events.map(|events| self.capacity_events.unwrap_or((events as f64 / ratio) as u64));
        Ok(FilterDefinition { window: self.window.clone(), capacity_events, ..definition })
    }
}

/// The error of an `option` that the kind does not have.
fn no<T>(spec: &FilterSpec, option: &'static str, instead: &'static str) -> Result<T, SpecError> {
    Err(SpecError::Option { kind: spec.kind, option, instead })
}

/// Of `whole` events that fall into `slices` slices at random, a number that hardly any slice exceeds: five standard
/// deviations more than the mean.
fn load_of_one(whole: u64, slices: u64) -> u64 {
    let mean = whole as f64 / slices as f64;
    let deviation = (mean * (1.0 - 1.0 / slices as f64)).sqrt();
    ((mean + 5.0 * deviation).ceil() as u64).min(whole)
}

/// Why a filter cannot be built as asked.
#[derive(Debug, Error)]
pub enum SpecError {
    /// A rate that cannot be.
    #[error("a false-positive rate of {}: choose one above 0 and below 1, such as 0.01", number(.0))]
    Rate(f64),
    /// A capacity of nothing.
    #[error("a capacity of 0 events: choose at least 1, or leave it out")]
    Capacity,
    /// Two answers to one question.
    #[error("capacity, memory and cells each set the size: give one of them")]
    Sizes,
    /// A window of nothing.
    #[error("window `{0}` is empty: it must cover at least 1 ms or 1 event")]
    WindowEmpty(Window),
    /// The kind has no such window.
    #[error("kind {kind} has no window `{window}`: {instead}")]
    Window {
        /// The kind asked for.
        kind: Kind,
        /// The window asked for.
        window: Window,
        /// The window to ask for instead.
        instead: &'static str,
    },
    /// An option that the kind does not have.
    #[error("kind {kind} has no {option}: {instead}")]
    Option {
        /// The kind asked for.
        kind: Kind,
        /// The option asked for.
        option: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// A kind that cannot start small and grow.
    #[error("kind {0} does not start small: say how many events a window brings (capacity), or how much memory to use")]
    CapacityNeeded(Kind),
    /// The window and the lateness do not fit the cells.
    #[error("window {window} with {what}: {instead}")]
    Reach {
        /// The window asked for.
        window: Window,
        /// The part that does not fit.
        what: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// k' above k.
    #[error("{equal_timers} equal timers of {hashes} positions: k' must be at most k")]
    EqualTimers {
        /// k' asked for.
        equal_timers: u32,
        /// k of the geometry.
        hashes: u32,
    },
    /// Growth that cannot be.
    #[error(
        "growth to {generations_max} generations by {}: choose 1 to 16 generations and a ratio from 1 to 16",
        number(.ratio)
    )]
    Growth {
        /// Generations asked for.
        generations_max: u32,
        /// Ratio asked for.
        ratio: f64,
    },
    /// The memory is too small for even a few events.
    #[error("{bytes} bytes are too little memory for this filter: give at least {least}")]
    Memory {
        /// Bytes asked for.
        bytes: u64,
        /// The least that are worth trying.
        least: u64,
    },
    /// Blocks that are too small for the rate.
    #[error(
        "at a rate of {rate} this layout takes {bytes:.1} bytes an event, and classic {classic_bytes:.1}: ask for the classic \
         layout, larger blocks, or a higher rate"
    )]
    Layout {
        /// Target rate of one generation of cells.
        rate: f64,
        /// Bytes that an event takes in the layout asked for.
        bytes: f64,
        /// And in the classic one.
        classic_bytes: f64,
    },
    /// No geometry has the rate.
    #[error(transparent)]
    Sizing(#[from] SizingError),
    /// No such geometry.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// No such stable filter.
    #[error(transparent)]
    Stable(#[from] StableError),
    /// No such decaying filter.
    #[error(transparent)]
    Decaying(#[from] DecayingError),
}
