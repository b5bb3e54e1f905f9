//! Rates of timing filters. A timing filter is a plain or blocked filter whose events leave one by one.
//!
//! The formulas give the number of live events, and the false-positive rate that follows from it. A timer that has
//! expired does not count as a live cell, even if it has not been cleared yet.
//!
//! This module does not depend on how the filter stores and clears timers.
//!
//! The rates of [`plain`] and [`blocked`] at [`live_events`] are upper bounds for a timing filter. The bounds are exact
//! if duplicates refresh their timers. Under the `fixed` rule, only events that are called distinct set timers. False
//! positives then set none, so the filter is slightly emptier than the bound assumes: at a rate of 1 %, measured rates
//! are 2 to 3 % below the bound. [`delivered_classic`] and [`delivered_blocked`] take this into account and return the
//! measured rates.
//!
//! [`delivered_classic`] and [`delivered_blocked`] are derived from the life of a single cell, which events hit `mu`
//! times per window. If the cell is empty, the next event sets it, because an event with an empty cell is always
//! recorded. While the cell is alive, its events are taken for duplicates with the probability `q = rate / fill`. The
//! cell is therefore set again `mu' = mu (1 - q)` times per window.
//!
//! The fill of the filter is the share of time in which a cell is alive. A cell stays alive until a whole window passes
//! in which no event sets it, which takes `A = (e^mu' - 1) / mu'` windows on average. Afterwards the cell is empty
//! until the next event hits it, which takes `1 / mu` windows on average. The fill is therefore `A / (A + 1/mu)`. In
//! the special case q = 0, in which no event is taken for a duplicate, the fill is `1 - e^-mu`.

use super::{
    Size, SizingError,
    blocked::{self, BlockRates},
    plain, turning_point,
};

/// Returns the maximum number of live events if a window holds n events: `n (1 + extra / ticks)`.
///
/// The window has `window_ticks` ticks, and the filter keeps events for up to `extra_ticks` ticks longer. A timer lives
/// for a whole number of ticks. An event may arrive at the end of its tick and must still be remembered for the full
/// window, so a timer lives for one tick more than the window has.
///
/// To get the false-positive rates of a timing filter, pass this number of events to the functions of [`plain`] and
/// [`blocked`]. Koloniari et al. 2011, section 4, state that the rate is "the same as that of the original filter".
///
/// ```
/// use firstseen_filter::rates::timing;
/// assert_eq!(timing::live_events(1e6, 100.0, 1.0), 1.01e6);
/// ```
pub fn live_events(events: f64, window_ticks: f64, extra_ticks: f64) -> f64 {
    events * (1.0 + extra_ticks / window_ticks)
}

/// Returns the false-positive rate that is measured in a classic layout of m timers, if `live` events arrive during the
/// life of a timer. Only the events that the filter calls distinct set timers.
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

/// Returns the false-positive rate that is measured in a blocked layout, like [`delivered_classic`]. The formula
/// assumes that the share q of events that are called duplicates is equal in all blocks. At a rate of 1 %, this
/// assumption causes an error of at most 0.5 % of the rate.
pub fn delivered_blocked(rates: &mut BlockRates, cells: f64, live: f64) -> f64 {
    let block_cells = rates.block_cells();
    let hashes = rates.hashes();
    let set = set_events(live, |set| blocked::fill(block_cells, cells, hashes, set), |set| rates.rate(cells, set));
    rates.rate(cells, set)
}

/// Returns the number of events whose fill equals that of `arrivals` if false positives set nothing.
fn set_events(arrivals: f64, fill: impl Fn(f64) -> f64, mut rate: impl FnMut(f64) -> f64) -> f64 {
    let hits = -(-fill(arrivals)).ln_1p();
    turning_point(arrivals, |set| {
        let fill = fill(set);
        let hits_set = hits * (1.0 - rate(set) / fill);
        let alive = hits_set.exp_m1() / hits_set;
        fill - alive / (alive + 1.0 / hits)
    })
}

/// Returns the smallest classic layout of timers for n events per window at rate P.
///
/// # Errors
/// Returns [`SizingError`] if there are no events, if the rate is outside (0, 1), or if more than 2^40 cells are
/// needed.
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

/// Returns the smallest layout of timers for n events per window at rate P, in whole blocks of `block_cells` cells.
///
/// # Errors
/// Returns [`SizingError`] if there are no events, if the rate is outside (0, 1), or if more than 2^40 cells are
/// needed.
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

/// Returns the probability that a key that was never seen finds k equal timers. In this case the equal-timers heuristic
/// wrongly confirms a duplicate. The probability is about `n (k/m)^k` for n events in the window, multiplied by the
/// share of timers that no later event has raised (Koloniari et al. 2011, section 4, where the factor n is missing).
///
/// ```
/// use firstseen_filter::rates::timing;
/// assert!((timing::equal_timers(1e6, 4, 1e5) - 1e5 * (4e-6f64).powi(4)).abs() < 1e-30);
/// ```
pub fn equal_timers(cells: f64, hashes: u32, events: f64) -> f64 {
    events * (f64::from(hashes) / cells).powi(hashes as i32)
}
