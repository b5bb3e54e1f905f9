//! How long batches took, in a form that can be read again: the histograms of Prometheus can only be shown.
//!
//! Promises: a batch is counted once, without a lock. Must not know: who asks how long batches take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Classes of durations: up to 0.1 ms, 0.2 ms and so on, and a last one for all that take longer than 52 s.
const CLASSES: usize = 21;

/// The upper end of the first class, in microseconds; each further class reaches twice as far.
const FIRST_US: u64 = 100;

/// Batches by the class of the time that they took.
#[derive(Clone, Default)]
pub(crate) struct LatencyCounts(Arc<[AtomicU64; CLASSES]>);

impl LatencyCounts {
    /// A batch took this long.
    pub(super) fn count(&self, elapsed_us: u64) {
        if let Some(count) = self.0.get(class(elapsed_us)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many batches each class has.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

fn class(elapsed_us: u64) -> usize {
    let firsts = elapsed_us.div_ceil(FIRST_US).max(1);
    (firsts.next_power_of_two().trailing_zeros() as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_reaches_twice_as_far() {
        let classes = [0, 1, 100, 101, 200, 201, 400, 401, 800, 1_600].map(class);
        assert_eq!(classes, [0, 0, 0, 1, 1, 2, 2, 3, 3, 4]);
        assert_eq!([52_428_800, 52_428_801, u64::MAX / 2].map(class), [19, 20, 20]);
        let counts = LatencyCounts::default();
        [50, 150, 160].into_iter().for_each(|elapsed_us| counts.count(elapsed_us));
        assert_eq!((counts.all()[..3].to_vec(), counts.all().len()), (vec![1, 2, 0], CLASSES));
    }
}
