//! Statistics over the runs of an experiment: the mean of several seeds, its 95 % interval, and the judgement of an
//! expected value.
//!
//! **Why runs are the unit.** A point is measured by R independent runs, one for each seed. The events of one run share
//! a filter: an event meets the cells that other events have set. Events of a run are therefore not independent trials,
//! and a binomial interval over all of them may be too narrow. Runs are independent. The successes of all runs are
//! pooled as a ratio of sums, which weights runs by their trials and has no bias if successes are rare. The error of
//! the ratio follows from the differences between runs, with Student's t distribution for R - 1 degrees of freedom.
//!
//! **Lower bound of a band.** R runs determine their own variance only roughly, and hardly at all if successes are
//! rare. No band is therefore narrower than the exact binomial band of the same number of independent trials.
//!
//! **Runs with their own expected values.** The expected value of a run may depend on the stream that was drawn for it.
//! Each run is then compared with its own expected value, and the distance is judged. The variation that both values
//! share does not count as an error.
//!
//! The same measurements always give the same judgement. The formulas are documented at the functions that use them.
//!
//! This module does not depend on what was measured.

use firstseen_filter::rates::band;
pub use firstseen_picture::Judged;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Confidence of the intervals that are shown.
pub const SHOWN: f64 = 0.95;
/// Probability of a false alarm in the results of one experiment. A false alarm means that at least one measured point
/// lies outside the range that its formula permits (its band), although all formulas are correct.
///
/// The additional limit [`OFF_MAX`] makes a false alarm slightly more likely if the experiment has only few runs.
pub const FALSE_ALARM: f64 = 1e-3;
/// Maximum relative difference between a measured value and its expected value. A point with a greater difference
/// counts as out of band, if it was measured precisely enough.
pub const OFF_MAX: f64 = 0.1;
/// Confidence level that decides whether a point was measured precisely enough for the limit [`OFF_MAX`]. The limit
/// applies only if the confidence interval of the point at this level is narrower than the limit. If the variance is
/// known, the level corresponds to 4 standard errors.
const OFF_CONFIDENCE: f64 = 1.0 - 6.3e-5;
/// Relative difference up to which two numbers count as equal except for rounding.
const ROUNDING: f64 = 1e-9;

/// Number of trials and successes in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of successful trials.
    pub successes: u64,
    /// Number of trials.
    pub trials: u64,
}

/// Mean over runs, together with its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean over runs. If the runs have trials, they are weighted by them.
    pub mean: f64,
    /// Standard error of the mean, from the differences between runs.
    pub standard_error: f64,
    /// Standard error of the distance between the mean and the expected value, from the differences between the
    /// distances of the runs.
    pub distance_error: f64,
    /// Number of runs (R).
    pub runs: u32,
    /// Number of trials of all runs, or number of values that went into their means.
    pub samples: u64,
    /// Number of successes of all runs, if they were counted.
    pub successes: Option<u64>,
}

impl Estimate {
    /// Returns the rate of all runs together. If run r has `s_r` successes in `n_r` trials, this rate is `p = sum s_r /
    /// sum n_r`. Its error is that of a ratio estimator for R runs, `error^2 = R/(R-1) * sum (s_r - p n_r)^2 / (sum
    /// n_r)^2` (Cochran, "Sampling Techniques", 1977, 6.3 and 10A.2).
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

    /// Returns the measured and the expected rate of all runs together, for runs that each have an expected rate of
    /// their own. If run r has the expected rate `e_r` and `n_r` trials, the expected rate of all runs is `e = sum e_r
    /// n_r / sum n_r`. The error of the distance `p - e` is computed from the differences `d_r = s_r - e_r n_r` of the
    /// runs, as the error of a ratio.
    pub fn of_counts_with_expected(runs: &[Counts], expected: &[f64]) -> (Self, f64) {
        let pooled = Self::of_counts(runs);
        let distances = runs.iter().zip(expected).map(|(run, rate)| run.successes as f64 - rate * run.trials as f64);
        let trials = pooled.samples as f64;
        let distance = distances.clone().sum::<f64>() / trials;
        let residuals = distances.zip(runs).map(|(off, run)| off - distance * run.trials as f64);
        let distance_error = ratio_error(residuals, pooled.samples);
        (Self { distance_error, ..pooled }, pooled.mean - distance)
    }

