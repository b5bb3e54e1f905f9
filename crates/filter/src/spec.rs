//! Resolves what a user asks for ([`FilterSpec`]) to a [`FilterDefinition`] with sizes, units and growth.
//!
//! If no filter can fulfil a specification, the error names the problem and says what to change.
//!
//! This module does not depend on command-line flags or files.

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
    /// Measure that tells when a generation is full.
    pub limit: Limit,
    /// Maximum number of generations at the same time, from 1 to 16.
    pub generations_max: u32,
    /// Size of a generation relative to the generation before it.
    pub ratio: f64,
}

/// Specification of a filter as a user asks for it. Start from [`FilterSpec::new`] and change the fields whose values
/// are known.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterSpec {
    /// Kind of the filter.
    pub kind: Kind,
    /// Window: how long the filter remembers an event.
    pub window: Window,
    /// Highest acceptable false-positive rate, above 0 and below 1.
    pub rate: f64,
    /// Number of events that one window brings. If it is unknown (`None`), the filter starts small and grows.
    pub capacity_events: Option<u64>,
    /// Bytes of cells, given instead of a capacity.
    pub memory_bytes: Option<u64>,
    /// Number of cells (m), given instead of a capacity. Such a filter never rejects an event. Its false-positive rate
    /// rises instead.
    pub cells: Option<u64>,
    /// Number of positions per event (k), given instead of the best number.
    pub hashes: Option<u32>,
    /// Layout, which says where the positions of an event may lie. By default blocked, if the kind supports blocks.
    pub layout: Option<Layout>,
    /// Bits per cell: 8 or 16 for timers and generations.
    pub cell_bits: Option<u32>,
    /// Number of jumps of a jumping window (Q).
    pub jumps: Option<u32>,
    /// Number of ticks into which a cuckoo filter divides its window. By default as many as its buckets can hold.
    pub ticks: Option<u32>,
    /// Which occurrence of an event starts its sliding window: the first or the latest.
    pub refresh: Refresh,
    /// How late an event may arrive and still be judged exactly, in milliseconds.
    pub lateness_ms: Option<u64>,
    /// Maximum difference between the clocks that give events their times, in milliseconds. If one client's clock is
    /// behind, the events of this client seem older than they are, and a client whose clock is ahead would find them
    /// expired too early. Sliding and jumping windows therefore keep every event longer by this difference.
    pub clock_skew_ms: u64,
    /// Maximum distance by which a single event can advance the filter's clock without confirmation, in milliseconds.
    /// If the time of an event is further ahead, the clock advances only if the times of other events or the time of
    /// day agree with it.
    pub future_max_ms: u64,
    /// Threshold k' of the equal-timers heuristic. 0 turns the heuristic off.
    pub equal_timers: u32,
    /// Growth beyond the capacity. By default a filter grows only if its capacity is unknown.
    pub growth: Option<GrowthSpec>,
    /// Value to which a stable filter sets its cells (`Max`).
    pub stable_max: Option<u8>,
    /// Number of cells that a stable filter decrements per event (P), given instead of the number that follows from the
    /// rate.
    pub stable_decrements: Option<f64>,
    /// Seed of the random choices of a stable filter.
    pub seed: u64,
}

/// Number of bytes in which filters of most kinds can hold a few events.
const MEMORY_MIN_BYTES: u64 = 4096;

/// Number of events for which a filter of unknown capacity is sized at first.
pub const FIRST_CAPACITY_EVENTS: u64 = 1 << 20;

impl FilterSpec {
    /// Creates the specification of a filter of `kind` over `window`. The rate is 1 %, and all other fields have their
    /// defaults.
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

    /// Returns the specification of one of `slices` equal slices of this filter, with its share of the events and of
    /// the memory.
    ///
    /// A slice needs room for more than its exact share of the capacity, because events fall into slices at random.
    /// This method adds five standard deviations of the number of events. A slice then exceeds its capacity in only one
    /// of three million windows (3e-7).
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

    /// Returns the definition of a filter that fulfils this specification.
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
    /// Returns [`SpecError`], which says which fields do not fit together and what to change.
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

