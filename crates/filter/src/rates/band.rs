//! Intervals that tell whether a measured count is plausible for a given probability.
//!
//! The binomial quantiles are exact for every probability.
//!
//! This module does not depend on what was counted.

use std::ops::RangeInclusive;

use super::mean::walk;

/// Returns the range in which the number of successes lies with the given confidence, out of `trials` trials that each
/// succeed with the probability `p`. The count is below the range with the probability `(1 - confidence) / 2`, and
/// above the range with the same probability. The result is exact, because the function adds up the binomial terms. The
/// time is proportional to the standard deviation.
///
/// ```
/// use firstseen_filter::rates::band;
/// assert_eq!(band::binomial(0.5, 1000, 0.95), 469..=531);
/// assert!(!band::binomial(0.01, 1_000_000, 0.999).contains(&10_400));
/// assert_eq!(band::binomial(0.01, 100, 0.999), 0..=6);
/// assert_eq!(band::binomial(0.0, 10, 0.999), 0..=0);
/// ```
pub fn binomial(p: f64, trials: u64, confidence: f64) -> RangeInclusive<u64> {
    let count = trials as f64;
    let p = p.clamp(0.0, 1.0);
    if p == 0.0 || p == 1.0 {
        let certain = if p == 0.0 { 0 } else { trials };
        return certain..=certain;
    }
    let mode = ((count + 1.0) * p).floor().min(count);
    let mut below = 0.0;
    let total = walk(count, p, |hits, weight| {
        if hits < mode {
            below += weight
        }
    });
    let tail = (1.0 - confidence) / 2.0 * total;
    let mut above = total - below;
    let mut least = mode;
    let mut most = mode;
    // The walk goes up from the mode and then down from it. Each side excludes terms until only its tail is left.
    walk(count, p, |hits, weight| {
        if hits >= mode && above > tail {
            above -= weight;
            most = hits;
        } else if hits < mode && below > tail {
            below -= weight;
            least = hits;
        }
    });
    least as u64..=most as u64
}
