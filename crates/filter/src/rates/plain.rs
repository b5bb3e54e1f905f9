//! Rates of filters whose positions may lie anywhere: the classic and the partitioned layout.
//!
//! The functions are the formulas of the papers without rounding.
//!
//! This module does not depend on blocks.
//!
//! The formulas serve both the classic and the partitioned layout. In the partitioned layout, each of the k hash
//! functions has its own m/k cells (Metwally et al. 2005, section 5.2.1). An event then misses a given cell with the
//! probability `1 - k/m` instead of `(1 - 1/m)^k`. Both probabilities are equal up to terms of order k/m, so the
//! expected rates are the same.

use super::{Size, SizingError, mean::over_stream};
use crate::geometry::{CELLS_MAX, HASHES_MAX};

/// Returns the expected share of set cells: `1 - (1 - 1/m)^(kn)` (Metwally et al. 2005, section 2; Koloniari et al.
/// 2011, section 2).
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

/// Returns the false-positive rate of a filter with m cells and k positions per event after n events: `(1 - (1 -
/// 1/m)^(kn))^k` (Metwally et al. 2005, section 2; Koloniari et al. 2011, equation 1).
///
/// The formula is an approximation. It assumes that the k positions of a query are different cells, and replaces the
/// fill by its mean. Its error is of the order `k^2/m`. For a filter of a few hundred cells, use
/// [`super::blocked::BlockRates`] with one block.
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

/// Returns the mean false-positive rate over a stream of n distinct events that fill the filter from empty: `(1/n) sum
/// over i in 0..n of (1 - (1 - 1/m)^(ki))^k`. If the full filter has the rate P, the result is about P/4 for k = 4 and
/// P/8 for k = 10.
///
/// Metwally et al. 2005, section 6, compare rates that they measure over a whole stream with the rate 2^-k of a full
/// filter. The measured rates are lower, because their filter is empty at the start of the stream. This function
/// returns the mean over the whole stream, and agrees with their measurements.
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

/// Returns the mean false-positive rate while the load of the filter grows from one number of events to another, for
/// example between two jumps of a counting filter. [`stream_mean`] is the same mean for a filter that starts empty.
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

/// Returns the number of positions with the lowest rate, without rounding: `ln 2 * m/n` (Koloniari et al. 2011, section
/// 2).
///
/// ```
/// use firstseen_filter::rates::plain;
/// assert!((plain::best_hashes(9.6e6, 1e6) - 6.654).abs() < 1e-3);
/// ```
pub fn best_hashes(cells: f64, events: f64) -> f64 {
    std::f64::consts::LN_2 * cells / events
}

/// Returns the number of cells with which a filter of k positions per event holds n events at rate P, without rounding
/// to an integer: `-kn / ln(1 - P^(1/k))`. The formula is that of Koloniari et al. 2011, section 5, solved for m.
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

/// Returns the smallest number of cells, rounded up, for n events at rate P with the given number of positions.
///
/// # Errors
/// Returns [`SizingError`] if there are no events, if the rate is outside (0, 1), or if more than 2^40 cells are
/// needed.
pub fn size_with(events: f64, rate: f64, hashes: u32) -> Result<Size, SizingError> {
    SizingError::check(events, rate)?;
    let mut cells = cells(events, rate, hashes).ceil();
    // The result of the asymptotic formula is slightly too small, which matters in filters of a few cells.
    while self::rate(cells, hashes, events) > rate {
        cells += (cells * 1e-9).ceil();
    }
    if cells > CELLS_MAX as f64 {
        return Err(SizingError::Cells { events, rate });
    }
    Ok(Size { events, cells: cells as u64, hashes, rate: self::rate(cells, hashes, events) })
}

/// Returns the smallest number of cells for n events at rate P, and the number of positions in `1..=16` that achieves
/// it.
///
/// # Errors
/// Returns [`SizingError`] if there are no events, if the rate is outside (0, 1), or if more than 2^40 cells are
/// needed.
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

/// Returns the number of positions with which n events at rate P need the fewest cells.
pub(super) fn least_hashes(events: f64, rate: f64) -> u32 {
    let mut best = 1;
    for hashes in 2..=HASHES_MAX {
        if cells(events, rate, hashes) < cells(events, rate, best) {
            best = hashes;
        }
    }
    best
}

/// Returns the false-positive rate of a filter with a measured share of set cells: `p^k`.
///
/// ```
/// use firstseen_filter::rates::plain;
/// assert_eq!(plain::rate_from_fill(2, 0.5), 0.25);
/// ```
pub fn rate_from_fill(hashes: u32, fill: f64) -> f64 {
    fill.powi(hashes as i32)
}

/// Returns the number of distinct events that causes the measured fill p: `ln(1 - p) / (k ln(1 - 1/m))`, which is about
/// `-(m/k) ln(1 - p)`. Koloniari et al. 2011, section 5, estimate the number of recorded events with this formula. The
/// result is infinite for a full filter.
///
/// ```
/// use firstseen_filter::rates::plain;
/// let fill = plain::fill(1e6, 7, 1e5);
/// assert!((plain::events_from_fill(1e6, 7, fill) - 1e5).abs() < 1e-3);
/// ```
pub fn events_from_fill(cells: f64, hashes: u32, fill: f64) -> f64 {
    (-fill).ln_1p() / (f64::from(hashes) * (-1.0 / cells).ln_1p())
}
