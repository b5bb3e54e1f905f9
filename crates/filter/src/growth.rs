//! Dynamic size: when a filter opens another generation of cells (K11 section 5).
//!
//! Promises: with [`Limit::Cardinality`] no generation ever holds more events than it was sized for. Must not know:
//! what a generation's cells are.

use serde::{Deserialize, Serialize};

use crate::generation::LiveEvents;
use crate::generation_number::GenerationNumber;
use crate::rates::growth::density_limit;
use crate::rates::{blocked, plain};
use crate::unit_number::UnitNumber;
use crate::{Geometry, Layout};

/// The measure by which a generation is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Events recorded and still in the window: `n = -(m/k) ln(1 - P^(1/k))`.
    Cardinality,
    /// Cells in use: `z = m P^(1/k)`; blocked, where that fill would be too much, what the capacity fills on average.
    Density,
}

/// How a filter grows. Lookups go to all generations, new events to the newest; emptied ones are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// The measure by which a generation is full.
    pub limit: Limit,
    /// Most generations at once; beyond it inserts are refused. 1 never grows and refuses at its capacity.
    pub generations_max: u32,
    /// Size of a generation relative to the one before: 1 in windowed filters, above 1 in unbounded ones.
    pub ratio: f64,
    /// Events the first generation is sized for.
    pub capacity_events: u64,
    /// False-positive rate of the first generation; later ones tighten by `1/ratio` where they grow in size, so that
    /// all together stay under `target / (1 - 1/ratio)`.
    pub generation_rate: f64,
    /// Where several jumps of a window share the cells: the limit of each jump.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jumps: Option<JumpLimit>,
}

/// How unevenly the jumps of a window may be filled.
///
/// The rate of one jump's bits rises about as the `exponent`-th power of its events (k or nearly, while it is far from
/// full), so a burst costs more than the same events spread evenly. The rates of the live jumps stay under the target
/// as long as `sum over jumps of (n_g / c)^a <= J`, with c events a jump and J jumps the even load that the cells were
/// sized for: `ln rate` is concave in `ln n`, so its tangent at c bounds it on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JumpLimit {
    /// Events a jump (c).
    pub events: f64,
    /// Jumps alive at once (J): the full ones and the current one.
    pub jumps: f64,
    /// `d ln rate / d ln n` at c (a).
    pub exponent: f64,
}

impl JumpLimit {
    /// Events that the current jump, `now`, may still bring beside those alive.
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

/// Most generations a filter may ever have at once: a sighting has a bit for each.
pub const GENERATIONS_MAX: u32 = 16;

impl Growth {
    /// Geometry of generation `number` (0 is the first), given that of the first; `None` where it would be too large.
    pub(crate) fn geometry(&self, base: &Geometry, number: GenerationNumber) -> Option<Geometry> {
        if number == GenerationNumber::FIRST || self.ratio <= 1.0 {
            return Some(*base);
        }
        sized(base, self.capacity_of(number), self.rate_of(number))
    }

    /// Whether all generations have the shape of the first.
    pub(crate) fn keeps_shape(&self) -> bool {
        self.ratio <= 1.0 || self.generations_max <= 1
    }

    /// Events that generation `number` is sized for.
    pub(crate) fn capacity_of(&self, number: GenerationNumber) -> u64 {
        (self.capacity_events as f64 * self.ratio.powi(number.0.min(i32::MAX as u64) as i32)) as u64
    }

    /// The rate that generation `number` is sized for: tightening where sizes grow, so that the sum stays bounded.
    pub(crate) fn rate_of(&self, number: GenerationNumber) -> f64 {
        if self.ratio <= 1.0 {
            self.generation_rate
        } else {
            self.generation_rate / self.ratio.powi(number.0.min(64) as i32)
        }
    }

    /// Events that generation `number` may still record in unit `now`: `live` are those that have not expired, and
    /// `used_cells` of its cells are in use.
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

    /// Cells in use beyond which generation `number` is full.
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
