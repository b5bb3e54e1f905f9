//! False-positive rates of blocked layouts, in which all positions of an event lie in one block of B cells. The
//! formulas assume that the positions within the block are drawn uniformly, and that the same cell may be drawn more
//! than once.
//!
//! The formulas are exact if events are distributed uniformly over blocks and cells.
//!
//! This module does not depend on the width of cells, because a block of bits and a block of timers differ only in B.
//!
//! The false-positive rate of a blocked layout is derived in three steps. First, the k offsets of a query address d
//! different cells with the probability `D(d) = S2(k, d) B! / ((B - d)! B^k)`, where S2 are the Stirling numbers of the
//! second kind.
//!
//! Second, the offsets of j events are t = kj throws at the block. If r cells of the query are not covered yet, a throw
//! covers one of them with the probability r/B. The probability that all r cells are covered after t throws is
//! therefore `h(t+1, r) = (1 - r/B) h(t, r) + (r/B) h(t, r-1)`, with `h(t, 0) = 1` and `h(0, r) = 0`. It equals
//! `E[(X)_d / (B)_d]` for the number X of set cells. An event that finds all its cells set changes nothing by setting
//! them. First-test-then-set and test-and-set therefore fill a block in the same way.
//!
//! Third, the load of the query's block is binomial(n, 1/blocks), so that `rate = sum over j, d of Bin(j) D(d) h(kj,
//! d) = E[(X/B)^k]`.
//!
//! Putze, Sanders, Singler, "Cache-, hash- and space-efficient Bloom filters", 2007, have a simpler formula: the mean
//! of the rate of a plain filter over Poisson loads. In that formula, the number X of set cells in a block is replaced
//! with its mean. The rate is a convex function of X, so the result is too low, and in blocks as small as these the
//! difference matters.

use super::{
    Size, SizingError, least_count,
    mean::{GAUSS, for_each_load},
};
use crate::geometry::{CELLS_MAX, Geometry, HASHES_MAX};

/// Probabilities for each number of different cells, `0..=k`.
pub(super) type ByDistinct = [f64; HASHES_MAX as usize + 1];

/// Maximum number of cells in a block for which rates can be computed. The number is limited because the memory of
/// [`BlockRates`] grows with it. The blocks of every layout are smaller than this limit.
const BLOCK_CELLS_MAX: u64 = 4096;

/// Factor after which a block is full. After `SATURATED * B` throws, the probability of an empty cell in a block is
/// below `B e^-48`.
const SATURATED: u64 = 48;

/// False-positive rates for one block size and one number of positions, and for any load. The value caches intermediate
/// results, so create it once and use it for many calls.
#[derive(Clone, Debug)]
pub struct BlockRates {
    block_cells: u64,
    hashes: u32,
    /// Probability that the positions of a query are d different cells.
    distinct: ByDistinct,
    /// Values `h(kj, d)`, row by row for j events, with d in `0..=k`.
    covered: Vec<f64>,
}

impl BlockRates {
    /// Creates the rates for blocks of `block_cells` cells with `hashes` positions per event.
    ///
    /// # Panics
    /// Panics if `block_cells` is outside `1..=4096` or `hashes` is outside `1..=16`.
    pub fn new(block_cells: u64, hashes: u32) -> Self {
        assert!((1..=BLOCK_CELLS_MAX).contains(&block_cells), "a block cannot have {block_cells} cells");
        assert!((1..=HASHES_MAX).contains(&hashes), "an event cannot have {hashes} positions");
        let mut distinct = ByDistinct::default();
        distinct[0] = 1.0;
        for _ in 0..hashes {
            for d in (0..=hashes as usize).rev() {
                let stays = distinct[d] * d as f64 / block_cells as f64;
                let grows = if d == 0 { 0.0 } else { distinct[d - 1] * (1.0 - (d - 1) as f64 / block_cells as f64) };
                distinct[d] = stays + grows;
            }
        }
        let mut covered = vec![0.0; hashes as usize + 1];
        covered[0] = 1.0;
        Self { block_cells, hashes, distinct, covered }
    }

    /// Returns the number of cells in a block (B).
    pub fn block_cells(&self) -> u64 {
        self.block_cells
    }

    /// Returns the number of positions per event (k).
    pub fn hashes(&self) -> u32 {
        self.hashes
    }

