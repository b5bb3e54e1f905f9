//! The cells of a Bloom filter ([`Kind::Bloom`]).

use serde::{Deserialize, Serialize};

use super::FilterDefinition;
use super::check::{cell_bits, grows};
use super::kind_cells::{KindCells, Shape};
use super::rates::{Rates, rate, stream_mean};
use crate::build_error::BuildError;
use crate::growth::Growth;
use crate::{Geometry, Kind, WindowRule};

/// Cells of a Bloom filter, which are single bits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BloomCells {
    /// Geometry of the first generation.
    pub geometry: Geometry,
    /// Limits at which the filter grows or rejects new events. Without them the filter fills up, and its false-positive
    /// rate rises.
    pub growth: Option<Growth>,
}

impl KindCells for BloomCells {
    fn kind(&self) -> Kind {
        Kind::Bloom
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Generations { geometry: &self.geometry, growth: self.growth.as_ref() }
    }

    fn check(&self, _: WindowRule) -> Result<(), BuildError> {
        cell_bits(&self.geometry, &[1])?;
        grows(self.growth.as_ref())
    }

    fn rates(&self, _: &FilterDefinition, events: f64) -> Rates {
        Rates { worst: rate(&self.geometry, events), mean: stream_mean(&self.geometry, events) }
    }

    fn growth_mut(&mut self) -> Option<&mut Growth> {
        self.growth.as_mut()
    }

    fn divided_geometry_mut(&mut self) -> Option<&mut Geometry> {
        Some(&mut self.geometry)
    }
}
