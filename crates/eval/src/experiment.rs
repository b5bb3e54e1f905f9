//! The experiment, and how its runs are divided over threads.
//!
//! Promises: the same seed, number of seeds and scale give the same document, whatever the threads do, but for times by
//! the clock of the run. Must not know: what is measured, files, which clock that is.

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

/// Threads that runs are divided over.
const THREADS: usize = 2;

/// How large an experiment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The papers' sizes.
    Full,
    /// Smaller sizes, for a look or for CI.
    Quick,
    /// The smallest sizes that still show an error, for unit tests.
    Tiny,
}

impl Scale {
    /// The value for this scale.
    pub fn pick<T>(self, full: T, quick: T, tiny: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
            Self::Tiny => tiny,
        }
    }
}

/// How experiments are run.
pub struct Run<'a> {
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// Independent runs of every point, at least 2: intervals come from their differences.
    pub seeds: u32,
    /// The sizes.
    pub scale: Scale,
    /// Logs for the experiments that want real events; may be empty.
    pub logs: &'a [Log],
    /// Called after each run with the number of runs that are done, and of all runs; on the thread that runs the
    /// experiment.
    pub progress: &'a dyn Fn(usize, usize),
    /// Nanoseconds since some moment, for measurements of time.
    pub clock_ns: &'a (dyn Fn() -> u64 + Sync),
    /// The memory of a key on a Redis server, in bytes, where that could be measured.
    pub redis_key_bytes: Option<f64>,
    /// Whether the experiment is to end: then no further run is begun.
    pub is_over: &'a (dyn Fn() -> bool + Sync),
}

/// The error of an experiment.
#[derive(Debug, Error)]
pub enum EvalError {
    /// Intervals come from the differences between runs.
    #[error("{0} seeds: choose at least 2")]
    Seeds(u32),
    /// The experiment was ended before all runs had begun.
    #[error("ended before all runs were done")]
    Over,
    /// A filter that cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A filter that cannot be built.
    #[error(transparent)]
    Sliced(#[from] SlicedBuildError),
    /// A filter that cannot be built.
    #[error(transparent)]
    Stable(#[from] StableError),
    /// A definition that no filter can have.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A definition that no filter can have.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A slicing that the filter cannot have.
    #[error(transparent)]
    Slicing(#[from] SlicingError),
    /// A slicing that the filter cannot have.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Positions that the filter does not take.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// A position is not in the filter.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A filter of frequencies that cannot be built.
    #[error(transparent)]
    Decaying(#[from] DecayingError),
    /// A tree that cannot be built.
    #[error(transparent)]
    Places(#[from] TreeRefusal),
    /// A shape that no filter can have.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A stream that cannot be made.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A verdict that the experiment has no place for.
    #[error(
        "the filter of experiment {experiment} gave the answer {answer}: its window or size is not that of the experiment"
    )]
    Answer {
        /// The experiment.
        experiment: &'static str,
        /// The verdict.
        answer: String,
    },
    /// Formulas assume many cells, and cannot judge the few cells of a small log.
    #[error("log {log} has {distinct} distinct events; experiment {experiment} needs at least {distinct_min}")]
    FewDistinct {
        /// The log.
        log: String,
        /// Its distinct events.
        distinct: u64,
        /// The experiment.
        experiment: &'static str,
        /// The least that the experiment needs.
        distinct_min: u64,
    },
}

/// One experiment of the table.
pub struct Experiment {
    /// The name by which the command line asks for it.
    pub name: &'static str,
    /// Its title, in a few words.
    pub title: &'static str,
    /// What it shows, in one paragraph.
    pub paragraph: &'static str,
    /// How it measures the logs of a run too; an experiment that reads none must not touch [`Run::logs`].
    pub reads_logs: Option<LogUse>,
    /// Measures, and adds the values of the formulas.
    pub measure: fn(&Run<'_>) -> Result<Findings, EvalError>,
}

/// How an experiment uses a log.
pub struct LogUse {
    /// Its first events, so many at most.
    pub events_max: fn(Scale) -> u64,
    /// The least number of distinct events among them: formulas assume many cells.
    pub distinct_min: u64,
    /// Whether a stream stands in for a log where there is none.
    pub has_stand_in: bool,
}

impl LogUse {
    /// The part of `events` that it uses.
    pub fn part<'a>(&self, events: &'a [u64], scale: Scale) -> &'a [u64] {
        let most = usize::try_from((self.events_max)(scale)).unwrap_or(usize::MAX);
        &events[..events.len().min(most)]
    }
}

/// The measurements of an experiment.
pub struct Findings {
    /// The figure that it reproduces.
    pub source: Source,
    /// The parameters of its runs.
    pub parameters: Vec<Parameter>,
    /// The measurements.
    pub sheets: Vec<Sheet>,
    /// Where and why the paper differs.
    pub notes: Vec<String>,
}

impl Experiment {
    /// Whether logs have enough distinct events for formulas to judge them.
    ///
    /// # Errors
    /// [`EvalError::FewDistinct`] names the log.
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
    /// [`EvalError`]: too few seeds, a log that is too small, or not enough memory.
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
    /// A run without logs, clock and progress.
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

    /// The seed of every run: 53 bits, which every reader of JSON keeps exactly.
    pub fn trial_seeds(&self) -> Vec<u64> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        (0..self.seeds).map(|_| random.next_u64() >> 11).collect()
    }

    /// Calls `trial` once for every seed, on two threads, and returns the results in the order of the seeds.
    ///
    /// # Errors
    /// The first error in the order of the seeds; [`EvalError::Over`] where the experiment was to end.
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
        // A trial that panicked has ended the scope with its panic.
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
