//! What a definition says of its cells, whatever their kind: one implementation for each kind, in the files next to this
//! one.
//!
//! Promises: other crates ask here and never match on kinds. Must not know: which kinds there are.

use super::rates::Rates;
use super::{Asked, FilterDefinition};
use crate::build_error::BuildError;
use crate::growth::Growth;
use crate::{Geometry, Kind, Refresh, WindowRule};

/// How the cells of a kind are arranged.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// In generations of cells.
    Generations {
        /// Shape of the first generation.
        geometry: &'a Geometry,
        /// How it grows, or where it refuses; for ever filling up without it.
        growth: Option<&'a Growth>,
    },
    /// Once, each anywhere.
    Flat {
        /// Cells (m).
        cells: u64,
        /// Positions of an event (k).
        hashes: u32,
    },
}

/// The cells of one kind, with their sizes.
pub trait KindCells {
    /// The kind.
    fn kind(&self) -> Kind;

    /// How the cells are arranged.
    fn shape(&self) -> Shape<'_>;

    /// Bits that one cell takes under `rule`: those of the geometry, where there is one.
    fn cell_bits(&self, _rule: &WindowRule) -> u64 {
        self.geometry().map_or(1, |geometry| u64::from(geometry.cell_bits()))
    }

    /// Bits of one generation with all that belongs to it, when its cells are rounded up to a multiple of
    /// `line_cells`.
    fn bits(&self, rule: &WindowRule, line_cells: u64) -> u128 {
        cell_bits_of(self.cells(), line_cells, self.cell_bits(rule))
    }

    /// Whether a slice with these cells can be built under `rule` wherever there is memory for it.
    ///
    /// # Errors
    /// [`BuildError`] names the field, or what does not fit together.
    fn check(&self, rule: WindowRule) -> Result<(), BuildError>;

    /// The rates of false positives if one window brings `events` and all of them are recorded ([`FilterDefinition::rates`]).
    fn rates(&self, definition: &FilterDefinition, events: f64) -> Rates;

    /// The rate of false positives that is kept whatever comes, if the filter is sized for `rate`.
    fn kept_rate(&self, rate: f64) -> Option<f64> {
        self.refuses().then_some(rate)
    }

    /// Whether the filter refuses new events beyond its capacity.
    fn refuses(&self) -> bool {
        self.growth().is_some()
    }

    /// Whether no recorded event is called first-seen within its window.
    fn misses_nothing(&self) -> bool {
        true
    }

    /// Whether the window of each event begins with the event itself, and not with a jump or a landmark.
    fn slides(&self) -> bool {
        false
    }

    /// The window for which an event counts among those that fill the cells.
    fn counted_rule(&self, rule: WindowRule) -> WindowRule {
        rule
    }

    /// Units of the window whose events are kept apart in one cell, each with a rate of its own.
    fn generations_of_cell(&self, _rule: &WindowRule) -> u64 {
        1
    }

    /// Cells (m); of the first generation, where the filter grows.
    fn cells(&self) -> u64 {
        match self.shape() {
            Shape::Generations { geometry, .. } => geometry.cells(),
            Shape::Flat { cells, .. } => cells,
        }
    }

    /// Positions of an event (k).
    fn hashes(&self) -> u32 {
        match self.shape() {
            Shape::Generations { geometry, .. } => geometry.hashes(),
            Shape::Flat { hashes, .. } => hashes,
        }
    }

    /// The shape of the first generation, of a kind that lives in generations of cells.
    fn geometry(&self) -> Option<&Geometry> {
        match self.shape() {
            Shape::Generations { geometry, .. } => Some(geometry),
            Shape::Flat { .. } => None,
        }
    }

    /// How a kind that lives in generations of cells grows, or where it refuses.
    fn growth(&self) -> Option<&Growth> {
        match self.shape() {
            Shape::Generations { growth, .. } => growth,
            Shape::Flat { .. } => None,
        }
    }

    /// The same as [`Self::growth`], to be changed.
    fn growth_mut(&mut self) -> Option<&mut Growth> {
        None
    }

    /// The shape, of a kind whose cells can be divided over slices.
    fn divided_geometry_mut(&mut self) -> Option<&mut Geometry> {
        None
    }

    /// From which sighting the window counts: from the delivered one, for every kind that has no choice.
    fn refresh(&self) -> Refresh {
        Refresh::Fixed
    }

    /// k' of the equal-timers heuristic; 0 is the plain filter.
    fn equal_timers(&self) -> u32 {
        0
    }

    /// What was asked for; nothing where the kind does not keep it.
    fn asked(&self) -> Asked {
        Asked::default()
    }

    /// The place of what was asked for, where the kind keeps it.
    fn asked_mut(&mut self) -> Option<&mut Asked> {
        None
    }

    /// What else tells two filters of the kind apart, for people.
    fn detail(&self) -> Option<String> {
        None
    }
}

/// Bits of `cells` cells of `bits` each, rounded up to a multiple of `line_cells`.
pub(super) fn cell_bits_of(cells: u64, line_cells: u64, bits: u64) -> u128 {
    let lines = cells.div_ceil(line_cells);
    (u128::from(lines) * u128::from(line_cells)).saturating_mul(u128::from(bits))
}
