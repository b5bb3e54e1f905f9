//! A production filter under measurement: events go in, counts come out.
//!
//! Promises: every event is sent to the embedded engine of `firstseen-routing`, in order; an event without a verdict is
//! an error, so that no rate is over fewer events than it says. Must not know: formulas.

use firstseen_filter::{Digest, FilterSecret, FilterSpec, Kind, Layout, Window};
use firstseen_routing::{Answer, BATCH_EVENTS, Load, SlicedDefinition, SlicedFilter};

use crate::document::Reading;
use crate::experiment::EvalError;
use crate::stats::{Counts, Estimate};
use crate::stream::{Event, Keys, StreamSpec};

/// The seeds of streams that a filter has not met differ in this from its own.
const UNSEEN: u64 = 1 << 60;

/// A filter of so many cells (m) and positions (k), of the classic layout, whatever its load.
pub(crate) fn shaped(kind: Kind, window: Window, cells: u64, hashes: u32) -> FilterSpec {
    FilterSpec {
        cells: Some(cells),
        hashes: Some(hashes),
        layout: Some(Layout::Classic),
        ..FilterSpec::new(kind, window)
    }
}

/// Distinct events of a run, one a millisecond.
pub(crate) fn distinct(events: u64, seed: u64) -> Result<impl Iterator<Item = Event>, EvalError> {
    Ok(StreamSpec::new(events, Keys::Distinct).events(seed)?)
}

/// Distinct events that [`distinct`] of the same seed does not give.
pub(crate) fn unseen(events: u64, seed: u64) -> Result<impl Iterator<Item = Event>, EvalError> {
    distinct(events, seed ^ UNSEEN)
}

/// A filter, its secret, and buffers.
pub(crate) struct Subject {
    /// The filter.
    pub(crate) filter: SlicedFilter,
    experiment: &'static str,
    secret: FilterSecret,
    digests: Vec<Digest>,
    times_ms: Vec<u64>,
    answers: Vec<Answer>,
}

impl Subject {
    /// An empty filter whose hash is that of `seed`.
    pub(crate) fn new(
        experiment: &'static str,
        spec: &FilterSpec,
        slicing: &str,
        seed: u64,
    ) -> Result<Self, EvalError> {
        let filter = SlicedFilter::build(&SlicedDefinition::new(spec, slicing.parse()?)?)?;
        let secret = FilterSecret::from_seed(seed);
        Ok(Self { filter, experiment, secret, digests: Vec::new(), times_ms: Vec::new(), answers: Vec::new() })
    }

    /// Observes every event, and returns how many are called duplicates.
    pub(crate) fn observe(&mut self, events: impl Iterator<Item = Event>) -> Result<Counts, EvalError> {
        let mut counts = Counts::default();
        self.each(events, true, |_, is_duplicate| count(&mut counts, is_duplicate))?;
        Ok(counts)
    }

    /// Looks every event up, and returns how many are called duplicates.
    pub(crate) fn look_up(&mut self, events: impl Iterator<Item = Event>) -> Result<Counts, EvalError> {
        let mut counts = Counts::default();
        self.each(events, false, |_, is_duplicate| count(&mut counts, is_duplicate))?;
        Ok(counts)
    }

    /// Looks every event up, and calls `each` with it and whether it was called a duplicate.
    pub(crate) fn look_up_each(
        &mut self,
        events: impl Iterator<Item = Event>,
        each: impl FnMut(Event, bool),
    ) -> Result<(), EvalError> {
        self.each(events, false, each)
    }

    /// Observes every event, and calls `each` with it and whether it was called a duplicate.
    pub(crate) fn observe_each(
        &mut self,
        events: impl Iterator<Item = Event>,
        each: impl FnMut(Event, bool),
    ) -> Result<(), EvalError> {
        self.each(events, true, each)
    }