    /// Returns the parts of this specification that cannot be derived from the rule of `definition`.
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

    /// Resolves the specification with a window that is longer by the maximum clock skew, and with a capacity that is
    /// larger in proportion.
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

/// Returns the error for an `option` that the kind does not support.
fn no<T>(spec: &FilterSpec, option: &'static str, instead: &'static str) -> Result<T, SpecError> {
    Err(SpecError::Option { kind: spec.kind, option, instead })
}

/// Returns a number of events that a single slice hardly ever exceeds, if `whole` events fall into `slices` slices at
/// random. The number is five standard deviations above the mean.
fn load_of_one(whole: u64, slices: u64) -> u64 {
    let mean = whole as f64 / slices as f64;
    let deviation = (mean * (1.0 - 1.0 / slices as f64)).sqrt();
    ((mean + 5.0 * deviation).ceil() as u64).min(whole)
}

/// Reason why a filter cannot be built as specified.
#[derive(Debug, Error)]
pub enum SpecError {
    /// The rate is not between 0 and 1.
    #[error("a false-positive rate of {}: choose one above 0 and below 1, such as 0.01", number(.0))]
    Rate(f64),
    /// The capacity is 0.
    #[error("a capacity of 0 events: choose at least 1, or leave it out")]
    Capacity,
    /// More than one of capacity, memory and cells is given.
    #[error("capacity, memory and cells each set the size: give one of them")]
    Sizes,
    /// The window is empty.
    #[error("window `{0}` is empty: it must cover at least 1 ms or 1 event")]
    WindowEmpty(Window),
    /// The kind does not support the window.
    #[error("kind {kind} has no window `{window}`: {instead}")]
    Window {
        /// Kind of the specification.
        kind: Kind,
        /// Window of the specification.
        window: Window,
        /// Window to specify instead.
        instead: &'static str,
    },
    /// The kind does not support an option.
    #[error("kind {kind} has no {option}: {instead}")]
    Option {
        /// Kind of the specification.
        kind: Kind,
        /// Option that the kind does not support.
        option: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// The kind cannot start small and grow, so it needs a size.
    #[error("kind {0} does not start small: say how many events a window brings (capacity), or how much memory to use")]
    CapacityNeeded(Kind),
    /// The window together with its lateness does not fit into the cells.
    #[error("window {window} with {what}: {instead}")]
    Reach {
        /// Window of the specification.
        window: Window,
        /// Part of the specification that does not fit.
        what: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// The threshold k' of the equal-timers heuristic is above k.
    #[error("{equal_timers} equal timers of {hashes} positions: k' must be at most k")]
    EqualTimers {
        /// k' of the specification.
        equal_timers: u32,
        /// k of the geometry.
        hashes: u32,
    },
    /// The limits of growth are out of range.
    #[error(
        "growth to {generations_max} generations by {}: choose 1 to 16 generations and a ratio from 1 to 16",
        number(.ratio)
    )]
    Growth {
        /// Maximum number of generations in the specification.
        generations_max: u32,
        /// Ratio in the specification.
        ratio: f64,
    },
    /// The memory is too small for even a few events.
    #[error("{bytes} bytes are too little memory for this filter: give at least {least}")]
    Memory {
        /// Bytes in the specification.
        bytes: u64,
        /// Smallest number of bytes that is worth trying.
        least: u64,
    },
    /// The blocks of the layout are too small for the rate.
    #[error(
        "at a rate of {rate} this layout takes {bytes:.1} bytes per event, and the classic layout {classic_bytes:.1}: choose \
         the classic layout, larger blocks, or a higher rate"
    )]
    Layout {
        /// Target rate of one generation of cells.
        rate: f64,
        /// Bytes per event in the specified layout.
        bytes: f64,
        /// Bytes per event in the classic layout.
        classic_bytes: f64,
    },
    /// No geometry achieves the rate.
    #[error(transparent)]
    Sizing(#[from] SizingError),
    /// The geometry is invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The shape of a stable filter is invalid.
    #[error(transparent)]
    Stable(#[from] StableError),
    /// The shape of a decaying filter is invalid.
    #[error(transparent)]
    Decaying(#[from] DecayingError),
}
