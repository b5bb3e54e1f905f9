//! The cells of a timing filter ([`Kind::Timing`]).

use serde::{Deserialize, Serialize};

use super::check::{cell_bits, grows, refused};
use super::kind_cells::{KindCells, Shape};
use super::rates::{Rates, live_share, rate};
use super::{Asked, FilterDefinition};
use crate::build_error::BuildError;
use crate::growth::Growth;
use crate::timing::{Timers8, Timers16};
use crate::{Geometry, Kind, Refresh, WindowRule};

/// Cells of a timing filter, which are timers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimingCells {
    /// Geometry of the first generation, with cells of 8 or 16 bits.
    pub geometry: Geometry,
    /// Occurrence of an event that starts its window.
    pub refresh: Refresh,
    /// Threshold k' of the equal-timers heuristic. 0 turns the heuristic off.
    pub equal_timers: u32,
    /// Limits at which the filter grows or rejects new events.
    pub growth: Option<Growth>,
    /// Parts of the user's request that the ticks of the window do not show.
    #[serde(default, skip_serializing_if = "Asked::is_default")]
    pub asked: Asked,
}

impl KindCells for TimingCells {
    fn kind(&self) -> Kind {
        Kind::Timing
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Generations { geometry: &self.geometry, growth: self.growth.as_ref() }
    }

    fn check(&self, rule: WindowRule) -> Result<(), BuildError> {
        cell_bits(&self.geometry, &[8, 16])?;
        if self.equal_timers > self.geometry.hashes() {
            return Err(refused("equal_timers", self.equal_timers, "choose at most the number of positions per event"));
        }
        let fits = match self.geometry.cell_bits() {
            8 => Timers8::new(rule, self.refresh, self.equal_timers).is_some(),
            _ => Timers16::new(rule, self.refresh, self.equal_timers).is_some(),
        };
        if !fits {
            return Err(BuildError::Window);
        }
        grows(self.growth.as_ref())
    }

    fn rates(&self, definition: &FilterDefinition, events: f64) -> Rates {
        let live_events = events * live_share(self.growth.as_ref(), definition.capacity_events);
        Rates::steady(rate(&self.geometry, live_events))
    }

    fn misses_nothing(&self) -> bool {
        self.equal_timers == 0
    }

    fn slides(&self) -> bool {
        true
    }

    fn growth_mut(&mut self) -> Option<&mut Growth> {
        self.growth.as_mut()
    }

    fn divided_geometry_mut(&mut self) -> Option<&mut Geometry> {
        Some(&mut self.geometry)
    }

    fn refresh(&self) -> Refresh {
        self.refresh
    }

    fn equal_timers(&self) -> u32 {
        self.equal_timers
    }

    fn asked(&self) -> Asked {
        self.asked
    }

    fn asked_mut(&mut self) -> Option<&mut Asked> {
        Some(&mut self.asked)
    }

    fn detail(&self) -> Option<String> {
        (self.equal_timers > 0).then(|| format!("{} equal timers", self.equal_timers))
    }
}
