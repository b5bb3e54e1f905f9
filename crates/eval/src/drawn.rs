//! Means of models whose places are drawn, for quantities without a formula.
//!
//! Promises: a mean comes with the error of its draws. Must not know: what is modelled, filters.

/// A quantity of one run's model, from several draws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    /// Mean over draws.
    pub(crate) mean: f64,
    /// The variance from one draw to another.
    variance: f64,
    draws: f64,
}

impl Drawn {
    /// The mean of at least two draws.
    pub(crate) fn of(values: &[f64]) -> Self {
        let draws = values.len() as f64;
        let mean = values.iter().sum::<f64>() / draws;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        Self { mean, variance: squares / (draws - 1.0), draws }
    }

    /// The error of a mean over runs, less that of their models, one of which belongs to each run: a rare event may be
    /// in no run and still be in the draws, of which there are more. `sqrt(v (1 + 1/D) / R)` for R runs, D draws of
    /// each, v the mean of the variances between draws.
    pub(crate) fn error(of_runs: &[Self]) -> f64 {
        let runs = of_runs.len() as f64;
        of_runs.iter().map(|run| run.variance * (1.0 + 1.0 / run.draws)).sum::<f64>().sqrt() / runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_one_run_and_of_its_draws() {
        let drawn = Drawn::of(&[1.0, 3.0]);
        assert_eq!((drawn.mean, drawn.variance), (2.0, 2.0));
        // A run that varies as its draws do, less the mean of two of them: 2 + 2/2; of four runs a quarter of that.
        assert!((Drawn::error(&[drawn; 4]) - (3.0f64 / 4.0).sqrt()).abs() < 1e-12);
    }
}
