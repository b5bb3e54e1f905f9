//! Result of an audit: the number of errors and cases, an upper bound of the true error rate, and the rate that the
//! filter promises.
//!
//! The upper bound of an error rate is statistically valid even if the audit has observed only a few cases.
//!
//! Some filters promise no error rate. The promised rate of such a filter is `None`.

use firstseen_filter::FilterDefinition;

/// Probability that the true rate is above the reported bound.
const BOUND_ALPHA: f64 = 0.05;

/// Result of an audit, which [`crate::Filter::audit`] returns. It contains the error rates of a filter, as measured on
/// a sample of keys, and the rates that the definition of the filter promises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AuditReport {
    /// Share of keys that are in the sample.
    pub sample_rate: f64,
    /// Number of keys that the audit remembers at present.
    pub keys: usize,
    /// First occurrences that were called duplicates. The cases are all first occurrences among this producer's events.
    pub false_positives: ErrorRate,
    /// False-positive rate that the filter was sized for. `None` means that the filter was created with a number of
    /// cells (`--cells`) instead of a rate. The rate of such a filter depends on how many events arrive.
    pub promised_false_positives: Option<f64>,
    /// Repeated events within the window that were called first-seen. The cases are all repeated events within the
    /// window.
    pub false_negatives: ErrorRate,
    /// False-negative rate that the definition of the filter promises. The rate is 0 for kinds of filters that remember
    /// every event for the whole window. `None` means that the filter makes no promise, because its kind forgets events
    /// at random (stable filters, and filters with equal timers).
    pub promised_false_negatives: Option<f64>,
    /// Number of keys that are excluded because an answer was lost, so that it is unknown whether they were recorded.
    pub unknown_keys: usize,
    /// Whether the audit has ended early. An audit ends when the number of keys that it remembers reaches its maximum
    /// ([`ConnectOptions::audit_keys_max`](crate::ConnectOptions::audit_keys_max)).
    pub has_ended: bool,
    /// Whether an audit is impossible, because the window counts events of all producers and one producer sees only its
    /// own.
    pub is_impossible: bool,
}

/// Number of errors among a number of cases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ErrorRate {
    /// Number of cases that were answered wrongly.
    pub errors: u64,
    /// Number of all cases.
    pub cases: u64,
}

impl ErrorRate {
    /// Creates the rate of `errors` wrong answers among these and `others` right answers.
    pub(super) fn of(errors: u64, others: u64) -> Self {
        Self { errors, cases: errors + others }
    }

    /// Returns the measured rate, or 0 if there are no cases.
    ///
    /// ```
    /// use firstseen_client::ErrorRate;
    /// assert_eq!(ErrorRate { errors: 3, cases: 300 }.rate(), 0.01);
    /// ```
    pub fn rate(&self) -> f64 {
        if self.cases == 0 { 0.0 } else { self.errors as f64 / self.cases as f64 }
    }

    /// Returns an upper bound of the true error rate. The bound holds with 95 % confidence (one-sided, after Clopper
    /// and Pearson). If no cases were observed, nothing is known about the rate, and the bound is 1.
    ///
    /// ```
    /// use firstseen_client::ErrorRate;
    /// let none_of_300 = ErrorRate { errors: 0, cases: 300 };
    /// assert!((none_of_300.at_most() - 0.009936).abs() < 1e-5);
    /// ```
    pub fn at_most(&self) -> f64 {
        if self.errors >= self.cases {
            return 1.0;
        }
        let mut low = self.rate();
        let mut high = 1.0;
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.binomial_cdf(middle) > BOUND_ALPHA { low = middle } else { high = middle }
        }
        high
    }

    /// Returns the probability that a sample contains at most the observed number of errors, if the true error rate is
    /// `rate`. This probability is a sum of terms of the binomial distribution. The function adds the terms from the
    /// greatest to the smallest, and stops when a term is too small to change the sum.
    fn binomial_cdf(&self, rate: f64) -> f64 {
        let cases = self.cases as f64;
        let odds = (1.0 - rate) / rate;
        // Logarithm of the term for `errors` errors. The loop is bounded, because an audit has at most about a million
        // errors.
        let choose: f64 = (0..self.errors).map(|i| ((cases - i as f64) / (self.errors - i) as f64).ln()).sum();
        let top = choose + self.errors as f64 * rate.ln() + (cases - self.errors as f64) * (-rate).ln_1p();
        let mut term = 1.0;
        let mut sum = 1.0;
        for errors in (1..=self.errors).rev() {
            term *= errors as f64 / (cases - errors as f64 + 1.0) * odds;
            sum += term;
            if term < sum * 1e-15 {
                break;
            }
        }
        sum * top.exp()
    }
}

/// Error rates that the definition of a filter promises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Promised {
    pub(super) false_positives: Option<f64>,
    pub(super) false_negatives: Option<f64>,
}

impl Promised {
    /// Returns the error rates that the definition of the filter promises. They are computed for one slice group, which
    /// is a single slice of a horizontal filter, or all slices of a vertical filter. Every event is judged by exactly
    /// one group, so the rates of a group are also the rates of the whole filter.
    pub(super) fn by(group: &FilterDefinition) -> Self {
        Self {
            false_positives: group.cells.kept_rate(group.rate),
            false_negatives: group.cells.misses_nothing().then_some(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind};

    use super::*;

    #[test]
    fn bounds_are_those_of_the_tables() {
        // Bounds at 95 % confidence, one-sided. Without errors the bound is 1 - 0.05^(1/n). The others were computed in
        // R with qbeta(0.95, 6, 95) and qbeta(0.95, 101, 9900).
        for (errors, cases, bound) in [(0, 10, 0.258866), (5, 100, 0.102253), (100, 10_000, 0.011808)] {
            let at_most = ErrorRate { errors, cases }.at_most();
            assert!((at_most - bound).abs() < 2e-4, "{errors} of {cases}: {at_most} instead of {bound}");
        }
        assert_eq!(ErrorRate::default().at_most(), 1.0);
    }

    #[test]
    fn what_is_promised_follows_from_the_definition() {
        let spec = |kind: Kind, window: &str| FilterSpec {
            capacity_events: Some(1000),
            rate: 0.02,
            ..FilterSpec::new(kind, window.parse().unwrap())
        };
        let promised = |spec: FilterSpec| {
            let Promised { false_positives, false_negatives } = Promised::by(&spec.resolve().unwrap());
            (false_positives, false_negatives)
        };
        for (kind, window) in
            [(Kind::Bloom, "landmark:1d"), (Kind::Timing, "1h"), (Kind::Generations, "1h"), (Kind::Counting, "1h")]
        {
            assert_eq!(promised(spec(kind, window)), (Some(0.02), Some(0.0)), "{kind}");
            let sized = FilterSpec { capacity_events: None, cells: Some(4096), ..spec(kind, window) };
            assert_eq!(promised(sized), (None, Some(0.0)), "{kind}: nothing but a size was chosen");
        }
        assert_eq!(promised(spec(Kind::Cuckoo, "1h")), (Some(0.02), Some(0.0)));
        let grows = FilterSpec { capacity_events: None, ..spec(Kind::Timing, "1h") };
        assert_eq!(promised(grows), (Some(0.02), Some(0.0)));
        let alike = FilterSpec { equal_timers: 1, ..spec(Kind::Timing, "1h") };
        assert_eq!(promised(alike), (Some(0.02), None));
        let (fading, missed) = promised(spec(Kind::Stable, "unbounded"));
        assert!(fading.is_some_and(|rate| (rate - 0.02).abs() < 1e-9) && missed.is_none(), "{fading:?}, {missed:?}");
    }
}
