//! Computes the exact decayed frequencies of keys. The flag `--verify exact` compares them with the estimates of the
//! filter. Unlike the filter, this computation needs memory for every key.
//!
//! Each occurrence of a key has the value 1 when it happens, and its value is multiplied by `lambda` at the end of each
//! epoch. The decayed frequency of a key is the sum of the present values of its occurrences (Cheng et al. 2005,
//! section 3).

use std::collections::HashMap;

use firstseen_filter::{Digest, Stamp, UnitNumber};
use serde::Serialize;

/// Relative error of sums of powers in floating point. A smaller difference does not count as an undercount.
const ROUNDING: f64 = 1e-9;

/// Errors of the estimates compared with the true values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct EstimateErrors {
    /// Number of estimates that were compared, one per event.
    pub compared: u64,
    /// Mean of estimate minus true value.
    pub mean_error: f64,
    /// Greatest amount by which an estimate was above the true value.
    pub max_overcount: f64,
    /// Greatest amount by which an estimate was below the true value.
    pub max_undercount: f64,
    /// Number of estimates that were below the true value by more than epsilon. It is zero as long as no counter was
    /// full.
    pub undercounts_beyond_epsilon: u64,
    /// Number of events whose key was never counted before.
    pub unseen: u64,
    /// Number of events in `unseen` whose estimate was above zero.
    pub unseen_above_zero: u64,
    /// Rate `unseen_above_zero / unseen`, which `--fpr` bounds.
    pub fpr: f64,
}

/// Exact decayed frequency of every key.
pub(super) struct ExactFrequencies {
    lambda: f64,
    epsilon: f64,
    /// Frequency of each key, and the epoch for which it was computed.
    frequencies: HashMap<Digest, (f64, UnitNumber)>,
    error_sum: f64,
    errors: EstimateErrors,
}

impl ExactFrequencies {
    pub(super) fn new(lambda: f64, epsilon: f64) -> Self {
        let errors = EstimateErrors::default();
        Self { lambda, epsilon, frequencies: HashMap::new(), error_sum: 0.0, errors }
    }

    /// Takes the estimate `before` of an event's key. The event itself is not counted yet.
    pub(super) fn asked(&mut self, digest: Digest, before: f64) {
        if !self.frequencies.contains_key(&digest) {
            self.errors.unseen += 1;
            self.errors.unseen_above_zero += u64::from(before > 0.0);
        }
    }

    /// Counts an event.
    pub(super) fn count(&mut self, digest: Digest, stamp: Stamp) {
        let added = self.decayed(1.0, stamp.unit, stamp.judged);
        let held = self.truth(digest, stamp.judged);
        self.frequencies.insert(digest, (held + added, stamp.judged));
    }

    /// Compares an estimate for `epoch` with the true value.
    pub(super) fn compare(&mut self, digest: Digest, epoch: UnitNumber, estimate: f64) {
        let truth = self.truth(digest, epoch);
        let error = estimate - truth;
        self.error_sum += error;
        self.errors.compared += 1;
        self.errors.max_overcount = self.errors.max_overcount.max(error);
        // A difference within the rounding error is not counted.
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

    /// Returns the errors that were found.
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
        // The event is one epoch late, so its value is already one half.
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
