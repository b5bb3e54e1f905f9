//! Heavy hitters: the keys that occur most often, in bounded memory.
//!
//! Promises: a count is never below the truth, and above it by at most its stated error; the error is 0 while no more
//! different ids were counted than the sketch holds. A key's text is asked for only once its id may belong to the
//! report. Must not know: records, filters, what is counted.

use std::collections::HashMap;

use datasketches::frequencies::FrequentItemsSketch;
use serde::Serialize;

/// Longest name that is kept; longer ones end in an ellipsis.
pub const NAME_BYTES_MAX: usize = 256;

/// The keys [`HeavyHitters::top`] can always name, where so many are tracked; up to twice as many names are kept.
pub const TOP_MAX: usize = 64;

const ELLIPSIS: &str = "...";

/// The least and greatest sketch, in slots; a sketch is at most three quarters full.
const SLOTS: (usize, usize) = (8, 1 << 24);

/// A key and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// The key, cut to [`NAME_BYTES_MAX`] bytes.
    pub key: String,
    /// How often it occurred, never too low.
    pub count: u64,
    /// The most by which `count` may be too high.
    pub error: u64,
}

/// Counts ids in a sketch (Anderson and others, "A High-Performance Algorithm for Identifying Frequent Items in Data
/// Streams", 2017) and keeps the names of those that lead.
///
/// No tracked id without a name counts more than a name that is among the first [`TOP_MAX`]: an id is named when its
/// count reaches `worth`, and `worth` rises to one above the count of the `TOP_MAX`-th name whenever there are twice
/// as many.
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
    /// The least count in the sketch that deserves a name.
    worth: u64,
    /// What the sketch has taken off every count so far.
    error: u64,
}

impl HeavyHitters {
    /// Tracks at most `tracked_max` ids (but always 6, never above 12.6 million, and down to half as many, since the
    /// sketch has a power of two of slots) in up to 35 bytes each, and the names of at most `2 * TOP_MAX` of them.
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

    /// Counts `id` once more; `name` is called if it leads and has no name yet.
    pub fn count(&mut self, id: u64, name: impl FnOnce() -> String) {
        let tracked = self.sketch.num_active_items();
        self.sketch.update(id);
        // An id that is new to the sketch need not be looked up again.
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

    /// The `n` (at most [`TOP_MAX`]) keys that occurred most often, in the order of their names where counts are equal.
    /// Fewer where fewer stand out: once the sketch is full, an id that was counted once does not.
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

/// `name`, cut to [`NAME_BYTES_MAX`] bytes.
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

    /// SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
    fn mixed(index: u64) -> u64 {
        let z = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Ranks 1 to `ids` with chances of about 1/rank.
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
