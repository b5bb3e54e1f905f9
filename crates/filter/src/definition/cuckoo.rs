//! The cells of a cuckoo filter ([`Kind::Cuckoo`]).

use serde::{Deserialize, Serialize};

use super::check::{grows, refused};
use super::kind_cells::{KindCells, Shape};
use super::rates::{Rates, live_share, rate};
use super::{Asked, FilterDefinition};
use crate::build_error::BuildError;
use crate::cuckoo::{Buckets64, Buckets128};
use crate::growth::{Growth, Limit};
use crate::rates::cuckoo;
use crate::{BucketShape, Geometry, Kind, Layout, Refresh, WindowRule};

/// Cells of a cuckoo filter, which are fingerprints in buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CuckooCells {
    /// Geometry with buckets of fingerprints.
    pub geometry: Geometry,
    /// Occurrence of an event that starts its window.
    pub refresh: Refresh,
    /// Limits at which the filter grows or rejects new events.
    pub growth: Growth,
    /// Parts of the user's request that the ticks of the window do not show.
    #[serde(default, skip_serializing_if = "Asked::is_default")]
    pub asked: Asked,
}

impl KindCells for CuckooCells {
    fn kind(&self) -> Kind {
        Kind::Cuckoo
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Generations { geometry: &self.geometry, growth: Some(&self.growth) }
    }

    fn bits(&self, _: &WindowRule, _line_cells: u64) -> u128 {
        u128::from(self.geometry.bytes()) * 8
    }

    fn check(&self, rule: WindowRule) -> Result<(), BuildError> {
        let print_bits = self.geometry.cell_bits();
        let fits = match self.geometry.layout() {
            Layout::Buckets { time_bits: 64 } => Buckets64::new(rule, Refresh::Fixed, print_bits).is_some(),
            Layout::Buckets { .. } => Buckets128::new(rule, Refresh::Fixed, print_bits).is_some(),
            _ => return Err(refused("layout", "no buckets", "kind cuckoo needs buckets")),
        };
        if !fits {
            return Err(BuildError::Window);
        }
        let Growth { limit, ratio, capacity_events, jumps, .. } = self.growth;
        if limit != Limit::Cardinality || ratio != 1.0 || jumps.is_some() {
            return Err(refused("growth", ratio, "kind cuckoo grows by generations of one size, by cardinality"));
        }
        if capacity_events > self.geometry.cells() {
            return Err(refused("capacity_events", capacity_events, "choose at most the number of cells"));
        }
        grows(Some(&self.growth))
    }

    fn rates(&self, definition: &FilterDefinition, events: f64) -> Rates {
        let live_events = events * live_share(Some(&self.growth), definition.capacity_events);
        let Layout::Buckets { time_bits } = self.geometry.layout() else {
            return Rates::steady(rate(&self.geometry, live_events));
        };
        let fill = (live_events / self.geometry.cells() as f64).min(1.0);
        Rates::steady(cuckoo::rate(BucketShape::new(self.geometry.cell_bits(), time_bits), fill))
    }

    fn slides(&self) -> bool {
        true
    }

    /// Entries keep their places until the latest late event has been judged.
    fn counted_rule(&self, rule: WindowRule) -> WindowRule {
        WindowRule { span_units: rule.span_units + rule.lateness_units, lateness_units: 0 }
    }

    fn growth_mut(&mut self) -> Option<&mut Growth> {
        Some(&mut self.growth)
    }

    fn refresh(&self) -> Refresh {
        self.refresh
    }

    fn asked(&self) -> Asked {
        self.asked
    }

    fn asked_mut(&mut self) -> Option<&mut Asked> {
        Some(&mut self.asked)
    }
}
