//! A filter's definition: everything that two filters must share to give the same answers, and what was asked for where
//! that cannot be read off it ([`Asked`]).
//!
//! Promises: a definition that exists can be built, and says all that a saved filter depends on; whether two filters give
//! the same answers does not depend on what was asked for. Must not know: how a wish becomes a definition (see
//! [`crate::spec`]), where slices live.

mod check;

use serde::{Deserialize, Serialize};

use crate::decaying::DecayingShape;
use crate::growth::Growth;
use crate::stable::StableShape;
use crate::{Geometry, Kind, Refresh, Unit, Window, WindowRule};

/// The kind of a slice's cells, and their sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum CellDefinition {
    /// [`Kind::Bloom`].
    Bloom {
        /// Shape of the first generation.
        geometry: Geometry,
        /// How it grows, or where it refuses; for ever filling up without it.
        growth: Option<Growth>,
    },
    /// [`Kind::Timing`].
    Timing {
        /// Shape of the first generation; cells of 8 or 16 bits.
        geometry: Geometry,
        /// From which sighting the window counts.
        refresh: Refresh,
        /// k' of the equal-timers heuristic; 0 is the plain filter.
        equal_timers: u32,
        /// How it grows, or where it refuses.
        growth: Option<Growth>,
        /// What its ticks do not say.
        #[serde(default, skip_serializing_if = "Asked::is_default")]
        asked: Asked,
    },
    /// [`Kind::Generations`].
    Generations {
        /// Shape; words of 8 or 16 bits.
        geometry: Geometry,
        /// Where it refuses (it never grows).
        growth: Option<Growth>,
        /// What its jumps do not say.
        #[serde(default, skip_serializing_if = "Asked::is_default")]
        asked: Asked,
    },
    /// [`Kind::Cuckoo`].
    Cuckoo {
        /// Shape; buckets of fingerprints.
        geometry: Geometry,
        /// From which sighting the window counts.
        refresh: Refresh,
        /// How it grows, or where it refuses.
        growth: Growth,
        /// What its ticks do not say.
        #[serde(default, skip_serializing_if = "Asked::is_default")]
        asked: Asked,
    },
    /// [`Kind::Counting`] with a jumping window.
    JumpingCounting {
        /// Counters.
        cells: u64,
        /// Positions an event.
        hashes: u32,
        /// Events alive at once beyond which it refuses; none where only its size was given.
        events_max: Option<u64>,
    },
    /// [`Kind::Counting`] sliding by count.
    SlidingCounting {
        /// Counters.
        cells: u64,
        /// Positions an event.
        hashes: u32,
        /// Events that the window covers.
        window_events: u64,
    },
    /// [`Kind::Stable`].
    Stable {
        /// Cells, positions, the greatest value, decrements.
        shape: StableShape,
        /// Seed of the decrements.
        seed: u64,
    },
    /// [`Kind::Decaying`]: units are epochs.
    Decaying {
        /// Cells, positions, decay and storage.
        shape: DecayingShape,
    },
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

impl CellDefinition {
    /// The kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Bloom { .. } => Kind::Bloom,
            Self::Timing { .. } => Kind::Timing,
            Self::Generations { .. } => Kind::Generations,
            Self::Cuckoo { .. } => Kind::Cuckoo,
            Self::JumpingCounting { .. } | Self::SlidingCounting { .. } => Kind::Counting,
            Self::Stable { .. } => Kind::Stable,
            Self::Decaying { .. } => Kind::Decaying,
        }
    }

    /// The shape of the first generation, of a kind that lives in generations of cells.
    pub fn geometry(&self) -> Option<&Geometry> {
        match self {
            Self::Bloom { geometry, .. }
            | Self::Timing { geometry, .. }
            | Self::Generations { geometry, .. }
            | Self::Cuckoo { geometry, .. } => Some(geometry),
            Self::JumpingCounting { .. }
            | Self::SlidingCounting { .. }
            | Self::Stable { .. }
            | Self::Decaying { .. } => None,
        }
    }

    /// From which sighting the window counts: from the delivered one, for every kind that has no choice.
    pub fn refresh(&self) -> Refresh {
        match self {
            Self::Timing { refresh, .. } | Self::Cuckoo { refresh, .. } => *refresh,
            Self::Bloom { .. }
            | Self::Generations { .. }
            | Self::JumpingCounting { .. }
            | Self::SlidingCounting { .. }
            | Self::Stable { .. }
            | Self::Decaying { .. } => Refresh::Fixed,
        }
    }

    /// What was asked for; nothing where the kind does not keep it.
    pub fn asked(&self) -> Asked {
        match self {
            Self::Timing { asked, .. } | Self::Generations { asked, .. } | Self::Cuckoo { asked, .. } => *asked,
            _ => Asked::default(),
        }
    }

    /// The place of what was asked for, where the kind keeps it.
    pub fn asked_mut(&mut self) -> Option<&mut Asked> {
        match self {
            Self::Timing { asked, .. } | Self::Generations { asked, .. } | Self::Cuckoo { asked, .. } => Some(asked),
            _ => None,
        }
    }

    /// How a kind that lives in generations of cells grows, or where it refuses.
    pub fn growth(&self) -> Option<&Growth> {
        match self {
            Self::Bloom { growth, .. } | Self::Timing { growth, .. } | Self::Generations { growth, .. } => {
                growth.as_ref()
            }
            Self::Cuckoo { growth, .. } => Some(growth),
            Self::JumpingCounting { .. }
            | Self::SlidingCounting { .. }
            | Self::Stable { .. }
            | Self::Decaying { .. } => None,
        }
    }
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
        let WindowRule { span_units, lateness_units } = self.rule;
        match self.cells.kind() {
            Kind::Cuckoo => WindowRule { span_units: span_units + lateness_units, lateness_units: 0 },
            _ => self.rule,
        }
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