    /// Returns the false-positive rate after n events in m cells.
    ///
    /// ```
    /// use firstseen_filter::rates::{blocked::BlockRates, plain};
    /// let blocked = BlockRates::new(512, 7).rate(9.6e6, 1e6);
    /// // A cache line at 9.6 bits an event: 1.16 % instead of 1.00 %.
    /// assert!((blocked - 0.011_64).abs() < 1e-5, "{blocked}");
    /// // One block of one cell is full after one event.
    /// assert_eq!(BlockRates::new(1, 3).rate(1.0, 1.0), 1.0);
    /// // Two events of one position in one block of two cells: half the time they cover both, else one.
    /// assert_eq!(BlockRates::new(2, 1).rate(2.0, 2.0), 0.75);
    /// ```
    pub fn rate(&mut self, cells: f64, events: f64) -> f64 {
        let covered = self.covered_by(cells, events);
        self.over_distinct(|d| covered[d])
    }

    /// Returns the mean false-positive rate over a stream of n distinct events that fill m cells from empty.
    ///
    /// ```
    /// use firstseen_filter::rates::blocked::BlockRates;
    /// let mut rates = BlockRates::new(512, 7);
    /// let (mean, full) = (rates.stream_mean(9.6e6, 1e6), rates.rate(9.6e6, 1e6));
    /// assert!(mean > full / 7.0 && mean < full / 5.0, "{mean} {full}");
    /// ```
    pub fn stream_mean(&mut self, cells: f64, events: f64) -> f64 {
        let covered = self.covered_on_average(cells, events);
        self.over_distinct(|d| covered[d])
    }

    /// Returns the false-positive rate for a measured share of set cells. This is the rate at the load that follows
    /// from the fill.
    ///
    /// ```
    /// use firstseen_filter::rates::blocked::{BlockRates, fill};
    /// let mut rates = BlockRates::new(512, 7);
    /// let measured = rates.rate_from_fill(9.6e6, fill(512, 9.6e6, 7, 1e6));
    /// assert!((measured / rates.rate(9.6e6, 1e6) - 1.0).abs() < 1e-5);
    /// ```
    pub fn rate_from_fill(&mut self, cells: f64, fill: f64) -> f64 {
        let events = events_from_fill(self.block_cells, cells, self.hashes, fill);
        if events.is_finite() { self.rate(cells, events) } else { 1.0 }
    }

    /// Returns `sum over d of D(d) f(d)`.
    pub(super) fn over_distinct(&self, f: impl Fn(usize) -> f64) -> f64 {
        (1..=self.hashes as usize).map(|d| self.distinct[d] * f(d)).sum()
    }

    /// Returns for each d the probability that d given cells of a block are set after n events in m cells.
    pub(super) fn covered_by(&mut self, cells: f64, events: f64) -> ByDistinct {
        let columns = self.hashes as usize + 1;
        let full_load = (SATURATED * self.block_cells / u64::from(self.hashes)) as f64;
        let mut sums = ByDistinct::default();
        let total = for_each_load(events, (self.block_cells as f64 / cells).min(1.0), |load, weight| {
            let row = columns * load.min(full_load) as usize;
            while self.covered.len() <= row {
                self.throw_one_event();
            }
            for (sum, covered) in sums.iter_mut().zip(&self.covered[row..row + columns]) {
                *sum += weight * covered;
            }
        });
        sums.map(|sum| sum / total)
    }

    /// Returns the mean of [`Self::covered_by`] over a load that grows evenly from 0 to n.
    pub(super) fn covered_on_average(&mut self, cells: f64, events: f64) -> ByDistinct {
        let mut mean = ByDistinct::default();
        for (node, weight) in GAUSS {
            let covered = self.covered_by(cells, node * events);
            for (sum, covered) in mean.iter_mut().zip(covered) {
                *sum += weight * covered;
            }
        }
        mean
    }

    /// Appends the row of one further event, which is k further throws.
    fn throw_one_event(&mut self) {
        let columns = self.hashes as usize + 1;
        let start = self.covered.len();
        self.covered.extend_from_within(start - columns..);
        let row = &mut self.covered[start..];
        for _ in 0..self.hashes {
            for r in (1..columns).rev() {
                row[r] += r as f64 / self.block_cells as f64 * (row[r - 1] - row[r]);
            }
        }
    }
}

/// Returns the expected share of set cells: `1 - (1 - (B/m)(1 - (1 - 1/B)^k))^n`.
///
/// ```
/// use firstseen_filter::rates::{blocked, plain};
/// // One block is the plain filter; many blocks waste a few throws on repetitions inside a block.
/// assert!((blocked::fill(1000, 1000.0, 5, 100.0) - plain::fill(1000.0, 5, 100.0)).abs() < 1e-12);
/// assert!(blocked::fill(64, 1e6, 8, 1e5) < plain::fill(1e6, 8, 1e5));
/// ```
pub fn fill(block_cells: u64, cells: f64, hashes: u32, events: f64) -> f64 {
    if events <= 0.0 {
        return 0.0;
    }
    -(events * missed_ln(block_cells, cells, hashes)).exp_m1()
}

