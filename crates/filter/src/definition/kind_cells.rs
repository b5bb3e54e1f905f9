//! The properties of a definition's cells, whatever their kind. Each kind implements the trait [`KindCells`] in a file
//! next to this one.
//!
//! Other crates call the methods of the trait instead of matching on kinds. An exception is `firstseen estimate`, which
//! reads the sizes of kind `decaying` directly.
//!
//! This module does not depend on the list of kinds.

use super::rates::Rates;
use super::{Asked, FilterDefinition};
use crate::build_error::BuildError;
use crate::growth::Growth;
use crate::{Geometry, Kind, Refresh, WindowRule};

/// Arrangement of the cells of a kind.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// Cells in generations.
    Generations {
        /// Geometry of the first generation.
        geometry: &'a Geometry,
        /// Limits at which the filter grows or rejects new events. Without them the filter fills up, and its
        /// false-positive rate rises.
        growth: Option<&'a Growth>,
    },
    /// A single set of cells. The positions of an event can lie anywhere.
    Flat {
        /// Number of cells (m).
        cells: u64,
        /// Number of positions per event (k).
        hashes: u32,
    },
}

/// Cells of one kind, together with their sizes.
pub trait KindCells {
    /// Returns the kind.
    fn kind(&self) -> Kind;

    /// Returns the arrangement of the cells.
    fn shape(&self) -> Shape<'_>;

    /// Returns the bits of one cell under `rule`. By default these are the cell bits of the geometry, or 1 if there is
    /// none.
    fn cell_bits(&self, _rule: &WindowRule) -> u64 {
        self.geometry().map_or(1, |geometry| u64::from(geometry.cell_bits()))
    }

    /// Returns the size of one generation in bits, including everything that belongs to it. The number of cells is
    /// rounded up to a multiple of `line_cells`.
    fn bits(&self, rule: &WindowRule, line_cells: u64) -> u128 {
        cell_bits_of(self.cells(), line_cells, self.cell_bits(rule))
    }

    /// Checks whether a slice with these cells can be built under `rule` on a system with enough memory.
    ///
    /// # Errors
    /// Returns [`BuildError`], which names the invalid field or says which fields do not fit together.
    fn check(&self, rule: WindowRule) -> Result<(), BuildError>;

    /// Returns the expected false-positive rates of the cells if every window brings `events` events and the filter
    /// records all of them. [`FilterDefinition::rates`] describes the rates.
    fn rates(&self, definition: &FilterDefinition, events: f64) -> Rates;

    /// Returns the false-positive rate that the filter does not exceed under any load, if it is sized for `rate`.
    /// Returns `None` if the rate of the filter rises with the load.
    fn kept_rate(&self, rate: f64) -> Option<f64> {
        self.refuses().then_some(rate)
    }

    /// Returns whether the filter rejects new events beyond its capacity.
    fn refuses(&self) -> bool {
        self.growth().is_some()
    }

    /// Returns whether a recorded event is always found within its window, so that the filter has no false negatives.
    fn misses_nothing(&self) -> bool {
        true
    }

    /// Returns whether the window of each event begins with the event itself. In other filters it begins with a jump or
    /// a landmark.
    fn slides(&self) -> bool {
        false
    }

    /// Returns the window during which an event counts towards the capacity.
    fn counted_rule(&self, rule: WindowRule) -> WindowRule {
        rule
    }

    /// Returns the number of units whose events are stored separately within one cell. Each of these units has a
    /// false-positive rate of its own.
    fn generations_of_cell(&self, _rule: &WindowRule) -> u64 {
        1
    }

    /// Returns the number of cells (m). For a filter that grows, this is the number of cells of the first generation.
    fn cells(&self) -> u64 {
        match self.shape() {
            Shape::Generations { geometry, .. } => geometry.cells(),
            Shape::Flat { cells, .. } => cells,
        }
    }

    /// Returns the number of positions per event (k).
    fn hashes(&self) -> u32 {
        match self.shape() {
            Shape::Generations { geometry, .. } => geometry.hashes(),
            Shape::Flat { hashes, .. } => hashes,
        }
    }

    /// Returns the geometry of the first generation, or `None` for kinds without generations of cells.
    fn geometry(&self) -> Option<&Geometry> {
        match self.shape() {
            Shape::Generations { geometry, .. } => Some(geometry),
            Shape::Flat { .. } => None,
        }
    }

    /// Returns the limits at which a filter opens another generation or rejects new events. Returns `None` if the
    /// filter has no limits, or if its kind has no generations of cells.
    fn growth(&self) -> Option<&Growth> {
        match self.shape() {
            Shape::Generations { growth, .. } => growth,
            Shape::Flat { .. } => None,
        }
    }

    /// Returns the limits of [`Self::growth`] as a mutable reference.
    fn growth_mut(&mut self) -> Option<&mut Growth> {
        None
    }

    /// Returns the geometry as a mutable reference, for kinds whose cells can be divided over slices.
    fn divided_geometry_mut(&mut self) -> Option<&mut Geometry> {
        None
    }

    /// Returns which occurrence of an event starts its window. For kinds without a choice this is the first occurrence.
    fn refresh(&self) -> Refresh {
        Refresh::Fixed
    }

    /// Returns the threshold k' of the equal-timers heuristic. 0 means that the heuristic is off.
    fn equal_timers(&self) -> u32 {
        0
    }

    /// Returns the recorded parts of the user's request. The value is empty for kinds that record none.
    fn asked(&self) -> Asked {
        Asked::default()
    }

    /// Returns the recorded parts of the user's request as a mutable reference, for kinds that record them.
    fn asked_mut(&mut self) -> Option<&mut Asked> {
        None
    }

    /// Returns further details that distinguish two filters of this kind, as text for people.
    fn detail(&self) -> Option<String> {
        None
    }
}

/// Returns the size of `cells` cells of `bits` bits each in bits. The number of cells is rounded up to a multiple of
/// `line_cells`.
pub(super) fn cell_bits_of(cells: u64, line_cells: u64, bits: u64) -> u128 {
    let lines = cells.div_ceil(line_cells);
    (u128::from(lines) * u128::from(line_cells)).saturating_mul(u128::from(bits))
}
