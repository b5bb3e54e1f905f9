//! How often each key comes: the laws that streams are drawn from, and one that is fitted to a log.
//!
//! Promises: shares are of all events; ranks count from 1. Must not know: streams, logs.

/// The share of the key of rank r among n keys by Zipf's law with exponent s: `r^-s / sum over i <= n of i^-s` (K11 7
/// has s = 1).
///
/// ```
/// use firstseen_eval::theory::popularity::zipf_share;
/// assert!((zipf_share(2, 3, 1.0) - 0.5 / (1.0 + 1.0 / 2.0 + 1.0 / 3.0)).abs() < 1e-12);
/// ```
pub fn zipf_share(rank: u64, keys: u64, exponent: f64) -> f64 {
    (rank as f64).powf(-exponent) / (1..=keys).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>()
}

/// A stream of new keys, and of repeats, each of which has one of the keys that were new last, all equally likely.
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    /// Events of the stream (N).
    pub events: u64,
    /// New keys among them (D), as they were drawn.
    pub distinct: u64,
    /// The number of these last keys (R).
    pub recent_keys: u64,
}

impl Repeats {
    /// The expected share of the r-th new key.
    ///
    /// Given D, any order of new events and repeats after the first event is as likely as any other, so between two new
    /// keys, and after the last, there are `(N - D)/D` repeats on average. Each of them while there are j keys is the
    /// r-th with chance `1/min(j, R)`, if that is still among the last R:
    /// `(1 + (N - D)/D sum over r <= j < r + R, j <= D of 1/min(j, R)) / N`.
    ///
    /// ```
    /// use firstseen_eval::theory::popularity::Repeats;
    /// let repeats = Repeats { events: 1000, distinct: 400, recent_keys: 50 };
    /// let all: f64 = (1..=400).map(|rank| repeats.share(rank)).sum();
    /// assert!((all - 1.0).abs() < 1e-9);
    /// ```
    pub fn share(self, rank: u64) -> f64 {
        let Self { events, distinct, recent_keys } = self;
        let last = distinct.min(rank.saturating_add(recent_keys - 1));
        let chances: f64 = (rank..=last).map(|keys| 1.0 / keys.min(recent_keys) as f64).sum();
        (1.0 + (events - distinct) as f64 / distinct as f64 * chances) / events as f64
    }
}

/// Greatest exponent that is fitted.
const EXPONENT_MAX: f64 = 10.0;

/// The exponent of Zipf's law among as many keys as there are counts, most frequent first, that makes them likeliest:
/// the one by which the mean logarithm of the rank is what it is in the counts (Clauset, Shalizi, Newman: Power-law
/// distributions in empirical data. SIAM Review 2009, section 3.1). Found by bisection, from 0 to 10.
///
/// ```
/// use firstseen_eval::theory::popularity::{fitted_exponent, zipf_share};
/// let counts: Vec<u64> = (1..=500).map(|rank| (1e7 * zipf_share(rank, 500, 0.8)) as u64).collect();
/// assert!((fitted_exponent(&counts) - 0.8).abs() < 1e-3);
/// ```
pub fn fitted_exponent(counts: &[u64]) -> f64 {
    let logs: Vec<f64> = (1..=counts.len()).map(|rank| (rank as f64).ln()).collect();
    let observed = weighted_mean(&logs, counts.iter().map(|count| *count as f64));
    let mut low = 0.0;
    let mut high = EXPONENT_MAX;
    for _ in 0..40 {
        let exponent = (low + high) / 2.0;
        let expected = weighted_mean(&logs, logs.iter().map(|log| (-exponent * log).exp()));
        if expected > observed { low = exponent } else { high = exponent }
    }
    (low + high) / 2.0
}

fn weighted_mean(values: &[f64], weights: impl Iterator<Item = f64>) -> f64 {
    let mut sum = 0.0;
    let mut all = 0.0;
    for (value, weight) in values.iter().zip(weights) {
        sum += weight * value;
        all += weight;
    }
    sum / all
}
