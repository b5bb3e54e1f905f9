//! The cells of a filter with generation bits ([`Kind::Generations`]).

use serde::{Deserialize, Serialize};

use super::check::{cell_bits, grows, refused};
use super::kind_cells::{KindCells, Shape};
use super::rates::{Rates, block_rates};
use super::{Asked, FilterDefinition};
use crate::build_error::BuildError;
use crate::generations::{Generations8, Generations16};
use crate::growth::Growth;
use crate::rates::generations::{JumpingLoad, steady_blocked, steady_classic};
use crate::{Geometry, Kind, Layout, WindowRule};

/// Cells of a filter with generation bits. Each cell is a word with one bit per generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenerationCells {
    /// Geometry with words of 8 or 16 bits.
    pub geometry: Geometry,
    /// Limit at which the filter rejects new events. Filters of this kind never grow.
    pub growth: Option<Growth>,
    /// Parts of the user's request that the jumps of the window do not show.
    #[serde(default, skip_serializing_if = "Asked::is_default")]
    pub asked: Asked,
}

impl KindCells for GenerationCells {
    fn kind(&self) -> Kind {
        Kind::Generations
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Generations { geometry: &self.geometry, growth: self.growth.as_ref() }
    }

    fn check(&self, rule: WindowRule) -> Result<(), BuildError> {
        cell_bits(&self.geometry, &[8, 16])?;
        let fits = match self.geometry.cell_bits() {
            8 => Generations8::new(rule).is_some(),
            _ => Generations16::new(rule).is_some(),
        };
        if !fits {
            return Err(BuildError::Window);
        }
        match &self.growth {
            Some(growth) if growth.generations_max != 1 => {
                Err(refused("generations_max", growth.generations_max, "kind generations never grows; choose 1"))
            }
            growth => grows(growth.as_ref()),
        }
    }

    fn rates(&self, definition: &FilterDefinition, events: f64) -> Rates {
        let jumps = definition.rule.span_units - 1;
        let load = JumpingLoad { events, jumps: jumps as u32 };
        let cells = self.geometry.cells() as f64;
        let steady = match self.geometry.layout() {
            Layout::Blocked { .. } => steady_blocked(&mut block_rates(&self.geometry), cells, load),
            _ => steady_classic(cells, self.geometry.hashes(), load),
        };
        Rates { worst: steady.worst, mean: steady.mean }
    }

    fn generations_of_cell(&self, rule: &WindowRule) -> u64 {
        rule.span_units
    }

    fn growth_mut(&mut self) -> Option<&mut Growth> {
        self.growth.as_mut()
    }

    fn divided_geometry_mut(&mut self) -> Option<&mut Geometry> {
        Some(&mut self.geometry)
    }

    fn asked(&self) -> Asked {
        self.asked
    }

    fn asked_mut(&mut self) -> Option<&mut Asked> {
        Some(&mut self.asked)
    }
}
