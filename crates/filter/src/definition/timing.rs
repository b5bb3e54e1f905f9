//! The cells of a filter of kind timing.

use serde::{Deserialize, Serialize};

use super::check::{cell_bits, grows, refused};
use super::kind_cells::{KindCells, Shape};
use super::rates::{Rates, live_share, rate};
use super::{Asked, FilterDefinition};
use crate::build_error::BuildError;
use crate::growth::Growth;
use crate::timing::{Timers8, Timers16};
use crate::{Geometry, Kind, Refresh, WindowRule};

/// Timers of [`Kind::Timing`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimingCells {
    /// Shape of the first generation; cells of 8 or 16 bits.
    pub geometry: Geometry,
    /// From which sighting the window counts.
    pub refresh: Refresh,
    /// k' of the equal-timers heuristic; 0 is the plain filter.
    pub equal_timers: u32,
    /// How it grows, or where it refuses.
    pub growth: Option<Growth>,
    /// What its ticks do not say.
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
            return Err(refused("equal_timers", self.equal_timers, "choose at most as many as an event has positions"));
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
