//! Dynamic size: when a filter opens another generation of cells (K11 section 5).
//!
//! Promises: with [`Limit::Cardinality`] no generation ever holds more events than it was sized for. Must not know:
//! what a generation's cells are.

use serde::{Deserialize, Serialize};

use crate::generation::Generation;
use crate::kind::CellKind;
use crate::rates::{blocked, plain};
use crate::slice::CellSlice;
use crate::{Geometry, Layout};

/// What is measured to tell that a generation is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Events recorded and still in the window: `n = -(m/k) ln(1 - P^(1/k))`.
    Cardinality,
    /// Cells in use: `z = m P^(1/k)`.
    Density,
}

/// How a filter grows. Lookups go to all generations, new events to the newest; emptied ones are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// What tells that a generation is full.
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
}

/// Most generations a filter may ever have at once: a sighting has a bit for each.
pub const GENERATIONS_MAX: u32 = 16;

impl Growth {
    /// Geometry of generation `number` (0 is the first), given that of the first.
    pub(crate) fn geometry(&self, base: &Geometry, number: u64) -> Geometry {
        if number == 0 || self.ratio <= 1.0 {
            return *base;
        }
        let capacity = self.capacity_of(number);
        sized(base, capacity, self.rate_of(number)).unwrap_or(*base)
    }

    /// Events that generation `number` is sized for.
    pub(crate) fn capacity_of(&self, number: u64) -> u64 {
        (self.capacity_events as f64 * self.ratio.powi(number.min(i32::MAX as u64) as i32)) as u64
    }

    /// The rate that generation `number` is sized for: tightening where sizes grow, so that the sum stays bounded.
    pub(crate) fn rate_of(&self, number: u64) -> f64 {
        if self.ratio <= 1.0 { self.generation_rate } else { self.generation_rate / self.ratio.powi(number.min(64) as i32) }
    }
}

#[allow(private_bounds)]
impl<K: CellKind> CellSlice<K> {
    /// Events that may be recorded before the newest generation is full; opens another one first where it is. 0 where
    /// it may not grow any more.
    pub(crate) fn make_room(&mut self) -> u64 {
        let Some(growth) = self.growth else { return u64::MAX };
        let room = self.room_in_newest(&growth);
        if room > 0 {
            return room;
        }
        let number = self.oldest + self.stack.len() as u64;
        let limit = growth.generations_max.min(GENERATIONS_MAX) as usize;
        if self.stack.len() >= limit {
            return 0;
        }
        match Generation::new(growth.geometry(&self.base, number)) {
            Ok(generation) => {
                self.stack.push(generation);
                self.room_in_newest(&growth)
            }
            // No memory is as good a reason to refuse as a limit is.
            Err(_) => 0,
        }
    }

    fn room_in_newest(&self, growth: &Growth) -> u64 {
        let Some(newest) = self.stack.last() else { return 0 };
        let number = self.oldest + self.stack.len() as u64 - 1;
        match growth.limit {
            Limit::Cardinality => growth.capacity_of(number).saturating_sub(newest.live.total()),
            Limit::Density => {
                let hashes = f64::from(newest.geometry.hashes());
                let cells_max = newest.geometry.cells() as f64 * growth.rate_of(number).powf(1.0 / hashes);
                let room_cells = (cells_max as u64 + 1).saturating_sub(newest.used_cells);
                room_cells.div_ceil(u64::from(newest.geometry.hashes()))
            }
        }
    }

    /// Drops every generation but the newest in which nothing is alive any more.
    pub(crate) fn drop_emptied(&mut self) {
        let kept_from = self.now.saturating_sub(self.kind.window().lateness_units);
        let window = *self.kind.window();
        let newest = self.stack.len() - 1;
        let emptied = |generation: &Generation| {
            generation.live.newest_unit().is_none_or(|unit| window.expiry(unit) <= kept_from)
        };
        let dropped = self.stack[..newest].iter().take_while(|generation| emptied(generation)).count();
        self.stack.drain(..dropped);
        self.oldest += dropped as u64;
    }
}

fn sized(base: &Geometry, capacity_events: u64, rate: f64) -> Option<Geometry> {
    let events = capacity_events as f64;
    let size = match base.layout() {
        Layout::Blocked { .. } => blocked::size(base.block_cells(), events, rate),
        Layout::Classic | Layout::Partitioned => plain::size(events, rate),
    };
    let size = size.ok()?;
    Geometry::new(size.cells, size.hashes, base.cell_bits(), base.layout()).ok()
}
