//! The result of an audit: errors among cases, an upper bound of the true rate, and the rate that was promised.
//!
//! Promises: a bound holds whatever the number of cases; where a definition promises no rate, the report has none. Must
//! not know: how cases are found.

use firstseen_filter::FilterDefinition;

/// Chance that a rate is above the reported bound.
const BOUND_ALPHA: f64 = 0.05;

/// How often a filter errs, as measured on a sample of keys, beside what its definition promises;
/// [`crate::Filter::audit`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AuditReport {
    /// The share of keys that are watched.
    pub sample_rate: f64,
    /// Keys that are remembered at present.
    pub keys: usize,
    /// First sightings that were called duplicates, of all first sightings (of this producer).
    pub false_positives: ErrorRate,
    /// The rate of false positives that the filter is sized for; none where nothing but its size was chosen
    /// (`--cells`), as its rate then follows from the events that come.
    pub promised_false_positives: Option<f64>,
    /// Repeats within the window that were called first-seen, of all repeats.
    pub false_negatives: ErrorRate,
    /// 0 for the kinds that miss nothing; none where the kind forgets by chance (stable, equal timers).
    pub promised_false_negatives: Option<f64>,
    /// Keys left out as an answer was lost: it is not known whether they were recorded.
    pub unknown_keys: usize,
    /// The audit has ended, as it would have needed more keys than allowed ([`ConnectOptions::audit_keys_max`](crate::ConnectOptions::audit_keys_max)).
    pub has_ended: bool,
    /// The window counts the events of all producers: one producer alone can measure nothing.
    pub is_impossible: bool,
}

/// Errors among cases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ErrorRate {
    /// Cases answered wrongly.
    pub errors: u64,
    /// Cases.
    pub cases: u64,
}

impl ErrorRate {
    /// The rate of `errors` and `others` that were right.
    pub(super) fn of(errors: u64, others: u64) -> Self {
        Self { errors, cases: errors + others }
    }

    /// Returns the rate measured; 0 without cases.
    ///
    /// ```
    /// use firstseen_client::ErrorRate;
    /// assert_eq!(ErrorRate { errors: 3, cases: 300 }.rate(), 0.01);
    /// ```
    pub fn rate(&self) -> f64 {
        if self.cases == 0 { 0.0 } else { self.errors as f64 / self.cases as f64 }
    }

    /// Returns a bound that the true rate is not above, with 95 % confidence (Clopper and Pearson, one-sided); 1 without cases.
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
            if self.chance_of_no_more(middle) > BOUND_ALPHA { low = middle } else { high = middle }
        }
        high
    }

    /// Chance of at most so many errors if the rate were `rate`. Terms are summed downwards from the greatest, until
    /// they add nothing.
    fn chance_of_no_more(&self, rate: f64) -> f64 {
        let cases = self.cases as f64;
        let odds = (1.0 - rate) / rate;
        // ln of the term at `errors`: errors! is at most a million factors.
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

/// The rates that a definition promises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Promised {
    pub(super) false_positives: Option<f64>,
    pub(super) false_negatives: Option<f64>,
}

impl Promised {
    /// The rates promised of one group: a horizontal slice, or all of a vertical filter. They hold for the whole
    /// filter, as every event is judged by one group.
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
        // One-sided 95 % bounds: 1 - 0.05^(1/n) without errors; R: qbeta(0.95, 6, 95) and qbeta(0.95, 101, 9900).
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
