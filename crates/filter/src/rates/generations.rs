//! False-positive rates of words of generation bits. A word has one bit for each generation, and an event has the same
//! positions in every generation. An event is a duplicate if there is a live generation whose bit is set in all cells
//! of the event.
//!
//! The formulas are exact if events are distributed uniformly over the cells. The rates refer to first tests, which are
//! lookups of keys that the window does not contain.
//!
//! This module does not depend on how words are cleared.
//!
//! Given the d different cells of a query, the generations cover these cells independently, because they hold different
//! events. The rate is therefore `rate = sum over d of D(d) (1 - prod over i of (1 - H_i(d)))`. D is the distribution
//! of [`super::blocked`], and `H_i(d)` is the probability that generation i covers d cells. In the classic layout d = k
//! for all but `k^2/2m` of the queries, and `rate = 1 - prod over i of (1 - p_i^k)`. (The jumping window of Metwally et
//! al. 2005, section 3.3, tests the sum of its sub-windows instead.)
//!
//! **Worst and mean rate.** A window of n events in Q jumps consists of Q full generations of n/Q events each, and of a
//! current generation that grows from 0 to n/Q. An event therefore counts for a time between W and W + W/Q.
//! [`SteadyRate::worst`] is the rate just before a jump, with Q + 1 full generations. [`SteadyRate::mean`] is the mean
//! over a steady stream from one jump to the next.
//!
//! [`SteadyRate::worst`] and [`SteadyRate::mean`] describe a filter that has been jumping for some time. A filter that
//! fills from empty has a lower rate, and Metwally et al. 2005, section 6.2, print such rates. The sizes in this module
//! keep the **worst** rate under the target, so that the rate of a filter never exceeds it.
//!
//! [`SteadyRate::worst`] and [`SteadyRate::mean`] are upper bounds, because they assume that every arriving event is
//! set. In fact an event that is called a duplicate sets nothing. For example, the bound is 0.442 % where a measurement
//! finds 0.434 %.
//!
//! [`delivered_classic`] and [`delivered_blocked`] return the measured rates instead. They subtract only the events
//! that the Q older generations call duplicates. An event that the current generation calls a duplicate has all its
//! bits set there already, so it would not have set new bits anyway.

use super::{
    Size, SizingError,
    blocked::{BlockRates, best_of, blocks_at_least},
    growth, least_count, plain, turning_point,
};
use crate::geometry::CELLS_MAX;

/// Load of a jumping window in a steady stream of distinct events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JumpingLoad {
    /// Number of events per window (n).
    pub events: f64,
    /// Number of jumps per window (Q). A lookup tests this number of full generations and the current one.
    pub jumps: u32,
}

impl JumpingLoad {
    /// Returns the number of events in a full generation: n/Q.
    pub fn events_per_jump(&self) -> f64 {
        self.events / f64::from(self.jumps)
    }

    /// Returns the same window with another number of events.
    fn with(self, events: f64) -> Self {
        Self { events, ..self }
    }

    fn check(&self, rate: f64) -> Result<(), SizingError> {
        if self.jumps == 0 {
            return Err(SizingError::Jumps);
        }
        SizingError::check(self.events, rate)
    }
}

/// False-positive rates of a steady stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyRate {
    /// Mean rate from one jump to the next.
    pub mean: f64,
    /// Rate just before a jump, when the current generation is full as well.
    pub worst: f64,
}

/// Returns the rate of a classic or partitioned layout of m words. `loads` has the number of events in each live
/// generation.
///
/// ```
/// use firstseen_filter::rates::{generations, plain};
/// let one = plain::rate(1e6, 4, 5e4);
/// let two = generations::classic(1e6, 4, &[5e4, 5e4]);
/// assert!((two - (2.0 * one - one * one)).abs() < 1e-15);
/// ```
pub fn classic(cells: f64, hashes: u32, loads: &[f64]) -> f64 {
    1.0 - loads.iter().map(|events| 1.0 - plain::rate(cells, hashes, *events)).product::<f64>()
}

