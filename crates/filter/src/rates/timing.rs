//! Timers: a plain or blocked filter whose events leave one by one.
//!
//! Promises: formulas for the number of live events, and for the rate that follows from it. Must not know: wheels,
//! sweeps (an expired timer that still stands in memory is no live cell).
//!
//! The rates of [`plain`] and [`blocked`] at [`live_events`] are bounds, and exact where duplicates refresh their
//! timers. Under the `fixed` rule a false positive sets nothing, which a measurement shows: 2 to 3 % below the bound at
//! a rate of 1 %. [`delivered_classic`] and [`delivered_blocked`] follow one cell. Events hit it `mu` times a window.
//! While it is empty, the next of them sets it: no event is refused whose cell is empty. While the cell is alive, its
//! events are refused with chance `q = rate / fill`, so it is set again `mu' = mu (1 - q)` times a window, and it stays
//! alive until a whole window passes without: `(e^mu' - 1) / mu'` windows on average, then `1 / mu` windows empty. So
//! `fill = A / (A + 1/mu)` with `A = (e^mu' - 1) / mu'`, which is `1 - e^-mu` for q = 0.

use super::{
    Size, SizingError,
    blocked::{self, BlockRates},
    plain, turning_point,
};

/// The most events that are alive at once when a window holds n: `n (1 + extra / ticks)`.
///
/// A timer lives for whole ticks, one more than the window has, so that no part of the window is lost: a window of
/// `window_ticks` ticks keeps events for up to `extra_ticks` ticks longer. All rates of a timing filter are those of
/// [`plain`] and [`blocked`] at this number of events (K11 4: "the same as that of the original filter").
///
/// ```
/// use firstseen_filter::rates::timing;
/// assert_eq!(timing::live_events(1e6, 100.0, 1.0), 1.01e6);
/// ```
pub fn live_events(events: f64, window_ticks: f64, extra_ticks: f64) -> f64 {
    events * (1.0 + extra_ticks / window_ticks)
}

/// The rate that a measurement finds in a classic layout of m timers when `live` events arrive in a timer's life and
/// only those called distinct are set.
///
/// ```
/// use firstseen_filter::rates::{plain, timing};
/// let (bound, measured) = (plain::rate(9.6e6, 7, 1e6), timing::delivered_classic(9.6e6, 7, 1e6));
/// assert!((measured / bound - 0.974).abs() < 0.001, "{measured} {bound}");
/// ```
pub fn delivered_classic(cells: f64, hashes: u32, live: f64) -> f64 {
    let set = set_events(live, |set| plain::fill(cells, hashes, set), |set| plain::rate(cells, hashes, set));
    plain::rate(cells, hashes, set)
}

/// As [`delivered_classic`] in a blocked layout. It takes q as the same in all blocks: right within 0.5 % of a rate of
/// 1 %.
pub fn delivered_blocked(rates: &mut BlockRates, cells: f64, live: f64) -> f64 {
    let block_cells = rates.block_cells();
    let hashes = rates.hashes();
    let set = set_events(live, |set| blocked::fill(block_cells, cells, hashes, set), |set| rates.rate(cells, set));
    rates.rate(cells, set)
}

/// The events whose fill is that of `arrivals` when false positives set nothing.
fn set_events(arrivals: f64, fill: impl Fn(f64) -> f64, mut rate: impl FnMut(f64) -> f64) -> f64 {
    let hits = -(-fill(arrivals)).ln_1p();
    turning_point(arrivals, |set| {
        let fill = fill(set);
        let hits_set = hits * (1.0 - rate(set) / fill);
        let alive = hits_set.exp_m1() / hits_set;
        fill - alive / (alive + 1.0 / hits)
    })
}

/// The least timers of a classic layout for n events a window at rate P.
///
/// # Errors
/// [`SizingError`]: no events, a rate outside (0, 1), or more cells than 2^40.
///
/// ```
/// use firstseen_filter::rates::{plain, timing};
/// let size = timing::size_classic(1e6, 120.0, 1.0, 0.01).unwrap();
/// // At most 3 % more cells than the events of one window need.
/// assert!((size.cells as f64 / plain::cells(1e6, 0.01, size.hashes) - 1.0 - 1.0 / 120.0).abs() < 1e-4);
/// assert_eq!(size.events, 1e6);
/// ```
pub fn size_classic(events: f64, window_ticks: f64, extra_ticks: f64, rate: f64) -> Result<Size, SizingError> {
    let size = plain::size(live_events(events, window_ticks, extra_ticks), rate)?;
    Ok(Size { events, ..size })
}

/// The least timers, in whole blocks of `block_cells`, for n events a window at rate P.
///
/// # Errors
/// [`SizingError`]: no events, a rate outside (0, 1), or more cells than 2^40.
///
/// ```
/// use firstseen_filter::rates::timing;
/// let size = timing::size_blocked(128, 1e6, 120.0, 1.0, 0.01).unwrap();
/// assert!(size.rate <= 0.01 && size.cells % 128 == 0);
/// ```
pub fn size_blocked(
    block_cells: u64,
    events: f64,
    window_ticks: f64,
    extra_ticks: f64,
    rate: f64,
) -> Result<Size, SizingError> {
    let size = blocked::size(block_cells, live_events(events, window_ticks, extra_ticks), rate)?;
    Ok(Size { events, ..size })
}

/// The chance that a key that was never seen meets k equal timers, by which the equal-timers heuristic errs:
/// about `n (k/m)^k`, times the share of timers that no later event has raised (K11 4; the factor n is missing there).
///
/// ```
/// use firstseen_filter::rates::timing;
/// assert!((timing::equal_timers(1e6, 4, 1e5) - 1e5 * (4e-6f64).powi(4)).abs() < 1e-30);
/// ```
pub fn equal_timers(cells: f64, hashes: u32, events: f64) -> f64 {
    events * (f64::from(hashes) / cells).powi(hashes as i32)
}
