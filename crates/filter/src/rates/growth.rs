//! Formulas for filters that grow by whole generations: when a generation is full, and the rate of several generations
//! together.
//!
//! All functions are pure formulas of Koloniari et al. 2011, section 5.
//!
//! This module does not depend on when a generation is dropped.

/// Returns the number of set cells at which a generation of m cells has reached the false-positive rate P: `m P^(1/k)`.
/// This number is the limit by density in Koloniari et al. 2011, section 5.
///
/// ```
/// use firstseen_filter::rates::growth;
/// assert!((growth::density_limit(1000.0, 2, 0.25) - 500.0).abs() < 1e-9);
/// ```
pub fn density_limit(cells: f64, hashes: u32, rate: f64) -> f64 {
    cells * rate.powf(1.0 / f64::from(hashes))
}

/// Returns the false-positive rate of a filter with L live generations that each have the rate P: `1 - (1 - P)^L`
/// (Koloniari et al. 2011, section 5). According to the formula, an event that is in no generation is called a
/// duplicate if at least one generation has all cells of the event set. Cells that are set in different generations do
/// not add up to a duplicate.
///
/// ```
/// use firstseen_filter::rates::growth;
/// assert!((growth::live_rate(0.05, 3.0) - 0.142_625).abs() < 1e-12);
/// ```
pub fn live_rate(rate: f64, generations: f64) -> f64 {
    -(generations * (-rate).ln_1p()).exp_m1()
}

/// Returns the rate that each of L generations must have so that their [`live_rate`] is P: `1 - (1 - P)^(1/L)`.
///
/// ```
/// use firstseen_filter::rates::growth;
/// assert!((growth::live_rate(growth::generation_rate(0.01, 8.0), 8.0) - 0.01).abs() < 1e-15);
/// ```
pub fn generation_rate(rate: f64, generations: f64) -> f64 {
    -((-rate).ln_1p() / generations).exp_m1()
}

/// Returns the rate for which generation `index` (from 0) must be sized in a filter that grows without end, so that the
/// rates of all generations sum up to P. The rate is `P (1 - r) r^index`, for a ratio r in (0, 1) (Almeida, Baquero,
/// Preguica, Hutchison, "Scalable Bloom Filters", 2007, section 4).
///
/// ```
/// use firstseen_filter::rates::growth;
/// let sum: f64 = (0..200).map(|index| growth::tightened(0.01, 0.9, index)).sum();
/// assert!((sum - 0.01).abs() < 1e-10);
/// assert_eq!(growth::tightened(0.01, 0.5, 0), 0.005);
/// ```
pub fn tightened(rate: f64, ratio: f64, index: u32) -> f64 {
    rate * (1.0 - ratio) * ratio.powi(index as i32)
}