/// Returns the rate of a blocked layout of m words. `loads` has the number of events in each live generation.
///
/// ```
/// use firstseen_filter::rates::{blocked::BlockRates, generations};
/// let mut rates = BlockRates::new(128, 4);
/// let one = rates.rate(1e6, 5e4);
/// let two = generations::blocked(&mut rates, 1e6, &[5e4, 5e4]);
/// // Less than twice one, and a little less than if the same query did not repeat its cells in both.
/// assert!(two < 2.0 * one - one * one && two > 1.9 * one);
/// ```
pub fn blocked(rates: &mut BlockRates, cells: f64, loads: &[f64]) -> f64 {
    let covered: Vec<_> = loads.iter().map(|events| rates.covered_by(cells, *events)).collect();
    rates.over_distinct(|d| 1.0 - covered.iter().map(|generation| 1.0 - generation[d]).product::<f64>())
}

/// Returns the rates of a classic or partitioned layout of m words in a steady stream.
///
/// ```
/// use firstseen_filter::rates::generations::{self, JumpingLoad};
/// let load = JumpingLoad { events: 150_000.0, jumps: 3 };
/// let steady = generations::steady_classic(4.0 * 288_539.0, 4, load);
/// assert!((steady.worst / generations::classic(4.0 * 288_539.0, 4, &[50_000.0; 4]) - 1.0).abs() < 1e-12);
/// assert!(steady.mean < steady.worst && steady.mean > 0.75 * steady.worst);
/// ```
pub fn steady_classic(cells: f64, hashes: u32, load: JumpingLoad) -> SteadyRate {
    let full = full_classic(cells, hashes, load, load.jumps);
    let current = plain::stream_mean(cells, hashes, load.events_per_jump());
    SteadyRate { mean: full + (1.0 - full) * current, worst: full_classic(cells, hashes, load, load.jumps + 1) }
}

/// Returns the rate of the given number of full generations alone, in a classic layout.
fn full_classic(cells: f64, hashes: u32, load: JumpingLoad, generations: u32) -> f64 {
    growth::live_rate(plain::rate(cells, hashes, load.events_per_jump()), f64::from(generations))
}

/// Returns the rate of the given number of full generations alone, in a blocked layout.
fn full_blocked(rates: &mut BlockRates, cells: f64, load: JumpingLoad, generations: u32) -> f64 {
    let full = rates.covered_by(cells, load.events_per_jump());
    rates.over_distinct(|d| growth::live_rate(full[d], f64::from(generations)))
}

/// Returns the rates of a blocked layout of m words in a steady stream.
///
/// ```
/// use firstseen_filter::rates::{blocked::BlockRates, generations::{self, JumpingLoad}};
/// let load = JumpingLoad { events: 1e7, jumps: 6 };
/// let steady = generations::steady_blocked(&mut BlockRates::new(128, 8), 3.42e7, load);
/// assert!(steady.mean < 0.0045 && steady.worst < 0.005, "{steady:?}");
/// ```
pub fn steady_blocked(rates: &mut BlockRates, cells: f64, load: JumpingLoad) -> SteadyRate {
    let full = rates.covered_by(cells, load.events_per_jump());
    let current = rates.covered_on_average(cells, load.events_per_jump());
    let jumps = load.jumps as i32;
    SteadyRate {
        mean: rates.over_distinct(|d| 1.0 - (1.0 - full[d]).powi(jumps) * (1.0 - current[d])),
        worst: full_blocked(rates, cells, load, load.jumps + 1),
    }
}

/// Returns the rates of a classic layout, like [`steady_classic`], but for a filter that sets only events that it calls
/// distinct. The parameter `load` counts all arriving events. How many of them are set is not known in advance: the
/// number n of set events depends on the false-positive rate, and the rate depends on n. The function therefore solves
/// the equation `n = arrivals (1 - rate of the older generations)`.
///
/// ```
/// use firstseen_filter::rates::generations::{self, JumpingLoad};
/// let load = JumpingLoad { events: 1e6, jumps: 4 };
/// let bound = generations::steady_classic(4e6, 4, load).mean;
/// let measured = generations::delivered_classic(4e6, 4, load).mean;
/// assert!(measured < 0.97 * bound && measured > 0.95 * bound, "{measured} {bound}");
/// ```
pub fn delivered_classic(cells: f64, hashes: u32, load: JumpingLoad) -> SteadyRate {
    let set = turning_point(load.events, |set| {
        let older = full_classic(cells, hashes, load.with(set), load.jumps);
        set - load.events * (1.0 - older)
    });
    steady_classic(cells, hashes, load.with(set))
}