    /// Returns the mean of one value per run, where each value comes from `samples_per_run` samples. The error is
    /// `deviation / sqrt(R)`.
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

    /// Returns the mean of one value per run, where each run has its own expected value, and the mean of these expected
    /// values.
    ///
    /// ```
    /// use firstseen_eval::stats::Estimate;
    /// let (estimate, expected) = Estimate::of_values_with_expected(&[1.0, 20.0, 300.0], &[1.1, 20.1, 300.1], 10);
    /// assert!((estimate.mean - 107.0).abs() < 1e-9 && (expected - 107.1).abs() < 1e-9);
    /// // They differ by much, but never from what they expect by anything else than 0.1.
    /// assert!(estimate.standard_error > 90.0 && estimate.distance_error < 1e-9);
    /// ```
    pub fn of_values_with_expected(runs: &[f64], expected: &[f64], samples_per_run: u64) -> (Self, f64) {
        let distances: Vec<f64> = runs.iter().zip(expected).map(|(value, expected)| value - expected).collect();
        let distance = Self::of_values(&distances, samples_per_run);
        let values = Self::of_values(runs, samples_per_run);
        (Self { distance_error: distance.standard_error, ..values }, values.mean - distance.mean)
    }

    /// Returns the estimate with an error that is suitable for counts of rare events. The usual error is computed from
    /// the differences between runs. If no run has met a rare event, all runs have the same count, so this error is
    /// zero, although another run could have met the event once. The error of the mean is therefore at least `1 /
    /// sqrt(R)` for R runs.
    pub fn of_rare(self) -> Self {
        self.with_error_of(f64::from(self.runs).sqrt().recip())
    }

    /// Returns the estimate with a distance error of at least `error`. This method is useful if the error is known from
    /// another source than the differences between runs. For example, if no run has met a rare event, the runs do not
    /// differ, but the error is not zero.
    pub fn with_error_of(self, error: f64) -> Self {
        Self { distance_error: self.distance_error.max(error), ..self }
    }

    /// Returns the interval that contains the true mean with the given confidence, which must be above 0 and below 1.
    /// The interval is `mean -+ t(R-1) error`. For counts, it is at least as wide as Wilson's score interval (1927),
    /// because that interval is not empty even if there were no successes. A single run does not show how much runs
    /// differ, so the interval then contains all numbers.
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

    /// Returns `t error` for the two-sided `confidence`. The result is infinite if there is only one run, because
    /// nothing can be compared.
    fn reach(&self, confidence: f64, standard_error: f64) -> f64 {
        let freedom = f64::from(self.runs) - 1.0;
        match StudentsT::new(0.0, 1.0, freedom) {
            Ok(student) => student.inverse_cdf((1.0 + confidence) / 2.0) * standard_error,
            Err(_) => f64::INFINITY,
        }
    }

