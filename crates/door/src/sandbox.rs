//! The filters that clients create by using them, as in RedisBloom: for experiments and the test suites of clients.
//!
//! Promises: only filters that were created through this module count their events, and can be dropped through it. This module must not
//! depend on networking or consensus.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstseen_backend::NewFilter;
use firstseen_client::Verdict;
use firstseen_resp::{BloomOptions, Expansion};
use firstseen_routing::FilterId;

/// The defaults of RedisBloom.
const CAPACITY_ITEMS: u32 = 100;
const ERROR_RATE: f64 = 0.01;
const EXPANSION: u16 = 2;
/// Greatest number of filters at the same time.
const FILTERS_MAX: usize = 1024;

/// The filters that were created here.
#[derive(Default)]
pub(crate) struct Sandbox(Mutex<BTreeMap<Arc<str>, Made>>);

/// A filter that was created here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// The number of the filter: others may have had its name before.
    pub(crate) filter: FilterId,
    /// How much larger each further generation is. `None` if the filter does not grow.
    pub(crate) expansion: Option<u16>,
    /// The number of events that were new.
    pub(crate) inserted: u64,
}

impl Sandbox {
    /// Returns the filter to create for these options, or `None` if there are too many.
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

    /// Counts the new ones among these verdicts of a filter.
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
