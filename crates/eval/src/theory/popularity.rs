//! Popularity of keys: the distributions from which streams are drawn, and a distribution that is fitted to a log.
//!
//! Shares refer to all events, and ranks count from 1.
//!
//! This module does not depend on streams or logs.

/// Returns the share of all events that belong to the key of rank r, if the popularity of n keys follows Zipf's law
/// with exponent s. The share is `r^-s / sum over i <= n of i^-s`. Koloniari et al. 2011, section 7, use s = 1.
///
/// ```
/// use firstseen_eval::theory::popularity::zipf_share;
/// assert!((zipf_share(2, 3, 1.0) - 0.5 / (1.0 + 1.0 / 2.0 + 1.0 / 3.0)).abs() < 1e-12);
/// ```
pub fn zipf_share(rank: u64, keys: u64, exponent: f64) -> f64 {
    (rank as f64).powf(-exponent) / (1..=keys).map(|rank| (rank as f64).powf(-exponent)).sum::<f64>()
}

/// Stream of new keys and repeats. Each repeat has one of the most recent new keys, all with the same probability.
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    /// Number of events in the stream (N).
    pub events: u64,
    /// Number of new keys among them (D), as drawn.
    pub distinct: u64,
    /// Number of the most recent new keys that can be repeated (R).
    pub recent_keys: u64,
}

impl Repeats {
    /// Returns the expected share of the r-th new key.
    ///
    /// The derivation assumes that the number D of different keys among the N events is known. The first event is
    /// always a new key. Apart from that, new keys and repeats are in random order, so on average `(N - D)/D` repeats
    /// follow each new key. When j keys have occurred, a repeat has one of the last `min(j, R)` keys. If the r-th key
    /// is one of them, the repeat has this key with the probability `1/min(j, R)`.
    ///
    /// The expected share is therefore `(1 + (N - D)/D sum over r <= j < r + R, j <= D of 1/min(j, R)) / N`.
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

/// Greatest exponent that can be fitted.
const EXPONENT_MAX: f64 = 10.0;

/// Returns the most likely exponent of Zipf's law for the given counts, which must be sorted with the most frequent key
/// first. For this exponent, two means are equal: the mean logarithm of the rank under Zipf's law, and that of the
/// counts (Clauset, Shalizi, Newman: Power-law distributions in empirical data. SIAM Review 2009, section 3.1). The
/// function finds the exponent by bisection, from 0 to 10.
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