/// Returns the rates of a blocked layout, like [`steady_blocked`], but for a filter that sets only events that it calls
/// distinct. The parameter `load` counts all arriving events.
///
/// The result is an approximation, because the formula assumes that the events that are not set are spread evenly over
/// the blocks. In fact, more of them fall into crowded blocks, where false positives are more frequent. At a rate of 1
/// %, this causes an error of at most 0.5 % of the rate.
pub fn delivered_blocked(rates: &mut BlockRates, cells: f64, load: JumpingLoad) -> SteadyRate {
    let set = turning_point(load.events, |set| {
        let older = full_blocked(rates, cells, load.with(set), load.jumps);
        set - load.events * (1.0 - older)
    });
    steady_blocked(rates, cells, load.with(set))
}

/// Returns the smallest classic layout whose worst rate under `load` is at most P, for the given number of positions. A
/// lookup tests Q + 1 generations, so each generation is sized for the rate `1 - (1 - P)^(1/(Q+1))`.
///
/// # Errors
/// Returns [`SizingError`] if there are no events or no jumps, if the rate is outside (0, 1), or if more than 2^40
/// cells are needed.
pub fn size_classic_with(load: JumpingLoad, rate: f64, hashes: u32) -> Result<Size, SizingError> {
    load.check(rate)?;
    let size = plain::size_with(
        load.events_per_jump().max(1.0),
        growth::generation_rate(rate, f64::from(load.jumps) + 1.0),
        hashes,
    )?;
    let rate = steady_classic(size.cells as f64, hashes, load).worst;
    Ok(Size { events: load.events, rate, ..size })
}

/// Returns the smallest classic layout that keeps the worst rate of `load` at P, and the number of positions in
/// `1..=16` that achieves it.
///
/// # Errors
/// Returns [`SizingError`] if there are no events or no jumps, if the rate is outside (0, 1), or if more than 2^40
/// cells are needed.
///
/// ```
/// use firstseen_filter::rates::generations::{self, JumpingLoad};
/// let size = generations::size_classic(JumpingLoad { events: 1e7, jumps: 6 }, 0.005).unwrap();
/// assert_eq!(size.hashes, 10);
/// assert!(size.rate <= 0.005 && size.bits_per_event(8) < 21.0);
/// ```
pub fn size_classic(load: JumpingLoad, rate: f64) -> Result<Size, SizingError> {
    load.check(rate)?;
    let target = growth::generation_rate(rate, f64::from(load.jumps) + 1.0);
    size_classic_with(load, rate, plain::least_hashes(1.0, target))
}

/// Returns the smallest blocked layout that keeps the worst rate of `load` at P with the given number of positions.
///
/// # Errors
/// Returns [`SizingError`] if there are no events or no jumps, if the rate is outside (0, 1), or if more than 2^40
/// cells are needed.
///
/// # Panics
/// Panics in the same cases as [`BlockRates::new`].
pub fn size_blocked_with(block_cells: u64, load: JumpingLoad, rate: f64, hashes: u32) -> Result<Size, SizingError> {
    load.check(rate)?;
    let mut rates = BlockRates::new(block_cells, hashes);
    let start = blocks_at_least(block_cells, load.events_per_jump(), rate, hashes);
    let blocks = least_count(start, CELLS_MAX / block_cells, rate, |blocks| {
        full_blocked(&mut rates, (blocks * block_cells) as f64, load, load.jumps + 1)
    })
    .ok_or(SizingError::Cells { events: load.events, rate })?;
    let cells = blocks * block_cells;
    let rate = full_blocked(&mut rates, cells as f64, load, load.jumps + 1);
    Ok(Size { events: load.events, cells, hashes, rate })
}

/// Returns the smallest blocked layout whose worst rate under `load` is at most P, and the number of positions that
/// achieves it. The size is a number of whole blocks.
///
/// # Errors
/// Returns [`SizingError`] if there are no events or no jumps, if the rate is outside (0, 1), or if more than 2^40
/// cells are needed.
///
/// ```
/// use firstseen_filter::rates::generations::{self, JumpingLoad};
/// // Two lines of 8-bit words: 128 words a block.
/// let size = generations::size_blocked(128, JumpingLoad { events: 1e7, jumps: 6 }, 0.005).unwrap();
/// assert!(size.rate <= 0.005 && size.bits_per_event(8) < 28.0, "{size:?}");
/// ```
pub fn size_blocked(block_cells: u64, load: JumpingLoad, rate: f64) -> Result<Size, SizingError> {
    best_of(block_cells, |hashes| size_blocked_with(block_cells, load, rate, hashes))
}
