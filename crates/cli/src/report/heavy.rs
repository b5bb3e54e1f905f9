//! Finds the heavy hitters, which are the keys that occur most often, in bounded memory.
//!
//! # Guarantees
//!
//! - A count is never below the true number, and exceeds it by at most the stated error.
//! - The error is 0 as long as the number of different ids that were counted fits into the sketch.
//! - The text of a key is requested only once its id may belong into the report.
//!
//! This module does not depend on records, filters, or the meaning of the ids.

use std::collections::HashMap;

use datasketches::frequencies::FrequentItemsSketch;
use serde::Serialize;

/// Maximum length of a stored name in bytes. Longer names are cut and end in an ellipsis.
pub const NAME_BYTES_MAX: usize = 256;

/// Number of keys that [`HeavyHitters::top`] can always name, if this many are tracked. At most twice as many names are
/// stored.
pub const TOP_MAX: usize = 64;

const ELLIPSIS: &str = "...";

/// Smallest and largest size of a sketch, in slots. A sketch is at most three quarters full.
const SLOTS: (usize, usize) = (8, 1 << 24);

/// A key and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// The key, cut to [`NAME_BYTES_MAX`] bytes.
    pub key: String,
    /// Number of occurrences. It may be too high, but never too low.
    pub count: u64,
    /// Maximum amount by which `count` may be too high.
    pub error: u64,
}

/// Finds the ids that occur most often in a stream, and keeps their names. The counts are kept in a sketch of bounded
/// size (Anderson and others, "A High-Performance Algorithm for Identifying Frequent Items in Data Streams", 2017).
///
/// Names take much more memory than counts, so the counter stores names only for ids that may be among the most
/// frequent. It stores the name of an id as soon as the count of the id reaches the threshold `worth`.
///
/// When `2 * TOP_MAX` names are stored, the counter keeps the [`TOP_MAX`] names with the greatest counts and drops all
/// others. It then raises the threshold to one above the smallest count of a name that it has kept. An id without a
/// name therefore never has a greater count than any of the [`TOP_MAX`] most frequent ids.
///
/// ```
/// use firstseen_cli::report::heavy::HeavyHitters;
/// let mut hitters = HeavyHitters::new(1000);
/// for id in [7, 3, 7, 7, 5, 3] {
///     hitters.count(id, || format!("key-{id}"));
/// }
/// let top = hitters.top(2);
/// assert_eq!((top[0].key.as_str(), top[0].count, top[0].error), ("key-7", 3, 0));
/// assert_eq!((top[1].key.as_str(), top[1].count), ("key-3", 2));
/// ```
pub struct HeavyHitters {
    sketch: FrequentItemsSketch<u64>,
    names: HashMap<u64, String>,
    top_max: usize,
    /// Smallest count in the sketch for which a name is stored.
    worth: u64,
    /// Amount that the sketch has subtracted from each count so far.
    error: u64,
}

impl HeavyHitters {
    /// Creates a counter that tracks at most `tracked_max` ids. The number of slots in the sketch must be a power of
    /// two, so the actual limit may be as low as half of `tracked_max`. In any case, the limit is at least 6 ids and at
    /// most 12.6 million ids.
    ///
    /// Each tracked id takes up to 35 bytes. The names of up to `2 * TOP_MAX` ids take additional memory.
    pub fn new(tracked_max: usize) -> Self {
        let slots = (tracked_max.clamp(SLOTS.0, SLOTS.1) / 3).saturating_mul(4).clamp(SLOTS.0, SLOTS.1);
        let slots = if slots.is_power_of_two() { slots } else { slots.next_power_of_two() / 2 };
        Self {
            sketch: FrequentItemsSketch::new(slots).expect("a power of two within the sketch's limits"),
            names: HashMap::new(),
            top_max: (tracked_max / 2).clamp(1, TOP_MAX),
            worth: 1,
            error: 0,
        }
    }

    /// Counts one occurrence of `id`. Calls `name` if the id is among the most frequent ids and has no name yet.
    pub fn count(&mut self, id: u64, name: impl FnOnce() -> String) {
        let tracked = self.sketch.num_active_items();
        self.sketch.update(id);
        // An id that is new to the sketch has count one, so it is not looked up again.
        if self.sketch.maximum_error() > self.error {
            self.follow_purge();
        } else if self.worth > 1 && self.sketch.num_active_items() > tracked {
            return;
        }
        if self.sketch.lower_bound(&id) >= self.worth && !self.names.contains_key(&id) {
            self.names.insert(id, shortened(name()));
            if self.names.len() >= 2 * self.top_max {
                self.prune();
            }
        }
    }

    fn follow_purge(&mut self) {
        let taken = self.sketch.maximum_error() - self.error;
        self.error += taken;
        let sketch = &self.sketch;
        self.names.retain(|id, _| sketch.lower_bound(id) > 0);
        self.worth = self.worth.saturating_sub(taken).max(2);
    }

    fn prune(&mut self) {
        let mut ranked: Vec<(u64, u64)> = self.names.keys().map(|id| (self.sketch.lower_bound(id), *id)).collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        for (_, id) in &ranked[self.top_max..] {
            self.names.remove(id);
        }
        self.worth = ranked[self.top_max - 1].0 + 1;
    }

    /// Returns the keys that occurred most often, at most `n` and at most [`TOP_MAX`] keys. Keys with equal counts are
    /// sorted by name. Once the sketch is full, the counts of rare keys are inexact, so keys that were counted only
    /// once are not reported. The result may therefore have fewer than `n` keys.
    pub fn top(&self, n: usize) -> Vec<Counted> {
        let counted = self.names.iter().map(|(id, name)| Counted {
            key: name.clone(),
            count: self.sketch.lower_bound(id) + self.error,
            error: self.error,
        });
        let mut top: Vec<Counted> = counted.collect();
        top.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        top.truncate(n.min(self.top_max));
        top
    }
}

