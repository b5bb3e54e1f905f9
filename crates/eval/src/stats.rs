//! The mean of the measurements of several seeds, its 95 % interval, and a verdict on an expected value.
//!
//! **Which statistics.** A point is measured by R independent runs, one a seed. The events of one run share a filter:
//! cells that one of them sets are met by others, so they are no independent trials, and a binomial interval over all
//! of them may be too narrow. Runs are independent. So successes are pooled (a ratio of sums, which weights runs by
//! their trials and has no bias where few succeed), and the error of the ratio follows from how much runs differ, with
//! Student's t for R - 1 degrees of freedom. R runs know their own variance only roughly, and of rare successes next to
//! nothing; so no band is narrower than the exact binomial one of as many independent trials. A run may have an
//! expected value of its own, where that depends on the stream that was drawn. Then each run is compared with its own
//! expected value, and the distance is judged, so that the variation that both share is no error.
//!
//! Promises: formulas beside the functions; the same numbers give the same verdict. Must not know: what was measured.

use firstseen_filter::rates::band;
pub use firstseen_picture::Judged;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The confidence of intervals that are shown.
pub const SHOWN: f64 = 0.95;
/// The chance that the bands of a document leave a point out although all of its formulas hold; where runs are few,
/// [`OFF_MAX`] adds to that chance.
pub const FALSE_ALARM: f64 = 1e-3;
/// Relative difference beyond which a point is out where it was measured exactly enough to know.
pub const OFF_MAX: f64 = 0.1;
/// Confidence of the interval that must be narrower than [`OFF_MAX`] for "well enough": 4 standard errors, were they known.
const OFF_CONFIDENCE: f64 = 1.0 - 6.3e-5;
/// Relative difference of two numbers that are the same but for rounding.
const ROUNDING: f64 = 1e-9;

/// Successes of trials in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Trials that succeeded.
    pub successes: u64,
    /// Trials.
    pub trials: u64,
}

/// A mean over runs, with its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean over runs, weighted by their trials where there are such.
    pub mean: f64,
    /// Standard error of the mean, from the differences between runs.
    pub standard_error: f64,
    /// Standard error of the mean's distance from the expected value: from the differences between runs in that
    /// distance.
    pub distance_error: f64,
    /// Runs (R).
    pub runs: u32,
    /// Trials of all runs, or values that went into their means.
    pub samples: u64,
    /// Successes of all runs, where they were counted.
    pub successes: Option<u64>,
}

impl Estimate {
    /// The pooled rate of runs with `s_r` successes of `n_r` trials: `p = sum s_r / sum n_r`, and as a ratio estimator
    /// `error^2 = R/(R-1) * sum (s_r - p n_r)^2 / (sum n_r)^2` (Cochran, "Sampling Techniques", 1977, 6.3 and 10A.2).
    ///
    /// ```
    /// use firstseen_eval::stats::{Counts, Estimate};
    /// let runs = [(10, 100), (14, 100), (12, 100)].map(|(successes, trials)| Counts { successes, trials });
    /// let estimate = Estimate::of_counts(&runs);
    /// assert_eq!((estimate.mean, estimate.samples), (0.12, 300));
    /// assert!((estimate.standard_error - 0.02 / 3f64.sqrt()).abs() < 1e-12);
    /// ```
    pub fn of_counts(runs: &[Counts]) -> Self {
        let successes: u64 = runs.iter().map(|run| run.successes).sum();
        let trials: u64 = runs.iter().map(|run| run.trials).sum();
        let mean = if trials == 0 { f64::NAN } else { successes as f64 / trials as f64 };
        let standard_error =
            ratio_error(runs.iter().map(|run| run.successes as f64 - mean * run.trials as f64), trials);
        let runs = runs.len() as u32;
        Self { mean, standard_error, distance_error: standard_error, runs, samples: trials, successes: Some(successes) }
    }

