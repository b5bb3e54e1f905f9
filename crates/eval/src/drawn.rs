//! Means of simulated models, for quantities without a formula.
//!
//! Each mean comes with the error of its draws.
//!
//! This module does not depend on filters or on what is modelled.

/// Quantity of the model of one run, from several draws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    /// Mean over draws.
    pub(crate) mean: f64,
    /// Variance between draws.
    variance: f64,
    draws: f64,
}

impl Drawn {
    /// Returns the mean of at least two draws.
    pub(crate) fn of(values: &[f64]) -> Self {
        let draws = values.len() as f64;
        let mean = values.iter().sum::<f64>() / draws;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        Self { mean, variance: squares / (draws - 1.0), draws }
    }

    /// Returns the standard error of the difference between a measured mean and a predicted mean. Both means are taken
    /// over all runs: the measured mean over the results of the runs, and the predicted mean over their models. Each
    /// run has its own model, which was simulated several times with random draws.
    ///
    /// The error is computed from the random draws of the models and not from the measurements. If an event is so rare
    /// that no run has it, all measurements are equal and would seem to have no error at all. Some draws of the models
    /// do have the event.
    ///
    /// For R runs, each with D draws of its model, the standard error is `sqrt(v (1 + 1/D) / R)`. Here, v is the variance
    /// of the draws of one run, averaged over the R runs.
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
        // A run varies as its draws do. The difference to the mean of two draws has the variance 2 + 2/2, and for four
        // runs a quarter of that.
        assert!((Drawn::error(&[drawn; 4]) - (3.0f64 / 4.0).sqrt()).abs() < 1e-12);
    }
}