    /// Judges the measured mean of a point by comparing it with the expected value. The result is [`Judged::Out`] if
    /// the mean lies outside a band around the expected value, or if it was measured precisely and still differs from
    /// the expected value by more than 10 %. Otherwise the result is [`Judged::In`].
    ///
    /// The parameter `points` is the number of points that are judged together: the more points there are, the wider
    /// the band is. If every run has its own expected value, the band is computed from the error of the difference
    /// between the measured and the expected values.
    ///
    /// The band is so wide that measured values rarely lie outside of it by chance. If a document has `points` points
    /// and all its formulas are correct, each point lies outside its band with the probability `10^-3 / points`
    /// (Bonferroni). The probability that the document has any point outside is therefore about one in a thousand,
    /// however many points it has.
    ///
    /// For R runs, the band is `expected -+ t(R-1) error`. For counts, the exact binomial band for the same number of
    /// independent trials is used instead if it is wider.
    ///
    /// The limit of 10 % is needed because the band is wide if a document has many points. A wide band alone could hide
    /// a wrong formula. The limit applies only to points that were measured precisely: if the formula is correct, only
    /// one in 16,000 of these points exceeds the limit by chance. For rates, the error of a point is assumed to be at
    /// least the binomial error `sqrt(p (1 - p) / n)`, where p is the expected rate and n is the number of trials.
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

    /// Returns the error of the distance, which is at least that of independent trials at the expected rate.
    fn error_at(&self, expected: f64) -> f64 {
        let independent = match self.successes {
            Some(_) => (expected * (1.0 - expected)).max(0.0) / self.samples as f64,
            None => 0.0,
        };
        self.distance_error.max(independent.sqrt())
    }
}

/// Returns the error of a ratio of sums, `sqrt(R/(R-1) sum r^2) / sum n_r`, from the residuals r of the runs (Cochran
/// 1977, 6.3).
fn ratio_error(residuals: impl Iterator<Item = f64>, trials: u64) -> f64 {
    let (squares, count) = residuals.fold((0.0, 0.0), |(squares, count), off| (squares + off * off, count + 1.0));
    (count / (count - 1.0) * squares).sqrt() / trials as f64
}

/// Returns Wilson's score interval (1927) of s successes in n trials. With the quantile z of the normal distribution,
/// the interval is `(s + z^2/2 -+ z sqrt(s (n - s)/n + z^2/4)) / (n + z^2)`.
///
/// The interval of Clopper and Pearson is not used, because it needs quantiles of Beta distributions. The search of
/// `statrs` for these quantiles does not end if s = 0 and n is in the millions.
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

    /// Returns an estimate with an error of 1.
    fn unit(mean: f64) -> Estimate {
        Estimate { mean, standard_error: 1.0, distance_error: 1.0, runs: 2, samples: 1, successes: None }
    }

    #[test]
    fn student_s_interval_is_that_of_the_tables() {
        // The table has t(0.975, 19) = 2.093 and t(0.975, 4) = 2.776.
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
        // A textbook example has 8 of 10 successes: 0.490 to 0.943.
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
        // The mean of ten runs has an error of 1.4 %. For a million points the band is wider than 40 %, but a
        // difference of 10 % is certain.
        assert_eq!(runs(150).judge(0.0112, 1_000_000), Judged::Out);
        assert_eq!(runs(150).judge(0.0108, 1_000_000), Judged::In);
        assert_eq!(runs(400).judge(0.0112, 1_000_000), Judged::In, "10 % are not known");
    }

    #[test]
    fn runs_that_expect_something_of_their_own_are_judged_by_their_distance() {
        let (rates, trials) = ([0.1, 0.2, 0.3, 0.4], 1_000_000);
        let runs = rates.map(|rate| Counts { successes: (rate * 1.02 * trials as f64) as u64, trials });
        let (estimate, expected) = Estimate::of_counts_with_expected(&runs, &rates);
        near(expected, 0.25, 1e-12);
        near(estimate.mean, 0.255, 1e-6);
        near(estimate.standard_error, 1.02 * 0.1291 / 2.0, 1e-4);
        near(estimate.distance_error, 0.02 * 0.1291 / 2.0, 1e-5);
        assert_eq!(Estimate::of_counts(&runs).judge(0.25, 1), Judged::In);
        // Each value is 2 % above its own expected value.
        let (estimate, expected) =
            Estimate::of_counts_with_expected(&[runs, runs, runs].concat(), &[rates, rates, rates].concat());
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
