//! Counts rejected calls and batches separately for each caller. Names of callers are not under the control of the
//! node: a cluster can have up to 1,024 principals, and certificates can contain any name. To limit the number of
//! counters, only the first [`COUNTED_MAX`] callers get counters of their own. All further callers share one counter,
//! and all callers without an identity share another one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of callers with their own counters.
pub(crate) const COUNTED_MAX: usize = 64;

/// Name of the counter for callers without a valid identity. No principal can have this name.
pub(crate) const STRANGERS: &str = "(strangers)";

/// Name of the counter for callers that arrived after all individual counters were in use.
pub(crate) const OTHERS: &str = "(others)";

/// Numbers of rejections of one caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Number of calls that the caller had no right to make.
    pub(crate) calls: u64,
    /// Number of batches that exceeded the caller's quota.
    pub(crate) batches: u64,
}

/// Rejections of all callers.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<String, Refused>>);

impl Refusals {
    /// Counts a rejected call.
    pub(crate) fn call(&self, who: &str) {
        self.change(who, |refused| refused.calls += 1);
    }

    /// Counts a rejected batch.
    pub(crate) fn batch(&self, who: &str) {
        self.change(who, |refused| refused.batches += 1);
    }

    /// Returns all counters with their names.
    pub(crate) fn all(&self) -> Vec<(String, Refused)> {
        self.counts().iter().map(|(who, refused)| (who.clone(), *refused)).collect()
    }

    fn change(&self, who: &str, change: impl FnOnce(&mut Refused)) {
        let mut counts = self.counts();
        let named = counts.len() - [STRANGERS, OTHERS].iter().filter(|name| counts.contains_key(**name)).count();
        let has_place = who == STRANGERS || counts.contains_key(who) || named < COUNTED_MAX;
        change(counts.entry(if has_place { who } else { OTHERS }.to_owned()).or_default());
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<String, Refused>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_no_refusal_is_lost() {
        let refusals = Refusals::default();
        for number in 0..3 * COUNTED_MAX {
            refusals.call(&format!("caller-{number}"));
            refusals.call(STRANGERS);
            refusals.batch("caller-0");
        }
        let all = refusals.all();
        assert_eq!(all.len(), COUNTED_MAX + 2);
        let of = |name: &str| all.iter().find(|(who, _)| who == name).map(|(_, refused)| *refused).expect("counted");
        let many = 3 * COUNTED_MAX as u64;
        assert_eq!(of("caller-0"), Refused { calls: 1, batches: many });
        assert_eq!((of(STRANGERS).calls, of(OTHERS).calls), (many, 2 * COUNTED_MAX as u64));
    }
}