    /// The pooled rate of runs each of which expects a rate `e_r` of its own, and the expected rate of all, `e = sum
    /// e_r n_r / sum n_r`. The distance `p - e` is the pooled rate of `d_r = s_r - e_r n_r`, with the error of a ratio.
    pub fn of_counts_beside(runs: &[Counts], expected: &[f64]) -> (Self, f64) {
        let pooled = Self::of_counts(runs);
        let distances = runs.iter().zip(expected).map(|(run, rate)| run.successes as f64 - rate * run.trials as f64);
        let trials = pooled.samples as f64;
        let distance = distances.clone().sum::<f64>() / trials;
        let residuals = distances.zip(runs).map(|(off, run)| off - distance * run.trials as f64);
        let distance_error = ratio_error(residuals, pooled.samples);
        (Self { distance_error, ..pooled }, pooled.mean - distance)
    }

    /// The mean of one value a run, each from `samples_per_run` samples: `error = deviation / sqrt(R)`.
    ///
    /// ```
    /// use firstseen_eval::stats::Estimate;
    /// let estimate = Estimate::of_values(&[1.0, 2.0, 3.0], 10);
    /// assert_eq!((estimate.mean, estimate.samples), (2.0, 30));
    /// assert!((estimate.standard_error - 1.0 / 3f64.sqrt()).abs() < 1e-12);
    /// ```
    pub fn of_values(runs: &[f64], samples_per_run: u64) -> Self {
        let count = runs.len() as f64;
        let mean = runs.iter().sum::<f64>() / count;
        let squares: f64 = runs.iter().map(|value| (value - mean) * (value - mean)).sum();
        let standard_error = (squares / (count - 1.0) / count).sqrt();
        let samples = samples_per_run * runs.len() as u64;
        let runs = runs.len() as u32;
        Self { mean, standard_error, distance_error: standard_error, runs, samples, successes: None }
    }

    /// The mean of one value a run, where each run expects a value of its own; and the mean of these expected values.
    ///
    /// ```
    /// use firstseen_eval::stats::Estimate;
    /// let (estimate, expected) = Estimate::of_values_beside(&[1.0, 20.0, 300.0], &[1.1, 20.1, 300.1], 10);
    /// assert!((estimate.mean - 107.0).abs() < 1e-9 && (expected - 107.1).abs() < 1e-9);
    /// // They differ by much, but never from what they expect by anything else than 0.1.
    /// assert!(estimate.standard_error > 90.0 && estimate.distance_error < 1e-9);
    /// ```
    pub fn of_values_beside(runs: &[f64], expected: &[f64], samples_per_run: u64) -> (Self, f64) {
        let distances: Vec<f64> = runs.iter().zip(expected).map(|(value, expected)| value - expected).collect();
        let distance = Self::of_values(&distances, samples_per_run);
        let values = Self::of_values(runs, samples_per_run);
        (Self { distance_error: distance.standard_error, ..values }, values.mean - distance.mean)
    }

    /// The same for values that count rare events: another run may have one more or fewer, though none of these runs
    /// has, so the error of the mean is at least `1 / sqrt(R)`.
    pub fn of_rare(self) -> Self {
        self.with_error_of(f64::from(self.runs).sqrt().recip())
    }

    /// The same where the error of the distance is known to be at least `error` from elsewhere: runs that have not met
    /// a rare event do not show it.
    pub fn with_error_of(self, error: f64) -> Self {
        Self { distance_error: self.distance_error.max(error), ..self }
    }

    /// The interval that holds the true mean with `confidence` (above 0, below 1): `mean -+ t(R-1) error`. Of counts at
    /// least Wilson's score interval (1927), which is never empty, also where nothing succeeded. One run of values
    /// has no interval: it is then all numbers.
    pub fn interval(&self, confidence: f64) -> (f64, f64) {
        let reach = self.reach(confidence, self.standard_error);
        let low = self.mean - reach;
        let high = self.mean + reach;
        match self.successes {
            None => (low, high),
            Some(successes) => {
                let (score_low, score_high) = wilson(successes as f64, self.samples as f64, confidence);
                (low.min(score_low).max(0.0), high.max(score_high).min(1.0))
            }
        }
    }

    /// `t error` for the two-sided `confidence`; infinite where one run leaves nothing to compare.
    fn reach(&self, confidence: f64, standard_error: f64) -> f64 {
        let freedom = f64::from(self.runs) - 1.0;
        match StudentsT::new(0.0, 1.0, freedom) {
            Ok(student) => student.inverse_cdf((1.0 + confidence) / 2.0) * standard_error,
            Err(_) => f64::INFINITY,
        }
    }

