//! Filters whose positions may lie anywhere: the classical and the partitioned layout.
//!
//! Promises: the formulas of the papers, unrounded. Must not know: blocks.
//!
//! M05 5.2.1 gives each of the k hash functions m/k cells of its own; a cell is then missed by one event with chance
//! `1 - k/m` instead of `(1 - 1/m)^k`: the same expectation up to terms of order k/m. Both layouts use this module.

use super::{Size, SizingError, mean::over_stream};
use crate::geometry::{CELLS_MAX, HASHES_MAX};

/// The expected share of set cells: `1 - (1 - 1/m)^(kn)` (M05 2, K11 2).
///
/// ```
/// use firstseen_filter::rates::plain;
/// assert_eq!(plain::fill(2.0, 1, 1.0), 0.5);
/// assert!((plain::fill(1e6, 7, 1e5) - 0.503_415).abs() < 1e-6);
/// ```
pub fn fill(cells: f64, hashes: u32, events: f64) -> f64 {
    if events <= 0.0 {
        return 0.0;
    }
    -(f64::from(hashes) * events * (-1.0 / cells).ln_1p()).exp_m1()
}

/// The rate after n events: `(1 - (1 - 1/m)^(kn))^k` (M05 2, K11 eq. 1).
///
/// Its exponent takes the k positions of the query as different cells and the fill as its mean, which is exact to
/// terms of order `k^2/m`. (For a filter of a few hundred cells see [`super::blocked::BlockRates`] with one block.)
///
/// ```
/// use firstseen_filter::rates::plain;
/// // M05's landmark filters, full: 2^-k.
/// for k in 4..=10 {
///     let rate = plain::rate(f64::from(k) * 1_442_695.0, k, 1e6);
///     assert!((rate * f64::from(1 << k) - 1.0).abs() < 1e-5);
/// }
/// ```
pub fn rate(cells: f64, hashes: u32, events: f64) -> f64 {
    rate_from_fill(hashes, fill(cells, hashes, events))
}

/// The mean rate over a stream of n distinct events that fill the filter from empty:
/// `(1/n) sum over i in 0..n of (1 - (1 - 1/m)^(ki))^k`, about P/4 for k = 4 and P/8 for k = 10.
///
/// M05 section 6 prints measured stream rates beside the full filter's 2^-k; this is the rate that they measured.
///
/// ```
/// use firstseen_filter::rates::plain;
/// // M05 6.1, "practical", a million events, k = 4 and k = 5: 1.55e-2 and 6.67e-3.
/// assert!((plain::stream_mean(4.0 * 1_442_695.0, 4, 1e6) - 1.55e-2).abs() < 4e-4);
/// assert!((plain::stream_mean(5.0 * 1_442_695.0, 5, 1e6) - 6.67e-3).abs() < 2.6e-4);
/// ```
pub fn stream_mean(cells: f64, hashes: u32, events: f64) -> f64 {
    mean_between(cells, hashes, 0.0, events)
}

/// As [`stream_mean`], while the filter's load grows from one number of events to another: between two jumps of a
/// counting filter, say.
///
/// ```
/// use firstseen_filter::rates::plain;
/// // M05 6.2: windows of 200,000 in four sub-windows. A filter that has been jumping for a while holds 150,000 to
/// // 200,000 events and lies 2.8 (k = 4) to 3.7 (k = 10) times as often as one that is filled from empty.
/// for (k, ratio) in [(4, 2.8), (10, 3.7)] {
///     let cells = f64::from(k) * 288_539.0;
///     let jumping = plain::mean_between(cells, k, 150_000.0, 200_000.0);
///     assert!((jumping / plain::stream_mean(cells, k, 200_000.0) - ratio).abs() < 0.05);
/// }
/// ```
pub fn mean_between(cells: f64, hashes: u32, events_from: f64, events_to: f64) -> f64 {
    over_stream(events_from, events_to, |before| rate(cells, hashes, before))
}