/// Returns `name`, cut to [`NAME_BYTES_MAX`] bytes.
pub(crate) fn shortened(mut name: String) -> String {
    if name.len() > NAME_BYTES_MAX {
        let mut end = NAME_BYTES_MAX - ELLIPSIS.len();
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        name.push_str(ELLIPSIS);
    }
    name.shrink_to_fit();
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the output number `index` of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
    /// Generators", 2014).
    fn mixed(index: u64) -> u64 {
        let z = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns ranks from 1 to `ids`, where a rank has a probability of about 1/rank.
    fn zipf(events: u64, ids: f64) -> impl Iterator<Item = u64> {
        (1..=events).map(move |index| ids.powf((mixed(index) >> 11) as f64 / (1u64 << 53) as f64) as u64)
    }

    fn key(id: u64) -> String {
        format!("key-{id}")
    }

    #[test]
    fn a_small_stream_is_counted_exactly() {
        let mut hitters = HeavyHitters::new(1000);
        for round in 0..30 {
            for id in round..30 {
                hitters.count(mixed(id), || key(id));
            }
        }
        let expected: Vec<Counted> =
            (0..30).rev().map(|id| Counted { key: key(id), count: id + 1, error: 0 }).collect();
        assert_eq!(hitters.top(100), expected);
        assert_eq!(hitters.top(10), expected[..10]);
    }

    #[test]
    fn equal_counts_come_in_the_order_of_their_names() {
        let mut hitters = HeavyHitters::new(100);
        for id in [5, 1, 3] {
            hitters.count(id, || key(id));
        }
        let keys: Vec<String> = hitters.top(10).into_iter().map(|counted| counted.key).collect();
        assert_eq!(keys, ["key-1", "key-3", "key-5"]);
    }

    #[test]
    fn a_full_sketch_is_still_exact_up_to_its_capacity() {
        let mut hitters = HeavyHitters::new(1536);
        for id in (0..1536).chain(700..710).chain(705..710) {
            hitters.count(mixed(id), || key(id));
        }
        let top = hitters.top(10);
        let expected: Vec<String> = (705..710).chain(700..705).map(key).collect();
        assert_eq!(top.iter().map(|counted| counted.key.clone()).collect::<Vec<_>>(), expected);
        assert!(top.iter().all(|counted| counted.error == 0));
        assert_eq!((top[0].count, top[9].count), (3, 2));
    }

    #[test]
    fn the_leaders_of_a_zipf_stream_are_named_within_the_error() {
        for tracked_max in [600, 5000, 50_000] {
            let mut hitters = HeavyHitters::new(tracked_max);
            let mut truth: HashMap<String, u64> = HashMap::new();
            let mut names = 0;
            for id in zipf(1_000_000, 1e6) {
                *truth.entry(key(id)).or_default() += 1;
                hitters.count(mixed(id), || {
                    names += 1;
                    key(id)
                });
            }
            let top = hitters.top(10);
            assert_eq!(top.len(), 10);
            for (index, counted) in top.iter().enumerate() {
                let true_count = truth[&counted.key];
                assert!(counted.count >= true_count && counted.count <= true_count + counted.error, "{counted:?}");
                assert_eq!(counted.key, key(index as u64 + 1), "tracked {tracked_max}");
            }
            assert!(names < 30_000, "{names} names asked for");
            assert!(hitters.error < 3_500_000 / (tracked_max as u64 / 2), "{}", hitters.error);
        }
    }

    #[test]
    fn no_tracked_id_without_a_name_leads() {
        let mut hitters = HeavyHitters::new(300);
        for (index, id) in zipf(300_000, 3e4).enumerate() {
            hitters.count(mixed(id), || key(id));
            if index % 10_007 == 0 {
                let named = hitters.top(1).len().min(hitters.names.len());
                let least = hitters.top(TOP_MAX).last().map_or(0, |counted| counted.count - counted.error);
                let unnamed = (1..=30_000).map(mixed).filter(|id| !hitters.names.contains_key(id));
                let most = unnamed.map(|id| hitters.sketch.lower_bound(&id)).max().unwrap_or(0);
                assert!(named == 1 && most <= least.max(1), "{most} unnamed, {least} named, at {index}");
            }
        }
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let mut hitters = HeavyHitters::new(3000);
        let mut names = 0;
        for index in 0..600_000u64 {
            let id = mixed(index / 3);
            hitters.count(id, || {
                names += 1;
                "\u{e9}".repeat(40_000)
            });
            assert!(hitters.names.len() <= 2 * TOP_MAX);
        }
        assert!(hitters.sketch.estimated_size() <= 35 * 3000, "{}", hitters.sketch.estimated_size());
        assert!(hitters.names.values().all(|name| name.capacity() <= NAME_BYTES_MAX));
        assert!(names < 60_000, "{names} names asked for");
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(shortened("a".repeat(256)), "a".repeat(256));
        assert_eq!(shortened("a".repeat(257)), "a".repeat(253) + "...");
        assert_eq!(shortened("\u{e9}".repeat(200)), "\u{e9}".repeat(126) + "...");
    }

    #[test]
    fn the_least_sketch_works() {
        let mut hitters = HeavyHitters::new(0);
        for id in zipf(10_000, 1e3) {
            hitters.count(mixed(id), || key(id));
        }
        assert!(hitters.top(10).len() <= 1);
    }
}
