//! An experiment, and the distribution of its runs over threads.
//!
//! The results of an experiment can be repeated. Two runs with the same seed, number of seeds and scale give the same
//! document, regardless of the timing of threads. Only measured times differ, because they depend on the clock of the
//! run.
//!
//! This module does not depend on what is measured or on files. The caller chooses the clock.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use firstseen_filter::{AskError, BuildError, DecayingError, GeometryError, ProbeError, SpecError, StableError};
use firstseen_routing::{DefinitionError, PlanError, SlicedBuildError, SlicingError, TreeRefusal};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::document::{Document, Parameter, Sheet, Source, judged};
use crate::stream::{Log, StreamError};

/// Number of threads over which runs are distributed.
const THREADS: usize = 2;

/// Size of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Sizes of the papers.
    Full,
    /// Smaller sizes, for a first look or for continuous integration.
    Quick,
    /// Smallest sizes that still show an error, for unit tests.
    Tiny,
}

impl Scale {
    /// Returns the value for this scale.
    pub fn pick<T>(self, full: T, quick: T, tiny: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
            Self::Tiny => tiny,
        }
    }
}

/// Settings of a run of experiments.
pub struct Run<'a> {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of independent runs of every point, at least 2. Intervals are computed from the differences between runs.
    pub seeds: u32,
    /// Sizes of the experiments.
    pub scale: Scale,
    /// Logs for the experiments that use real events. The list may be empty.
    pub logs: &'a [Log],
    /// Callback that reports progress. It is called after each run, on the thread that runs the experiment. Its
    /// arguments are the number of finished runs and the number of all runs.
    pub progress: &'a dyn Fn(usize, usize),
    /// Clock for measurements of time, in nanoseconds since an arbitrary moment.
    pub clock_ns: &'a (dyn Fn() -> u64 + Sync),
    /// Memory of a key on a Redis server in bytes, if it could be measured.
    pub redis_key_bytes: Option<f64>,
    /// Function that tells whether the experiment should end. If so, no further run is started.
    pub is_over: &'a (dyn Fn() -> bool + Sync),
}

/// Error of an experiment.
#[derive(Debug, Error)]
pub enum EvalError {
    /// There are too few seeds. Intervals are computed from the differences between runs.
    #[error("{0} seeds: choose at least 2")]
    Seeds(u32),
    /// The experiment was ended before all runs had started.
    #[error("ended before all runs were done")]
    Over,
    /// A filter cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A sliced filter cannot be built.
    #[error(transparent)]
    Sliced(#[from] SlicedBuildError),
    /// A stable filter cannot be built.
    #[error(transparent)]
    Stable(#[from] StableError),
    /// A definition of a sliced filter is invalid.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A filter specification is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The filter does not support the slicing.
    #[error(transparent)]
    Slicing(#[from] SlicingError),
    /// The filter cannot be divided into these slices.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The filter does not accept the positions.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// A position lies outside the filter.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A filter of frequencies cannot be built.
    #[error(transparent)]
    Decaying(#[from] DecayingError),
    /// A tree cannot be built.
    #[error(transparent)]
    Places(#[from] TreeRefusal),
    /// A geometry is invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A stream cannot be created.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The filter gave a verdict that the experiment does not expect.
    #[error(
        "the filter of experiment {experiment} gave the answer {answer}: its window or size is not that of the experiment"
    )]
    Answer {
        /// Name of the experiment.
        experiment: &'static str,
        /// Verdict of the filter.
        answer: String,
    },
    /// A log has too few distinct events. The formulas assume many cells, so they cannot judge the few cells of a small
    /// log.
    #[error("log {log} has {distinct} distinct events; experiment {experiment} needs at least {distinct_min}")]
    FewDistinct {
        /// Name of the log.
        log: String,
        /// Number of distinct events in the log.
        distinct: u64,
        /// Name of the experiment.
        experiment: &'static str,
        /// Minimum number of distinct events for the experiment.
        distinct_min: u64,
    },
}

/// Experiment in the table of experiments.
pub struct Experiment {
    /// Name of the experiment on the command line.
    pub name: &'static str,
    /// Short title of the experiment.
    pub title: &'static str,
    /// Description of what the experiment shows, in one paragraph.
    pub paragraph: &'static str,
    /// How the experiment measures the logs of a run. An experiment without this value must not read [`Run::logs`].
    pub reads_logs: Option<LogUse>,
    /// Function that measures, and adds the values of the formulas.
    pub measure: fn(&Run<'_>) -> Result<Findings, EvalError>,
}

/// How an experiment uses a log.
pub struct LogUse {
    /// Maximum number of events that are read from the start of the log.
    pub events_max: fn(Scale) -> u64,
    /// Minimum number of distinct events among them. The formulas assume many cells.
    pub distinct_min: u64,
    /// Whether a synthetic stream replaces the log if no log is given.
    pub has_stand_in: bool,
}

impl LogUse {
    /// Returns the part of `events` that the experiment uses.
    pub fn part<'a>(&self, events: &'a [u64], scale: Scale) -> &'a [u64] {
        let most = usize::try_from((self.events_max)(scale)).unwrap_or(usize::MAX);
        &events[..events.len().min(most)]
    }
}

/// Measurements of an experiment.
pub struct Findings {
    /// Figure that the experiment reproduces.
    pub source: Source,
    /// Parameters of the runs.
    pub parameters: Vec<Parameter>,
    /// Measured results.
    pub sheets: Vec<Sheet>,
    /// Notes that say where the paper differs, and why.
    pub notes: Vec<String>,
}

impl Experiment {
    /// Checks that the logs have enough distinct events for the formulas.
    ///
    /// # Errors
    /// Returns [`EvalError::FewDistinct`], which names the log.
    pub fn check_logs(&self, logs: &[Log], scale: Scale) -> Result<(), EvalError> {
        let Some(of) = self.reads_logs.as_ref().filter(|of| of.distinct_min > 1) else { return Ok(()) };
        for log in logs {
            let distinct = of.part(&log.keys, scale).iter().collect::<HashSet<_>>().len() as u64;
            if distinct < of.distinct_min {
                let log = log.name.clone();
                return Err(EvalError::FewDistinct {
                    log,
                    distinct,
                    experiment: self.name,
                    distinct_min: of.distinct_min,
                });
            }
        }
        Ok(())
    }

    /// Runs the experiment and judges its results.
    ///
    /// # Errors
    /// Returns [`EvalError`] if there are too few seeds, if a log is too small, or if there is too little memory.
    pub fn run(&self, run: &Run<'_>) -> Result<Document, EvalError> {
        if run.seeds < 2 {
            return Err(EvalError::Seeds(run.seeds));
        }
        self.check_logs(run.logs, run.scale)?;
        let Findings { source, parameters, sheets, notes } = (self.measure)(run)?;
        Ok(Document {
            name: self.name.to_owned(),
            title: self.title.to_owned(),
            paragraph: self.paragraph.to_owned(),
            source,
            parameters,
            seeds: run.trial_seeds(),
            panels: judged(sheets),
            notes,
        })
    }
}

impl Run<'_> {
    /// Returns the settings of a run without logs, clock and progress.
    pub fn alone(seed: u64, seeds: u32, scale: Scale) -> Self {
        Self {
            seed,
            seeds,
            scale,
            logs: &[],
            progress: &|_, _| (),
            clock_ns: &|| 0,
            redis_key_bytes: None,
            is_over: &|| false,
        }
    }

    /// Returns the seed of every run. A seed has 53 bits, which every JSON reader preserves exactly.
    pub fn trial_seeds(&self) -> Vec<u64> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        (0..self.seeds).map(|_| random.next_u64() >> 11).collect()
    }

