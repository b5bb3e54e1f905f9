//! How often callers were refused, by who they are.
//!
//! Promises: [`COUNTED_MAX`] callers at most are counted by their names, as long as the process lives: the cluster has up to 1,024
//! principals, and certificates can show any name. All others count together, and so do strangers. Must not know: why they were
//! refused.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Callers that are counted by their names.
pub(crate) const COUNTED_MAX: usize = 64;

/// Those who have shown nothing that counts; no principal may have such a name.
pub(crate) const STRANGERS: &str = "(strangers)";

/// Those who came when as many were counted as can be.
pub(crate) const OTHERS: &str = "(others)";

/// What one caller was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Calls that it had no right to make.
    pub(crate) calls: u64,
    /// Batches for which its quota had no room.
    pub(crate) batches: u64,
}

/// What all callers were refused.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<String, Refused>>);

impl Refusals {
    /// A call is refused.
    pub(crate) fn call(&self, who: &str) {
        self.change(who, |refused| refused.calls += 1);
    }

    /// A batch is refused.
    pub(crate) fn batch(&self, who: &str) {
        self.change(who, |refused| refused.batches += 1);
    }

    /// All counts, by name.
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
