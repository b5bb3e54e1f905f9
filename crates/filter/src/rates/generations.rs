//! Words of generations: one bit a generation side by side, the same positions in every generation. An event is a
//! duplicate if in any live generation all its cells have that generation's bit.
//!
//! Promises: exact for events that fall uniformly; rates over first tests. Must not know: how words are cleared.
//!
//! Given the d different cells of a query, the generations cover them independently (they hold different events), so
//! `rate = sum over d of D(d) (1 - prod over i of (1 - H_i(d)))`, where D is that of [`super::blocked`] and `H_i(d)`
//! the chance that generation i covers d cells. In the classic layout d = k for all but `k^2/2m` of the queries, and
//! `rate = 1 - prod over i of (1 - p_i^k)` (M05 3.3, whose jumping window looks at the sum of its sub-windows instead).
//!
//! **At which moment.** A window of n events in Q jumps lives in Q full generations of n/Q events and a current one
//! that grows from 0 to n/Q, so an event counts for W to W + W/Q. [`SteadyRate::worst`] is the rate just before a
//! jump, with Q + 1 full generations; [`SteadyRate::mean`] that of a steady stream, the mean from one jump to the
//! next. Both are for a filter that has been jumping for a while: one that fills from empty lies less (M05 6.2 prints
//! such rates). Sizes keep the **worst** moment under the target, so that no single second lies more.
//!
//! An event that is taken for a duplicate sets nothing, so fewer events are set than arrive, and the rates of all that
//! arrive are bounds: 0.442 % where a measurement finds 0.434 %. [`delivered_classic`] and [`delivered_blocked`] are
//! the latter. What the current generation itself takes for a duplicate would set nothing new, so the share that is
//! missing is what the Q older ones answer.

use super::{
    Size, SizingError,
    blocked::{BlockRates, best_of, blocks_at_least},
    growth, least_count, plain, turning_point,
};
use crate::geometry::CELLS_MAX;

/// A jumping window in a steady stream of distinct events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JumpingLoad {
    /// Events of one window (n).
    pub events: f64,
    /// Jumps of one window (Q): full generations that are looked at, beside the current one.
    pub jumps: u32,
}

impl JumpingLoad {
    /// Events of one full generation: n/Q.
    pub fn events_per_jump(&self) -> f64 {
        self.events / f64::from(self.jumps)
    }

    /// The same window with another number of events.
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

/// The rate of a steady stream at two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyRate {
    /// The mean from one jump to the next.
    pub mean: f64,
    /// Just before a jump, when the current generation is full too.
    pub worst: f64,
}

/// The rate of a classic or partitioned layout of m words whose live generations hold the given numbers of events.
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

/// The rate of a blocked layout of m words whose live generations hold the given numbers of events.
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

/// The rates of a classic or partitioned layout of m words in a steady stream.
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

/// The rate of a number of full generations alone.
fn full_classic(cells: f64, hashes: u32, load: JumpingLoad, generations: u32) -> f64 {
    growth::live_rate(plain::rate(cells, hashes, load.events_per_jump()), f64::from(generations))
}

/// As [`full_classic`].
fn full_blocked(rates: &mut BlockRates, cells: f64, load: JumpingLoad, generations: u32) -> f64 {
    let full = rates.covered_by(cells, load.events_per_jump());
    rates.over_distinct(|d| growth::live_rate(full[d], f64::from(generations)))
}

/// The rates of a blocked layout of m words in a steady stream.
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

/// As [`steady_classic`] when `load` counts the events that arrive and only those called distinct are set: n is the
/// solution of `n = arrivals (1 - rate of the older generations)`.
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

/// As [`steady_blocked`] when `load` counts the events that arrive and only those called distinct are set. It takes
/// the missing events as spread evenly, though crowded blocks miss more: right within 0.5 % of a rate of 1 %.
pub fn delivered_blocked(rates: &mut BlockRates, cells: f64, load: JumpingLoad) -> SteadyRate {
    let set = turning_point(load.events, |set| {
        let older = full_blocked(rates, cells, load.with(set), load.jumps);
        set - load.events * (1.0 - older)
    });
    steady_blocked(rates, cells, load.with(set))
}

/// The least words of a classic layout that keep the worst moment of `load` at rate P with the given number of
/// positions: those of a filter of one generation at `1 - (1 - P)^(1/(Q+1))`.
///
/// # Errors
/// [`SizingError`]: no events, no jumps, a rate outside (0, 1), or more cells than 2^40.
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

/// The least words of a classic layout that keep the worst moment of `load` at rate P, and the number of positions
/// in `1..=16` that needs them.
///
/// # Errors
/// [`SizingError`]: no events, no jumps, a rate outside (0, 1), or more cells than 2^40.
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

/// The least words of a blocked layout that keep the worst moment of `load` at rate P with the given number of
/// positions.
///
/// # Errors
/// [`SizingError`]: no events, no jumps, a rate outside (0, 1), or more cells than 2^40.
///
/// # Panics
/// As [`BlockRates::new`].
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

/// The least words, in whole blocks, that keep the worst moment of `load` at rate P, and the number of positions that
/// needs them.
///
/// # Errors
/// [`SizingError`]: no events, no jumps, a rate outside (0, 1), or more cells than 2^40.
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
