//! Formulas for the age-partitioned Bloom filter (Shtul, Baquero, Almeida, "Age-Partitioned Bloom Filters", arXiv
//! 2001.03147). This project does not implement that filter. The formulas serve to compare its memory with that of
//! other filters.
//!
//! An age-partitioned filter consists of k + l slices, and sets one bit for an event in each of its k youngest slices.
//! After g events, the oldest slice is cleared and becomes the youngest, and all other slices age by one step. An event
//! is a duplicate if its bits are set in k adjacent slices.
//!
//! The bits of a recorded event stay in k adjacent slices for at least l steps, so the window is W = l g. A slice
//! receives events for k steps and is then half full, so it has `m = k g / ln 2` bits.
//!
//! The formulas follow from this definition.
//!
//! This module does not depend on filters or streams.

use std::f64::consts::LN_2;

/// Maximum number of slices that receive events.
const FILLING_MAX: usize = 80;
/// Maximum number of slices that only keep events. The number is limited because a lookup may have to read all slices.
const KEEPING_MAX: usize = 200;

/// Sizes of an age-partitioned Bloom filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgePartitioned {
    /// Number of slices that receive events (k).
    pub filling: usize,
    /// Number of slices that only keep events (l).
    pub keeping: usize,
}

impl AgePartitioned {
    /// Returns the bits per event of the window: `(k + l) m / (l g) = (1 + k/l) k / ln 2`.
    pub fn bits(self) -> f64 {
        let [filling, keeping] = [self.filling, self.keeping].map(|slices| slices as f64);
        (1.0 + filling / keeping) * filling / LN_2
    }

    /// Returns the probability that a new event finds k adjacent slices that have its bits, just before a step.
    ///
    /// The function computes the rate just before a step, because slices are fullest then. Slices are counted from the
    /// youngest, which is slice 0. Slice i has received events for `min(i + 1, k)` steps by then, so the share of its
    /// set bits is `r_i = 1 - 2^(-min(i + 1, k) / k)`.
    ///
    /// A query succeeds if k adjacent slices have all bits of the event. Let F(a, i) be the probability of success if
    /// the search has come to slice i, and the a slices just before it had the bits. The search is successful after k
    /// such slices, so `F(k, i) = 1`. It has failed after the last slice, so `F(a, k + l) = 0`. In all other cases,
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

    /// Returns the filter that achieves `rate` and keeps an event for at most W/`keeping` too long.
    ///
    /// ```
    /// use firstseen_eval::theory::AgePartitioned;
    /// let same = AgePartitioned::with_edge(0.005, 22).unwrap();
    /// assert!((same.filling, same.keeping) == (11, 22) && (same.bits() - 23.8).abs() < 0.01);
    /// ```
    pub fn with_edge(rate: f64, keeping: usize) -> Option<Self> {
        (1..=FILLING_MAX).map(|filling| Self { filling, keeping }).find(|slices| slices.rate() <= rate)
    }

    /// Returns the filter with the fewest bits that achieves `rate`.
    ///
    /// ```
    /// use firstseen_eval::theory::AgePartitioned;
    /// let least = AgePartitioned::least(0.005).unwrap();
    /// assert!(least.rate() <= 0.005 && least.bits() < AgePartitioned::with_edge(0.005, 22).unwrap().bits());
    /// assert_eq!(AgePartitioned::least(0.0), None);
    /// ```
    pub fn least(rate: f64) -> Option<Self> {
        // The rate increases with l and the number of bits decreases. For each k, the greatest l that achieves the rate
        // is therefore best.
        let best = (1..=FILLING_MAX).filter_map(|filling| {
            let all: Vec<_> = (1..=KEEPING_MAX).map(|keeping| Self { filling, keeping }).collect();
            all[..all.partition_point(|slices| slices.rate() <= rate)].last().copied()
        });
        best.min_by(|one, other| one.bits().total_cmp(&other.bits()))
    }
}