    fn each(
        &mut self,
        mut events: impl Iterator<Item = Event>,
        record: bool,
        mut each: impl FnMut(Event, bool),
    ) -> Result<(), EvalError> {
        let mut batch = Vec::with_capacity(BATCH_EVENTS);
        loop {
            batch.clear();
            batch.extend(events.by_ref().take(BATCH_EVENTS));
            if batch.is_empty() {
                return Ok(());
            }
            self.digests.clear();
            self.digests.extend(batch.iter().map(|event| self.secret.digest(&event.key.to_le_bytes())));
            self.times_ms.clear();
            self.times_ms.extend(batch.iter().map(|event| event.time_ms));
            self.answers.clear();
            self.answers.resize(batch.len(), Answer::Undecided);
            if record {
                self.filter.observe_batch(&self.digests, &self.times_ms, &mut self.answers)
            } else {
                self.filter.lookup_batch(&self.digests, &self.times_ms, &mut self.answers)
            }
            for (event, answer) in batch.iter().zip(&self.answers) {
                match answer {
                    Answer::FirstSeen => each(*event, false),
                    Answer::Duplicate => each(*event, true),
                    other => {
                        return Err(EvalError::Answer { experiment: self.experiment, answer: format!("{other:?}") });
                    }
                }
            }
        }
    }

    /// The work of all slices so far.
    pub(crate) fn load(&self) -> Load {
        self.filter.loads().iter().fold(Load::default(), |sum, load| Load {
            positions_tested: sum.positions_tested + load.positions_tested,
            test_visits: sum.test_visits + load.test_visits,
            record_visits: sum.record_visits + load.record_visits,
        })
    }
}

/// Nanoseconds since some moment.
pub(crate) type Clock<'a> = &'a (dyn Fn() -> u64 + Sync);

/// Runs a task; returns its result, and the nanoseconds that it took.
pub(crate) fn timed<T>(clock_ns: Clock<'_>, task: impl FnOnce() -> T) -> (T, u64) {
    let begun_ns = clock_ns();
    let done = task();
    (done, clock_ns().saturating_sub(begun_ns))
}

/// The middle one of an odd number of values: disturbances of a few of them do not move it.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Counts one trial.
pub(crate) fn count(counts: &mut Counts, is_success: bool) {
    counts.trials += 1;
    counts.successes += u64::from(is_success);
}

/// What was measured at a point, and what is expected there.
#[derive(Clone, Copy)]
pub(crate) struct Compared {
    pub(crate) estimate: Estimate,
    pub(crate) expected: f64,
}

impl Compared {
    /// The same with an error of at least this.
    pub(crate) fn with_error_of(self, error: f64) -> Self {
        Self { estimate: self.estimate.with_error_of(error), ..self }
    }

    /// The reading at a place of the axis.
    pub(crate) fn at(self, x: impl Into<f64>) -> Reading {
        Reading::new(x, self.estimate, self.expected)
    }
}

/// The pooled rate of point `index`, of runs that have counted the same points.
pub(crate) fn pooled(runs: &[Vec<Counts>], index: usize) -> Estimate {
    Estimate::of_counts(&runs.iter().map(|run| run[index]).collect::<Vec<_>>())
}

/// The mean value of point `index`, of runs that have measured the same points.
pub(crate) fn averaged(runs: &[Vec<f64>], index: usize, samples_per_run: u64) -> Estimate {
    Estimate::of_values(&column(runs, index), samples_per_run)
}

/// The pooled rate of point `index` and its expected value, of runs that each have an expectation of their own.
pub(crate) fn pooled_beside(runs: &[Vec<Counts>], expected: &[Vec<f64>], index: usize) -> Compared {
    let counts: Vec<Counts> = runs.iter().map(|run| run[index]).collect();
    let (estimate, expected) = Estimate::of_counts_beside(&counts, &column(expected, index));
    Compared { estimate, expected }
}

/// The mean value of point `index` and its expected value, likewise.
pub(crate) fn averaged_beside(
    runs: &[Vec<f64>],
    expected: &[Vec<f64>],
    index: usize,
    samples_per_run: u64,
) -> Compared {
    let (estimate, expected) =
        Estimate::of_values_beside(&column(runs, index), &column(expected, index), samples_per_run);
    Compared { estimate, expected }
}

fn column(runs: &[Vec<f64>], index: usize) -> Vec<f64> {
    runs.iter().map(|run| run[index]).collect()
}