/// Returns the number of distinct events that causes a measured fill, by solving [`fill`] for n. The result is infinite
/// for a full filter.
pub fn events_from_fill(block_cells: u64, cells: f64, hashes: u32, fill: f64) -> f64 {
    (-fill).ln_1p() / missed_ln(block_cells, cells, hashes)
}

/// Returns the logarithm of the probability that one event does not touch a given cell.
fn missed_ln(block_cells: u64, cells: f64, hashes: u32) -> f64 {
    (-(block_cells as f64 / cells).min(1.0) * hit_in_block(block_cells, hashes)).ln_1p()
}

/// Returns the probability that one event in a block touches a given cell of it.
fn hit_in_block(block_cells: u64, hashes: u32) -> f64 {
    -(f64::from(hashes) * (-1.0 / block_cells as f64).ln_1p()).exp_m1()
}

/// Returns a lower bound of the number of blocks that keeps the rate at or below P. For the bound, all blocks are
/// assumed to be equally full. Their share of set cells must then be at most `P^(1/k)`. Real blocks fill unevenly, and
/// this can only raise the rate, because `E[(X/B)^k] >= E[X/B]^k`. A smaller number of blocks than the bound is
/// therefore never enough.
pub(super) fn blocks_at_least(block_cells: u64, events: f64, rate: f64, hashes: u32) -> u64 {
    let hit_by_event = -((-rate.powf(1.0 / f64::from(hashes))).ln_1p() / events).exp_m1();
    (hit_in_block(block_cells, hashes) / hit_by_event) as u64
}

/// Returns the smallest size, in whole blocks, for n events at rate P with the given number of positions.
///
/// # Errors
/// Returns [`SizingError`] if there are no events, if the rate is outside (0, 1), or if more than 2^40 cells are
/// needed.
///
/// # Panics
/// Panics in the same cases as [`BlockRates::new`].
pub fn size_with(block_cells: u64, events: f64, rate: f64, hashes: u32) -> Result<Size, SizingError> {
    SizingError::check(events, rate)?;
    let mut rates = BlockRates::new(block_cells, hashes);
    let start = blocks_at_least(block_cells, events, rate, hashes);
    let blocks =
        least_count(start, CELLS_MAX / block_cells, rate, |blocks| rates.rate((blocks * block_cells) as f64, events))
            .ok_or(SizingError::Cells { events, rate })?;
    let cells = blocks * block_cells;
    Ok(Size { events, cells, hashes, rate: rates.rate(cells as f64, events) })
}

/// Returns the smallest size that holds n events at rate P, and the number of positions that achieves it. The size is a
/// number of whole blocks of `block_cells` cells, which must be a power of two above 1. The number of positions is at
/// most [`Geometry::blocked_hashes_max`].
///
/// # Errors
/// Returns [`SizingError`] if there are no events, if the rate is outside (0, 1), or if more than 2^40 cells are
/// needed.
///
/// ```
/// use firstseen_filter::rates::{blocked, plain};
/// let size = blocked::size(512, 1e6, 0.01).unwrap();
/// assert!(size.rate <= 0.01 && size.cells % 512 == 0);
/// let more = size.cells as f64 / plain::size(1e6, 0.01).unwrap().cells as f64;
/// assert!(more > 1.03 && more < 1.04, "{more}");
/// ```
pub fn size(block_cells: u64, events: f64, rate: f64) -> Result<Size, SizingError> {
    best_of(block_cells, |hashes| size_with(block_cells, events, rate, hashes))
}

/// Returns the smallest of the sizes that `size_with` returns for all possible numbers of positions.
pub(super) fn best_of(
    block_cells: u64,
    mut size_with: impl FnMut(u32) -> Result<Size, SizingError>,
) -> Result<Size, SizingError> {
    let mut best = size_with(1);
    for hashes in 2..=Geometry::blocked_hashes_max(block_cells) {
        let size = size_with(hashes);
        best = match (best, size) {
            (Ok(best), Ok(size)) if best.cells <= size.cells => Ok(best),
            (Ok(best), Err(_)) => Ok(best),
            (_, size) => size,
        };
    }
    best
}
