//! The cells of a stable filter ([`Kind::Stable`]).

use serde::{Deserialize, Serialize};

use super::FilterDefinition;
use super::kind_cells::{KindCells, Shape};
use super::rates::Rates;
use crate::build_error::BuildError;
use crate::stable::StableShape;
use crate::{Kind, WindowRule};

/// Cells of a stable filter, which are small counters that fade.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StableCells {
    /// Number of cells and positions, greatest value of a cell, and decrements per event.
    pub shape: StableShape,
    /// Seed of the random decrements.
    pub seed: u64,
}

impl KindCells for StableCells {
    fn kind(&self) -> Kind {
        Kind::Stable
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Flat { cells: self.shape.cells, hashes: self.shape.hashes }
    }

    fn cell_bits(&self, _: &WindowRule) -> u64 {
        u64::from(self.shape.cell_bits())
    }

    fn check(&self, _: WindowRule) -> Result<(), BuildError> {
        self.shape.check()?;
        Ok(())
    }

    fn rates(&self, _: &FilterDefinition, _events: f64) -> Rates {
        Rates::steady(self.shape.stable_rate())
    }

    fn kept_rate(&self, _rate: f64) -> Option<f64> {
        Some(self.shape.stable_rate())
    }

    fn misses_nothing(&self) -> bool {
        false
    }

    fn detail(&self) -> Option<String> {
        Some(format!("Max {}, P {:.3}", self.shape.max, self.shape.decrements))
    }
}
