//! The stable filter: a rate that does not grow with the stream.
//!
//! Promises: the stable point, exact for a stream of distinct events and a bound with repeats. Must not know: how the
//! decremented cells are chosen.
//!
//! Source: Deng, Rafiei, "Approximately Detecting Duplicates for Streaming Data using Stable Bloom Filters", 2006,
//! theorem 2 and its inverse. Here K positions an event, P decrements an event, Max the value that is set.

/// The rate at the stable point: `(1 - (1 / (1 + 1 / (P (1/K - 1/m))))^Max)^K`. P may be a mean over events: a cell is
/// decremented with chance P/m by each, and only that chance counts.
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

/// The decrements an event that keep the stable rate at `rate`, unrounded:
/// `P = 1 / ((1 / (1 - rate^(1/K))^(1/Max) - 1) (1/K - 1/m))`.
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

/// Whole decrements whose mean is a broken number: `low` an event, and one more with chance `one_more`. Rounding
/// instead moves the rate, as in the doc of [`rate`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WholeDecrements {
    /// Decrements of every event.
    pub low: u32,
    /// Share of the events that make one more.
    pub one_more: f64,
}

impl WholeDecrements {
    /// The mix whose mean is `decrements`.
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

    /// Decrements an event, on average: what [`rate`] takes.
    pub fn mean(&self) -> f64 {
        f64::from(self.low) + self.one_more
    }
}
