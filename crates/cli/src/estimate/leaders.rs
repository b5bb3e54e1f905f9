//! Tracks the keys with the greatest estimates in bounded memory. Only the best keys are kept as candidates. Estimates
//! decay with time, so before two candidates are compared, the last estimate of each candidate is reduced by the decay
//! since that estimate.
//!
//! The names of keys take memory, so callers pass a function that returns the name. It is called only when a key
//! becomes a candidate.

use std::collections::HashMap;

use firstseen_filter::{Digest, UnitNumber};

use crate::report::heavy::shortened;

/// Minimum number of candidates. Enough candidates are kept that few keys are dropped and must be named again.
const KEPT_MIN: usize = 64;

/// A key that may be among those with the greatest estimates.
struct Candidate {
    estimate: f64,
    /// Epoch of its last estimate.
    epoch: UnitNumber,
    name: String,
}

/// The keys with the greatest estimates, ordered by a rank. A key has a greater rank than another key if its decayed
/// estimate is greater.
///
/// The rank of a key is `ln x + e ln(1/lambda)`, where `x` is its last estimate, `e` is the epoch of that estimate, and
/// `lambda` is the factor by which an estimate decays per epoch. All estimates decay by the same factor, so the rank of
/// a key stays the same as time passes and need not be recomputed.
pub(super) struct Leaders {
    candidates: HashMap<Digest, Candidate>,
    kept: usize,
    /// The constant `ln(1/lambda)`.
    decay: f64,
    /// Smallest rank of a candidate. The value never falls.
    worth: f64,
    /// Present epoch, and the smallest estimate in it that makes a key a candidate.
    now: (UnitNumber, f64),
}

impl Leaders {
    /// Creates a tracker with enough candidates for the first `top` keys. For 0 there are no candidates.
    pub(super) fn new(top: usize, lambda: f64) -> Self {
        let kept = if top == 0 { 0 } else { top.max(KEPT_MIN) };
        let worth = f64::NEG_INFINITY;
        Self { candidates: HashMap::new(), kept, decay: -lambda.ln(), worth, now: (UnitNumber::FIRST, 0.0) }
    }

    /// Takes the estimate of an event in `epoch`. Epochs must not decrease from call to call.
    #[inline]
    pub(super) fn offer(&mut self, digest: Digest, estimate: f64, epoch: UnitNumber, name: impl FnOnce() -> String) {
        if epoch != self.now.0 {
            self.now = (epoch, self.least_worth(epoch));
        }
        // A key with the same rank as the last candidate may have been a candidate before, and must be found again.
        if estimate >= self.now.1 && estimate > 0.0 && self.kept > 0 {
            self.follow(digest, estimate, epoch, name);
        }
    }

    fn least_worth(&self, epoch: UnitNumber) -> f64 {
        // The value is slightly lower than computed, to allow for the rounding error of the exponential function.
        (self.worth - self.decay * epoch.0 as f64).exp() * (1.0 - 1e-6)
    }

    fn follow(&mut self, digest: Digest, estimate: f64, epoch: UnitNumber, name: impl FnOnce() -> String) {
        if let Some(candidate) = self.candidates.get_mut(&digest) {
            candidate.estimate = estimate;
            candidate.epoch = epoch;
            return;
        }
        self.candidates.insert(digest, Candidate { estimate, epoch, name: shortened(name()) });
        if self.candidates.len() >= 2 * self.kept {
            self.prune();
            self.now.1 = self.least_worth(epoch);
        }
    }

    fn prune(&mut self) {
        let ranked = self.candidates.iter().map(|(digest, Candidate { estimate, epoch, .. })| {
            let rank = estimate.ln() + self.decay * epoch.0 as f64;
            (rank, *digest)
        });
        let mut ranked: Vec<(f64, Digest)> = ranked.collect();
        // Keys with equal ranks are ordered by their digests, so that the selection does not depend on the order of the
        // hash map.
        ranked.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (b.1.lo, b.1.hi).cmp(&(a.1.lo, a.1.hi))));
        for (_, digest) in &ranked[self.kept..] {
            self.candidates.remove(digest);
        }
        self.worth = ranked[self.kept - 1].0;
    }

    /// Returns all candidates in unspecified order.
    pub(super) fn candidates(&self) -> impl Iterator<Item = (Digest, &str)> {
        self.candidates.iter().map(|(digest, candidate)| (*digest, candidate.name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(id: u64) -> Digest {
        Digest { lo: id.wrapping_mul(0x9E37_79B9_7F4A_7C15), hi: id }
    }

    /// Counts the events exactly, and returns the keys with the greatest values.
    fn leading(lambda: f64, events: impl Iterator<Item = (u64, u64)>, top: usize) -> (Vec<u64>, Vec<u64>, usize) {
        let mut leaders = Leaders::new(top, lambda);
        let mut truth: HashMap<u64, (f64, u64)> = HashMap::new();
        let (mut now, mut most) = (0, 0);
        for (id, epoch) in events {
            now = epoch;
            let (value, last) = truth.entry(id).or_insert((0.0, epoch));
            *value = *value * lambda.powf((epoch - *last) as f64) + 1.0;
            *last = epoch;
            leaders.offer(digest(id), *value, UnitNumber(epoch), || format!("key-{id}"));
            most = most.max(leaders.candidates.len());
        }
        let value_of = |id: u64| truth[&id].0 * lambda.powf((now - truth[&id].1) as f64);
        let first = |mut ids: Vec<u64>| {
            ids.sort_by(|a, b| value_of(*b).total_cmp(&value_of(*a)).then(a.cmp(b)));
            ids.truncate(top);
            ids
        };
        let found = first(leaders.candidates().map(|(digest, _)| digest.hi).collect());
        (found, first(truth.keys().copied().collect()), most)
    }

    #[test]
    fn those_that_lead_are_found_whenever_they_occurred() {
        let mixed = |index: u64| index.wrapping_mul(0xD134_2543_DE82_EF95) >> 40;
        for lambda in [0.3, 0.9, 0.999] {
            // The frequent keys change: in each epoch another hundred keys occur most often.
            let events = (0..200_000).map(|index| {
                let epoch = 480_000 + index / 4000;
                let rank = ((mixed(index) as f64 / (1u64 << 24) as f64) * 11.0).exp2() as u64;
                (rank + 31 * epoch, epoch)
            });
            let (found, truth, most) = leading(lambda, events, 20);
            assert_eq!(found, truth, "lambda {lambda}");
            assert!(most <= 2 * KEPT_MIN);
        }
    }

    #[test]
    fn no_key_leads_where_no_leaders_are_asked_for() {
        assert!(leading(0.5, [(1, 0)].into_iter(), 0).0.is_empty());
    }
}