    /// Judges the mean against the expected value, as one of `points` points that are judged together.
    ///
    /// A point is out if it lies outside the band that holds the mean with chance `1 - 10^-3 / points` (Bonferroni), so
    /// that a document of any length is out by chance once in a thousand runs; or if it is more than 10 % off, where that is
    /// known so well that it is chance once in 16,000 points: of many points the band is wide, and would hide a formula that
    /// is wrong.
    /// The band is `expected -+ t(R-1) error`, or of counts the exact binomial band of as many independent trials,
    /// whichever is wider. For the 10 %, the error is at least the binomial one, `sqrt(p (1 - p) / n)` at the expected p.
    /// The error is that of the distance, where every run expects something of its own.
    ///
    /// ```
    /// use firstseen_eval::stats::{Counts, Estimate, Judged};
    /// let runs: Vec<_> = (0..20).map(|run| Counts { successes: 990 + run, trials: 100_000 }).collect();
    /// let estimate = Estimate::of_counts(&runs);
    /// assert_eq!(estimate.judge(0.01, 10), Judged::In);
    /// assert_eq!(estimate.judge(0.012, 10), Judged::Out);
    /// ```
    pub fn judge(&self, expected: f64, points: usize) -> Judged {
        let off = (self.mean - expected).abs();
        if !off.is_finite() {
            return Judged::Out;
        }
        let confidence = 1.0 - FALSE_ALARM / points.max(1) as f64;
        let in_exact_band = self.successes.is_some_and(|successes| {
            (0.0..=1.0).contains(&expected) && band::binomial(expected, self.samples, confidence).contains(&successes)
        });
        let in_band =
            off <= self.reach(confidence, self.distance_error) || in_exact_band || off <= ROUNDING * expected.abs();
        let is_known = OFF_MAX * expected.abs() > self.reach(OFF_CONFIDENCE, self.error_at(expected));
        let is_far = is_known && off > OFF_MAX * expected.abs();
        if in_band && !is_far { Judged::In } else { Judged::Out }
    }

    /// The error of the distance, at least that of independent trials at the expected rate.
    fn error_at(&self, expected: f64) -> f64 {
        let independent = match self.successes {
            Some(_) => (expected * (1.0 - expected)).max(0.0) / self.samples as f64,
            None => 0.0,
        };
        self.distance_error.max(independent.sqrt())
    }
}

/// The error of a ratio of sums: `sqrt(R/(R-1) sum r^2) / sum n_r` of the runs' residuals r (Cochran 1977, 6.3).
fn ratio_error(residuals: impl Iterator<Item = f64>, trials: u64) -> f64 {
    let (squares, count) = residuals.fold((0.0, 0.0), |(squares, count), off| (squares + off * off, count + 1.0));
    (count / (count - 1.0) * squares).sqrt() / trials as f64
}

