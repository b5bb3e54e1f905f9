//! The cells of a decaying filter ([`Kind::Decaying`]).

use serde::{Deserialize, Serialize};

use super::FilterDefinition;
use super::kind_cells::{KindCells, Shape, cell_bits_of};
use super::rates::Rates;
use crate::build_error::BuildError;
use crate::decaying::{CounterStorage, DecayingShape};
use crate::rates::plain;
use crate::{Kind, WindowRule};

/// Size of the record of recent events: at most this number of bits per cell, for the cells of the filter and
/// `RECORD_CELLS` further cells.
const RECORD_BITS: u64 = 2;
const RECORD_CELLS: u64 = 512;
/// Bits of an extension counter, including its place in a list.
const EXTENSION_BITS: u64 = 48;

/// Cells of a decaying filter, which are counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecayingCells {
    /// Number of cells and positions, decay rule and storage.
    pub shape: DecayingShape,
}

impl KindCells for DecayingCells {
    fn kind(&self) -> Kind {
        Kind::Decaying
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Flat { cells: self.shape.cells, hashes: self.shape.hashes }
    }

    fn cell_bits(&self, _: &WindowRule) -> u64 {
        self.shape.cell_bits()
    }

    /// Returns the bits of the counters with the maximum number of extensions, and of the record of recent events.
    fn bits(&self, rule: &WindowRule, line_cells: u64) -> u128 {
        let extensions = match self.shape.storage {
            CounterStorage::Basic => 0,
            CounterStorage::Extended { extensions } => extensions,
        };
        cell_bits_of(self.shape.cells, line_cells, self.cell_bits(rule) + RECORD_BITS)
            + u128::from(RECORD_BITS * RECORD_CELLS)
            + u128::from(extensions) * u128::from(EXTENSION_BITS)
    }

    fn check(&self, _: WindowRule) -> Result<(), BuildError> {
        self.shape.check()?;
        Ok(())
    }

    fn rates(&self, _: &FilterDefinition, events: f64) -> Rates {
        Rates::steady(plain::rate(self.shape.cells as f64, self.shape.hashes, events))
    }

    fn misses_nothing(&self) -> bool {
        false
    }

    fn detail(&self) -> Option<String> {
        Some(format!("lambda {}", self.shape.rule.lambda()))
    }
}