    /// Calls `trial` once for every seed, on two threads. Returns the results in the order of the seeds.
    ///
    /// # Errors
    /// Returns the first error in the order of the seeds, or [`EvalError::Over`] if the experiment was told to end.
    pub fn trials<T: Send>(&self, trial: impl Fn(u64) -> Result<T, EvalError> + Sync) -> Result<Vec<T>, EvalError> {
        let seeds = self.trial_seeds();
        let next = AtomicUsize::new(0);
        let (sender, receiver) = mpsc::channel();
        let mut found: Vec<Option<Result<T, EvalError>>> = seeds.iter().map(|_| None).collect();
        std::thread::scope(|scope| {
            for _ in 0..THREADS.min(seeds.len()) {
                let sender = sender.clone();
                let next = &next;
                let seeds = &seeds;
                let trial = &trial;
                let is_over = self.is_over;
                scope.spawn(move || {
                    while let Some((index, seed)) = seeds.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
                        if is_over() || sender.send((index, trial(*seed))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            for (done, (index, result)) in (1..).zip(receiver) {
                found[index] = Some(result);
                (self.progress)(done, seeds.len());
            }
        });
        // If a trial has panicked, the scope has already ended with its panic.
        found.into_iter().map(|found| found.unwrap_or(Err(EvalError::Over))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn trials_come_in_the_order_of_their_seeds() {
        let reported = RefCell::new(Vec::new());
        let progress = |done, total| reported.borrow_mut().push((done, total));
        let run = Run { progress: &progress, ..Run::alone(3, 9, Scale::Tiny) };
        let seeds = run.trials(Ok).unwrap();
        assert_eq!(seeds, run.trial_seeds());
        assert_eq!(*reported.borrow(), (1..=9).map(|done| (done, 9)).collect::<Vec<_>>());
        assert!(run.trials(|seed| if seed == seeds[4] { Err(EvalError::Seeds(4)) } else { Ok(()) }).is_err());
    }

    #[test]
    fn an_experiment_that_is_to_end_waits_only_for_its_runs_under_way() {
        let begun = AtomicUsize::new(0);
        let run = Run { is_over: &|| begun.load(Ordering::SeqCst) >= 3, ..Run::alone(3, 100, Scale::Tiny) };
        let ended = run.trials(|_| Ok(begun.fetch_add(1, Ordering::SeqCst)));
        assert!(matches!(ended, Err(EvalError::Over)), "{ended:?}");
        assert!((3..3 + THREADS).contains(&begun.into_inner()));
    }
}
