//! Dynamic size: rules for opening another generation of cells (Koloniari et al. 2011, section 5).
//!
//! With [`Limit::Cardinality`], no generation ever holds more events than it was sized for.
//!
//! This module does not depend on the content of cells.

use serde::{Deserialize, Serialize};

use crate::generation::LiveEvents;
use crate::generation_number::GenerationNumber;
use crate::rates::growth::density_limit;
use crate::rates::{blocked, plain};
use crate::unit_number::UnitNumber;
use crate::{Geometry, Layout};

/// Measure that tells when a generation is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Number of recorded events that are still in the window: `n = -(m/k) ln(1 - P^(1/k))`.
    Cardinality,
    /// Number of used cells. A generation is full when this number reaches a limit, which depends on the layout. In the
    /// classic layout, m cells reach the false-positive rate P when `z = m P^(1/k)` cells are used, so the limit is z.
    ///
    /// In blocked layouts, cells fill unevenly, so the rate would exceed P before z cells are used. The limit is
    /// therefore lower. It is the mean number of cells that the events of the generation's capacity fill.
    Density,
}

/// Rules by which a filter grows. A growing filter consists of several generations of cells. A lookup tests all
/// generations, and new events go to the newest one. Generations that have become empty are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// Measure that tells when a generation is full.
    pub limit: Limit,
    /// Maximum number of generations that the filter may have at once. When all of them are full, the filter rejects
    /// new events. A filter with a maximum of 1 never grows, and rejects new events when its capacity is reached.
    pub generations_max: u32,
    /// Size of a generation relative to the generation before it: 1 in windowed filters, above 1 in unbounded filters.
    pub ratio: f64,
    /// Number of events for which the first generation is sized.
    pub capacity_events: u64,
    /// False-positive rate of the first generation. Each later generation is larger than the one before by the factor
    /// `ratio`. If `ratio` is above 1, the rate of a generation is lower than that of the one before by the factor
    /// `1/ratio`. The sum of all rates then stays below `generation_rate / (1 - 1/ratio)`, however many generations
    /// there are.
    pub generation_rate: f64,
    /// Limit of each jump, if several jumps of a window share the cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jumps: Option<JumpLimit>,
}

/// Limit for windows whose jumps share the cells. It says how unevenly the jumps of a window may be filled.
///
/// Each jump needs a limit of its own, because a burst of events in one jump raises the false-positive rate more than
/// the same number of events that are spread evenly over the jumps. If a jump has n events, its share of the rate is
/// approximately proportional to n to the power of `exponent`. As long as the filter is far from full, the exponent is
/// about k, the number of positions per event.
///
/// The cells are sized for an even load of c events in each of J jumps. If jump g has n_g events instead, the combined
/// rate of all live jumps stays below the target as long as `sum over jumps of (n_g / c)^a <= J`, where a is the
/// exponent.
///
/// This condition is sufficient because the power law with the exponent a is never below the actual rate. The reason is
/// that the logarithm of the rate is a concave function of the logarithm of n, and the power law is the tangent of this
/// function at c.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JumpLimit {
    /// Number of events per jump (c).
    pub events: f64,
    /// Number of live jumps (J): the full jumps and the current one.
    pub jumps: f64,
    /// Slope `d ln rate / d ln n` at c (a).
    pub exponent: f64,
}

impl JumpLimit {
    /// Returns the number of events that the current jump `now` may still bring in addition to the live events.
    fn room(&self, live: &LiveEvents, now: UnitNumber) -> u64 {
        let mut others = 0.0;
        let mut current = 0;
        for (unit, events) in live.by_unit() {
            if unit >= now {
                current += events;
            } else {
                others += (events as f64 / self.events).powf(self.exponent);
            }
        }
        let most = self.events * (self.jumps - others).max(0.0).powf(1.0 / self.exponent);
        (most as u64).saturating_sub(current)
    }
}

/// Maximum number of generations that a filter may have at once. The result of a test has one bit for each generation.
pub const GENERATIONS_MAX: u32 = 16;

impl Growth {
    /// Returns the geometry of generation `number` (0 is the first), given the geometry of the first one. Returns
    /// `None` if it would be too large.
    pub(crate) fn geometry(&self, base: &Geometry, number: GenerationNumber) -> Option<Geometry> {
        if number == GenerationNumber::FIRST || self.ratio <= 1.0 {
            return Some(*base);
        }
        sized(base, self.capacity_of(number), self.rate_of(number))
    }

    /// Returns whether all generations have the geometry of the first.
    pub(crate) fn keeps_shape(&self) -> bool {
        self.ratio <= 1.0 || self.generations_max <= 1
    }

    /// Returns the number of events for which generation `number` is sized.
    pub(crate) fn capacity_of(&self, number: GenerationNumber) -> u64 {
        (self.capacity_events as f64 * self.ratio.powi(number.0.min(i32::MAX as u64) as i32)) as u64
    }

    /// Returns the false-positive rate for which generation `number` is sized. If each generation is larger than the
    /// one before, later generations have lower rates, so that the sum of all rates stays bounded.
    pub(crate) fn rate_of(&self, number: GenerationNumber) -> f64 {
        if self.ratio <= 1.0 {
            self.generation_rate
        } else {
            self.generation_rate / self.ratio.powi(number.0.min(64) as i32)
        }
    }

    /// Returns how many further events generation `number` can record in unit `now` before it is full. The parameter
    /// `live` contains the numbers of events in the generation that have not expired, and `used_cells` is the number of
    /// its cells that are in use. [`Self::limit`] and [`Self::jumps`] determine which of these numbers decides.
    pub fn room(
        &self,
        number: GenerationNumber,
        geometry: &Geometry,
        live: &LiveEvents,
        now: UnitNumber,
        used_cells: u64,
    ) -> u64 {
        if let Some(jumps) = &self.jumps {
            return jumps.room(live, now);
        }
        match self.limit {
            Limit::Cardinality => self.capacity_of(number).saturating_sub(live.total()),
            Limit::Density => {
                let room_cells = (self.cells_max(number, geometry) + 1).saturating_sub(used_cells);
                room_cells.div_ceil(u64::from(geometry.hashes()))
            }
        }
    }

    /// Returns the number of used cells at which generation `number` is full.
    fn cells_max(&self, number: GenerationNumber, geometry: &Geometry) -> u64 {
        let cells = geometry.cells() as f64;
        let hashes = geometry.hashes();
        let most = match geometry.layout() {
            Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => {
                density_limit(cells, hashes, self.rate_of(number))
            }
            Layout::Blocked { .. } => {
                cells * blocked::fill(geometry.block_cells(), cells, hashes, self.capacity_of(number) as f64)
            }
        };
        most as u64
    }
}

fn sized(base: &Geometry, capacity_events: u64, rate: f64) -> Option<Geometry> {
    let events = capacity_events as f64;
    let size = match base.layout() {
        Layout::Blocked { .. } => blocked::size(base.block_cells(), events, rate),
        Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => plain::size(events, rate),
    };
    let size = size.ok()?;
    Geometry::new(size.cells, size.hashes, base.cell_bits(), base.layout()).ok()
}