/// The number of positions with the least rate, unrounded: `ln 2 * m/n` (K11 2).
///
/// ```
/// use firstseen_filter::rates::plain;
/// assert!((plain::best_hashes(9.6e6, 1e6) - 6.654).abs() < 1e-3);
/// ```
pub fn best_hashes(cells: f64, events: f64) -> f64 {
    std::f64::consts::LN_2 * cells / events
}

/// The cells that n events need at rate P with k positions, unrounded: `-kn / ln(1 - P^(1/k))` (K11 5, solved for m).
///
/// ```
/// use firstseen_filter::rates::plain;
/// let cells = plain::cells(1e6, 0.01, 7);
/// assert!((cells / 1e6 - 9.59).abs() < 0.01);
/// assert!((plain::rate(cells, 7, 1e6) - 0.01).abs() < 1e-6);
/// ```
pub fn cells(events: f64, rate: f64, hashes: u32) -> f64 {
    -f64::from(hashes) * events / (-rate.powf(1.0 / f64::from(hashes))).ln_1p()
}

/// The least cells, rounded up, for n events at rate P with the given number of positions.
///
/// # Errors
/// [`SizingError`]: no events, a rate outside (0, 1), or more cells than 2^40.
pub fn size_with(events: f64, rate: f64, hashes: u32) -> Result<Size, SizingError> {
    SizingError::check(events, rate)?;
    let mut cells = cells(events, rate, hashes).ceil();
    // The asymptotic formula is a hair below the exact one, which shows in filters of a few cells.
    while self::rate(cells, hashes, events) > rate {
        cells += (cells * 1e-9).ceil();
    }
    if cells > CELLS_MAX as f64 {
        return Err(SizingError::Cells { events, rate });
    }
    Ok(Size { events, cells: cells as u64, hashes, rate: self::rate(cells, hashes, events) })
}

/// The least cells for n events at rate P, and the number of positions in `1..=16` that needs them.
///
/// # Errors
/// [`SizingError`]: no events, a rate outside (0, 1), or more cells than 2^40.
///
/// ```
/// use firstseen_filter::rates::plain;
/// let size = plain::size(1e6, 0.01).unwrap();
/// assert_eq!((size.cells, size.hashes), (9_592_956, 7));
/// assert!(size.rate <= 0.01);
/// assert!(plain::size(1e6, 1.0).is_err() && plain::size(0.0, 0.5).is_err() && plain::size(1e12, 0.01).is_err());
/// ```
pub fn size(events: f64, rate: f64) -> Result<Size, SizingError> {
    SizingError::check(events, rate)?;
    size_with(events, rate, least_hashes(events, rate))
}

/// The number of positions with which n events at rate P need the fewest cells.
pub(super) fn least_hashes(events: f64, rate: f64) -> u32 {
    let mut best = 1;
    for hashes in 2..=HASHES_MAX {
        if cells(events, rate, hashes) < cells(events, rate, best) {
            best = hashes;
        }
    }
    best
}

/// The rate of a filter whose share of set cells was measured: `p^k`.
///
/// ```
/// use firstseen_filter::rates::plain;
/// assert_eq!(plain::rate_from_fill(2, 0.5), 0.25);
/// ```
pub fn rate_from_fill(hashes: u32, fill: f64) -> f64 {
    fill.powi(hashes as i32)
}

/// The number of distinct events behind a measured fill: `ln(1 - p) / (k ln(1 - 1/m))`, about `-(m/k) ln(1 - p)`
/// (K11 5, where it gives the limit by cardinality). Infinite for a full filter.
///
/// ```
/// use firstseen_filter::rates::plain;
/// let fill = plain::fill(1e6, 7, 1e5);
/// assert!((plain::events_from_fill(1e6, 7, fill) - 1e5).abs() < 1e-3);
/// ```
pub fn events_from_fill(cells: f64, hashes: u32, fill: f64) -> f64 {
    (-fill).ln_1p() / (f64::from(hashes) * (-1.0 / cells).ln_1p())
}