/// Wilson's score interval (1927) of s successes of n trials: with z of the normal distribution,
/// `(s + z^2/2 -+ z sqrt(s (n - s)/n + z^2/4)) / (n + z^2)`. (That of Clopper and Pearson needs quantiles of Beta
/// distributions, which `statrs` seeks without end where s = 0 and n is millions.)
fn wilson(successes: f64, trials: f64, confidence: f64) -> (f64, f64) {
    let z = Normal::standard().inverse_cdf((1.0 + confidence) / 2.0);
    let middle = successes + z * z / 2.0;
    let reach = z * (successes * (trials - successes) / trials + z * z / 4.0).sqrt();
    ((middle - reach) / (trials + z * z), (middle + reach) / (trials + z * z))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, known: f64, allowed: f64) {
        assert!((value - known).abs() < allowed, "{value}, known {known}");
    }

    /// An estimate with an error of 1.
    fn unit(mean: f64) -> Estimate {
        Estimate { mean, standard_error: 1.0, distance_error: 1.0, runs: 2, samples: 1, successes: None }
    }

    #[test]
    fn student_s_interval_is_that_of_the_tables() {
        // t(0.975, 19) = 2.093, t(0.975, 4) = 2.776.
        for (runs, table) in [(20, 2.093), (5, 2.776)] {
            let estimate = Estimate { runs, samples: 100, ..unit(7.0) };
            let (low, high) = estimate.interval(SHOWN);
            near(high - 7.0, table, 1e-3);
            near(7.0 - low, table, 1e-3);
        }
        assert!(!Estimate::of_values(&[1.0], 1).interval(SHOWN).1.is_finite());
    }

    #[test]
    fn nothing_of_many_trials_has_an_upper_end() {
        let runs = [Counts { successes: 0, trials: 1000 }; 3];
        let (low, high) = Estimate::of_counts(&runs).interval(SHOWN);
        assert_eq!(low, 0.0);
        near(high, 3.8415 / 3003.8415, 1e-7);
        // The textbook's 8 of 10: 0.490 to 0.943.
        let (low, high) = wilson(8.0, 10.0, SHOWN);
        near(low, 0.490, 1e-3);
        near(high, 0.943, 1e-3);
        assert!(wilson(0.0, 1e12, SHOWN).1 < 4e-12);
        assert_eq!(Estimate::of_counts(&runs).judge(1e-4, 5), Judged::In);
        assert_eq!(Estimate::of_counts(&runs).judge(1e-2, 5), Judged::Out);
    }

    #[test]
    fn quantiles_are_found_for_any_number_of_runs_and_points() {
        for runs in 2..=120 {
            for points in [1, 50, 1000] {
                let estimate = Estimate { runs, samples: 1 << 40, successes: Some(0), ..unit(0.0) };
                let reach = estimate.reach(1.0 - FALSE_ALARM / f64::from(points), 1.0);
                assert!(reach > 3.2 && reach.is_finite(), "{runs} runs, {points} points: {reach}");
            }
        }
    }

    #[test]
    fn what_is_far_off_is_out_however_many_points_there_are() {
        let runs = |spread: u64| {
            let run = |run: u64| Counts { successes: 10_000 + spread * run - 9 * spread / 2, trials: 1_000_000 };
            Estimate::of_counts(&(0..10).map(run).collect::<Vec<_>>())
        };
        // Ten runs whose mean has an error of 1.4 %: for a million points the band is wider than 40 %, and 10 % off are
        // certain.
        assert_eq!(runs(150).judge(0.0112, 1_000_000), Judged::Out);
        assert_eq!(runs(150).judge(0.0108, 1_000_000), Judged::In);
        assert_eq!(runs(400).judge(0.0112, 1_000_000), Judged::In, "10 % are not known");
    }

    #[test]
    fn runs_that_expect_something_of_their_own_are_judged_by_their_distance() {
        let (rates, trials) = ([0.1, 0.2, 0.3, 0.4], 1_000_000);
        let runs = rates.map(|rate| Counts { successes: (rate * 1.02 * trials as f64) as u64, trials });
        let (estimate, expected) = Estimate::of_counts_beside(&runs, &rates);
        near(expected, 0.25, 1e-12);
        near(estimate.mean, 0.255, 1e-6);
        near(estimate.standard_error, 1.02 * 0.1291 / 2.0, 1e-4);
        near(estimate.distance_error, 0.02 * 0.1291 / 2.0, 1e-5);
        assert_eq!(Estimate::of_counts(&runs).judge(0.25, 1), Judged::In);
        // Each value is 2 % above its own expected one.
        let (estimate, expected) =
            Estimate::of_counts_beside(&[runs, runs, runs].concat(), &[rates, rates, rates].concat());
        assert_eq!(estimate.judge(expected, 1), Judged::Out);
    }

    #[test]
    fn what_never_varies_is_in_only_if_it_is_the_same() {
        let estimate = Estimate::of_values(&[0.3, 0.3, 0.3], 5);
        assert_eq!(estimate.judge(0.1 + 0.2, 5), Judged::In);
        assert_eq!(estimate.judge(0.31, 5), Judged::Out);
        assert_eq!(estimate.judge(f64::NAN, 5), Judged::Out);
    }
}
