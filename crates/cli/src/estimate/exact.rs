//! The exact decayed frequencies beside the filter (`--verify exact`).
//!
//! Promises: `f(now)` is the sum over a key's occurrences of `lambda^(epoch(now) - epoch(occurrence))` (C05 3), in
//! memory for every key ever counted. Must not know: the filter.

use std::collections::HashMap;

use firstseen_filter::{Digest, Stamp, UnitNumber};
use serde::Serialize;

/// Sums of powers in floating point have this relative error: so small a difference is no undercount.
const ROUNDING: f64 = 1e-9;

/// Estimates against the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct EstimateErrors {
    /// Estimates compared: one an event.
    pub compared: u64,
    /// Mean of estimate less truth.
    pub mean_error: f64,
    /// Most by which an estimate was above the truth.
    pub max_overcount: f64,
    /// Most by which an estimate was below the truth.
    pub max_undercount: f64,
    /// Estimates below the truth by more than epsilon: none, while nothing is degraded.
    pub undercounts_beyond_epsilon: u64,
    /// Events with a key never counted before.
    pub unseen: u64,
    /// Of those, the ones whose estimate was above zero.
    pub unseen_above_zero: u64,
    /// `unseen_above_zero / unseen`: what `--fpr` bounds.
    pub fpr: f64,
}

/// Every key with its decayed frequency.
pub(super) struct ExactFrequencies {
    lambda: f64,
    epsilon: f64,
    /// The frequency of each key, and its epoch.
    frequencies: HashMap<Digest, (f64, UnitNumber)>,
    error_sum: f64,
    errors: EstimateErrors,
}

impl ExactFrequencies {
    pub(super) fn new(lambda: f64, epsilon: f64) -> Self {
        let errors = EstimateErrors::default();
        Self { lambda, epsilon, frequencies: HashMap::new(), error_sum: 0.0, errors }
    }

    /// An event had the estimate `before`; the event itself is not counted yet.
    pub(super) fn asked(&mut self, digest: Digest, before: f64) {
        if !self.frequencies.contains_key(&digest) {
            self.errors.unseen += 1;
            self.errors.unseen_above_zero += u64::from(before > 0.0);
        }
    }

    /// An event is counted.
    pub(super) fn count(&mut self, digest: Digest, stamp: Stamp) {
        let added = self.decayed(1.0, stamp.unit, stamp.judged);
        let held = self.truth(digest, stamp.judged);
        self.frequencies.insert(digest, (held + added, stamp.judged));
    }

    /// Compares an estimate for `epoch` with the truth.
    pub(super) fn compare(&mut self, digest: Digest, epoch: UnitNumber, estimate: f64) {
        let truth = self.truth(digest, epoch);
        let error = estimate - truth;
        self.error_sum += error;
        self.errors.compared += 1;
        self.errors.max_overcount = self.errors.max_overcount.max(error);
        // An estimate that is exact up to rounding is neither above nor below.
        if -error > ROUNDING * truth.max(1.0) {
            self.errors.max_undercount = self.errors.max_undercount.max(-error);
            self.errors.undercounts_beyond_epsilon += u64::from(-error > self.epsilon + ROUNDING * truth.max(1.0));
        }
    }

    fn truth(&self, digest: Digest, epoch: UnitNumber) -> f64 {
        self.frequencies.get(&digest).map_or(0.0, |(frequency, at)| self.decayed(*frequency, *at, epoch))
    }

    fn decayed(&self, frequency: f64, from_epoch: UnitNumber, until_epoch: UnitNumber) -> f64 {
        frequency * self.lambda.powf(until_epoch.since(from_epoch) as f64)
    }

    /// The errors that were found.
    pub(super) fn errors(&self) -> EstimateErrors {
        let EstimateErrors { compared, unseen, unseen_above_zero, .. } = self.errors;
        let fpr = mean(unseen_above_zero as f64, unseen);
        EstimateErrors { mean_error: mean(self.error_sum, compared), fpr, ..self.errors }
    }
}

fn mean(sum: f64, count: u64) -> f64 {
    if count > 0 { sum / count as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Digest = Digest { lo: 1, hi: 2 };

    #[test]
    fn frequencies_are_the_sum_of_what_is_left_of_occurrences() {
        let mut exact = ExactFrequencies::new(0.5, 0.1);
        exact.count(KEY, Stamp::on_time(UnitNumber(10)));
        exact.count(KEY, Stamp::on_time(UnitNumber(11)));
        // One epoch late: worth a half by now.
        exact.count(KEY, Stamp { unit: UnitNumber(10), judged: UnitNumber(11) });
        assert_eq!(exact.truth(KEY, UnitNumber(11)), 2.0);
        assert_eq!(exact.truth(KEY, UnitNumber(13)), 0.5);
    }

    #[test]
    fn overcounts_and_undercounts_are_counted_apart() {
        let mut exact = ExactFrequencies::new(0.5, 0.125);
        exact.asked(KEY, 0.5);
        exact.count(KEY, Stamp::on_time(UnitNumber::FIRST));
        exact.asked(KEY, 1.0);
        for estimate in [1.5, 1.0, 0.9, 0.8] {
            exact.compare(KEY, UnitNumber::FIRST, estimate);
        }
        let errors = exact.errors();
        assert_eq!((errors.compared, errors.undercounts_beyond_epsilon), (4, 1));
        assert_eq!((errors.unseen, errors.unseen_above_zero, errors.fpr), (1, 1, 1.0));
        assert!((errors.mean_error - 0.05).abs() < 1e-12);
        assert!((errors.max_undercount - 0.2).abs() < 1e-12 && errors.max_overcount == 0.5);
    }
}
