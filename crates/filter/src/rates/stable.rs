//! Rates of the stable filter, whose false-positive rate does not grow with the stream.
//!
//! The formulas describe a stable filter after many arrivals, when its false-positive rate no longer changes (the
//! stable point). They are exact for a stream of distinct events, and an upper bound for a stream with repeats.
//!
//! This module does not depend on how the decremented cells are chosen.
//!
//! The source is Deng, Rafiei, "Approximately Detecting Duplicates for Streaming Data using Stable Bloom Filters",
//! 2006, theorem 2 and its inverse. In the formulas, K is the number of positions per event, P is the number of
//! decrements per event, and Max is the value to which cells are set.

/// Returns the false-positive rate at the stable point: `(1 - (1 / (1 + 1 / (P (1/K - 1/m))))^Max)^K`. The number of
/// decrements P may be a mean over events, because only the probability P/m matters with which an event decrements a
/// given cell.
///
/// ```
/// use firstseen_filter::rates::stable;
/// // P = 4 (rounded from 4.5), K = 4, Max = 1: 6.25 % where 5 % was asked for.
/// assert!((stable::rate(1e6, 4, 4.0, 1) - 0.0625).abs() < 1e-6);
/// ```
pub fn rate(cells: f64, hashes: u32, decrements: f64, max: u32) -> f64 {
    let per_set = decrements * (1.0 / f64::from(hashes) - 1.0 / cells);
    let zero = (1.0 / (1.0 + 1.0 / per_set)).powi(max as i32);
    (1.0 - zero).powi(hashes as i32)
}

/// Returns the number of decrements per event that keeps the stable rate at `rate`, without rounding to an integer. The
/// formula is `P = 1 / ((1 / (1 - rate^(1/K))^(1/Max) - 1) (1/K - 1/m))`.
///
/// ```
/// use firstseen_filter::rates::stable;
/// let decrements = stable::decrements(1e6, 4, 0.05, 1);
/// assert!((decrements - 4.459).abs() < 1e-3);
/// assert!((stable::rate(1e6, 4, decrements, 1) - 0.05).abs() < 1e-12);
/// ```
pub fn decrements(cells: f64, hashes: u32, rate: f64, max: u32) -> f64 {
    let zero = 1.0 - rate.powf(1.0 / f64::from(hashes));
    let odds = 1.0 / zero.powf(1.0 / f64::from(max)) - 1.0;
    1.0 / (odds * (1.0 / f64::from(hashes) - 1.0 / cells))
}

/// A mean number of decrements that need not be an integer, as a mixture of two integers. Every event causes `low`
/// decrements, and with the probability `one_more` it causes one more. The mean is not rounded to an integer, because
/// that would change the false-positive rate, as the documentation of [`rate`] shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WholeDecrements {
    /// Number of decrements of every event.
    pub low: u32,
    /// Share of the events that make one further decrement.
    pub one_more: f64,
}

impl WholeDecrements {
    /// Returns the mixture whose mean is `decrements`.
    ///
    /// ```
    /// use firstseen_filter::rates::stable::WholeDecrements;
    /// let mix = WholeDecrements::of(4.25);
    /// assert_eq!((mix.low, mix.one_more), (4, 0.25));
    /// assert_eq!(mix.mean(), 4.25);
    /// ```
    pub fn of(decrements: f64) -> Self {
        let low = decrements.floor();
        Self { low: low as u32, one_more: decrements - low }
    }

    /// Returns the mean number of decrements per event, as [`rate`] expects it.
    pub fn mean(&self) -> f64 {
        f64::from(self.low) + self.one_more
    }
}
