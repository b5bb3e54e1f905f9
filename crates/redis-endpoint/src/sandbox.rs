//! Sandbox mode of the Redis endpoint, in which a command creates the filter that it names if that filter does not
//! exist, as in RedisBloom. The mode is meant for experiments and for the test suites of client libraries.
//!
//! In sandbox mode, the endpoint treats the filters that clients have created differently from all other filters: it
//! counts their recorded events, and it allows clients to drop them. All other filters behave as they do without
//! sandbox mode.
//!
//! This module does not depend on networking or consensus.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstseen_backend::NewFilter;
use firstseen_client::Verdict;
use firstseen_resp::{BloomOptions, Expansion};
use firstseen_routing::FilterId;

/// Defaults of RedisBloom for new filters.
const CAPACITY_ITEMS: u32 = 100;
const ERROR_RATE: f64 = 0.01;
const EXPANSION: u16 = 2;
/// Maximum number of filters at the same time.
const FILTERS_MAX: usize = 1024;

/// Filters that clients have created.
#[derive(Default)]
pub(crate) struct Sandbox(Mutex<BTreeMap<Arc<str>, Made>>);

/// Filter that a client has created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// Number of the filter. Another filter may have had the same name before.
    pub(crate) filter: FilterId,
    /// Factor by which each further generation is larger. `None` means that the filter does not grow.
    pub(crate) expansion: Option<u16>,
    /// Number of events that were new.
    pub(crate) inserted: u64,
}

impl Sandbox {
    /// Returns the filter to create for these options, or `None` if the maximum number of filters is reached.
    pub(crate) fn plan<'a>(&self, name: &'a str, options: BloomOptions) -> Option<(NewFilter<'a>, Made)> {
        if self.made().len() >= FILTERS_MAX {
            return None;
        }
        let BloomOptions { error_rate, capacity_items, expansion } = options;
        let expansion = match expansion {
            Expansion::Default => Some(EXPANSION),
            Expansion::Factor(factor) => Some(factor),
            Expansion::Never => None,
        };
        let new = NewFilter {
            name,
            capacity_events: capacity_items.unwrap_or(CAPACITY_ITEMS).into(),
            rate: error_rate.unwrap_or(ERROR_RATE),
            grows: expansion.is_some(),
        };
        Some((new, Made { filter: FilterId(0), expansion, inserted: 0 }))
    }

    pub(crate) fn add(&self, name: Arc<str>, made: Made) {
        self.made().insert(name, made);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Made> {
        self.made().get(name).copied()
    }

    pub(crate) fn remove(&self, name: &str) -> bool {
        self.made().remove(name).is_some()
    }

    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.made().keys().cloned().collect()
    }

    /// Adds the number of first-seen verdicts to the counter of the filter.
    pub(crate) fn count(&self, name: &str, verdicts: &[Verdict]) {
        if let Some(made) = self.made().get_mut(name) {
            made.inserted += verdicts.iter().filter(|verdict| **verdict == Verdict::FirstSeen).count() as u64;
        }
    }

    fn made(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Made>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_says_is_what_redisbloom_takes() {
        let sandbox = Sandbox::default();
        let (new, made) = sandbox.plan("a", BloomOptions::default()).unwrap();
        assert_eq!((new.capacity_events, new.rate, new.grows), (100, 0.01, true));
        assert_eq!((made.expansion, made.inserted), (Some(2), 0));
        let options = BloomOptions { error_rate: Some(0.5), capacity_items: Some(7), expansion: Expansion::Never };
        let (new, made) = sandbox.plan("a", options).unwrap();
        assert_eq!((new.capacity_events, new.rate, new.grows, made.expansion), (7, 0.5, false, None));
        sandbox.add("a".into(), made);
        sandbox.count("a", &[Verdict::FirstSeen, Verdict::Duplicate, Verdict::FirstSeen]);
        sandbox.count("b", &[Verdict::FirstSeen]);
        assert_eq!(sandbox.get("a").map(|made| made.inserted), Some(2));
        assert!(sandbox.remove("a") && !sandbox.remove("a") && sandbox.get("b").is_none());
        (0..FILTERS_MAX).for_each(|number| sandbox.add(number.to_string().into(), made));
        assert!(sandbox.plan("one-more", BloomOptions::default()).is_none());
    }
}
