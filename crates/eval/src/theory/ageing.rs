//! The age-partitioned Bloom filter (Shtul, Baquero, Almeida, "Age-Partitioned Bloom Filters", arXiv 2001.03147), a rival
//! that is not built here.
//!
//! Promises: what follows from the definition of that filter. Must not know: filters, streams.
//!
//! A filter of k + l slices sets a bit for an event in each of its k youngest. After g events the oldest slice is
//! emptied and becomes the youngest, and all others become older by one. So the bits of an event lie in k slices side by
//! side for at least l such steps, and an event is a duplicate where k slices side by side have its bits: W = l g. A
//! slice takes events in for k steps and is then half full, so it has `m = k g / ln 2` bits.

use std::f64::consts::LN_2;

/// Most slices that take events in.
const FILLING_MAX: usize = 80;
/// Most slices that only keep them: a lookup may have to read all slices.
const KEEPING_MAX: usize = 200;

/// The sizes of such a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgePartitioned {
    /// Slices that take events in (k).
    pub filling: usize,
    /// Slices that only keep them (l).
    pub keeping: usize,
}

impl AgePartitioned {
    /// Bits an event of the window: `(k + l) m / (l g) = (1 + k/l) k / ln 2`.
    pub fn bits(self) -> f64 {
        let [filling, keeping] = [self.filling, self.keeping].map(|slices| slices as f64);
        (1.0 + filling / keeping) * filling / LN_2
    }

    /// The chance that a new event meets k slices side by side that have its bits, just before a step.
    ///
    /// Slice i has then taken events in for `min(i + 1, k)` steps, so the share of its bits that is set is
    /// `r_i = 1 - 2^(-min(i + 1, k) / k)`. After a slice that lacks its bit the next k have to have it: with F(a, i) the
    /// chance when a slices before slice i had theirs, `F(k, i) = 1`, `F(a, k + l) = 0` and
    /// `F(a, i) = r_i F(a + 1, i + 1) + (1 - r_i) F(0, i + 1)`.
    ///
    /// ```
    /// use firstseen_eval::theory::AgePartitioned;
    /// // The example of its Redis module: 100,000 events at 1e-4 in 420,608 bytes, with k = 18 and l = 63.
    /// let documented = AgePartitioned { filling: 18, keeping: 63 };
    /// assert!((documented.rate() / 1e-4 - 1.0).abs() < 0.01, "{}", documented.rate());
    /// assert!((documented.bits() / (8.0 * 4.20608) - 1.0).abs() < 0.01);
    /// ```
    pub fn rate(self) -> f64 {
        let Self { filling, keeping } = self;
        let mut chances = vec![0.0; filling + 1];
        chances[filling] = 1.0;
        for slice in (0..filling + keeping).rev() {
            let set = 1.0 - 0.5f64.powf((slice + 1).min(filling) as f64 / filling as f64);
            let again = chances[0];
            for met in 0..filling {
                chances[met] = set * chances[met + 1] + (1.0 - set) * again;
            }
        }
        chances[0]
    }

    /// The filter that keeps `rate`, and an event for at most W/`keeping` too long.
    ///
    /// ```
    /// use firstseen_eval::theory::AgePartitioned;
    /// let same = AgePartitioned::with_edge(0.005, 22).unwrap();
    /// assert!((same.filling, same.keeping) == (11, 22) && (same.bits() - 23.8).abs() < 0.01);
    /// ```
    pub fn with_edge(rate: f64, keeping: usize) -> Option<Self> {
        (1..=FILLING_MAX).map(|filling| Self { filling, keeping }).find(|slices| slices.rate() <= rate)
    }

    /// The filter with the fewest bits that keeps `rate`.
    ///
    /// ```
    /// use firstseen_eval::theory::AgePartitioned;
    /// let least = AgePartitioned::least(0.005).unwrap();
    /// assert!(least.rate() <= 0.005 && least.bits() < AgePartitioned::with_edge(0.005, 22).unwrap().bits());
    /// assert_eq!(AgePartitioned::least(0.0), None);
    /// ```
    pub fn least(rate: f64) -> Option<Self> {
        // The rate rises with l and the bits fall, so of each k the greatest l that keeps the rate is best.
        let best = (1..=FILLING_MAX).filter_map(|filling| {
            let all: Vec<_> = (1..=KEEPING_MAX).map(|keeping| Self { filling, keeping }).collect();
            all[..all.partition_point(|slices| slices.rate() <= rate)].last().copied()
        });
        best.min_by(|one, other| one.bits().total_cmp(&other.bits()))
    }
}
