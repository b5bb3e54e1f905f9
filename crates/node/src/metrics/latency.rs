//! Counts how long batches took, for the latencies that the console shows. This module replaces the histograms of the
//! Prometheus library, because those can only be exported, and a program cannot read their values. Counting a batch
//! requires no lock, so threads do not wait for each other here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of latency classes. The first classes end at 0.1 ms, 0.2 ms, 0.4 ms and so on. The last class contains all
/// latencies above 52 s.
const CLASSES: usize = 21;

/// Upper end of the first class, in microseconds. The upper end of each further class is twice as high.
const FIRST_US: u64 = 100;

/// Numbers of batches by latency class.
#[derive(Clone, Default)]
pub(crate) struct LatencyCounts(Arc<[AtomicU64; CLASSES]>);

impl LatencyCounts {
    /// Counts a batch that took `elapsed_us` microseconds.
    pub(super) fn count(&self, elapsed_us: u64) {
        if let Some(count) = self.0.get(class(elapsed_us)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of batches in each class.
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
