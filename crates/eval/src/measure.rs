//! Measures a production filter: events go in, and counts come out.
//!
//! Every event is sent to the embedded engine of `firstseen-routing`, in the order of the stream. If an event gets no
//! verdict, the measurement fails, so every measured rate covers exactly the stated number of events.
//!
//! This module does not depend on formulas.

use firstseen_filter::{Digest, FilterSecret, FilterSpec, Kind, Layout, Window};
use firstseen_routing::{Answer, BATCH_EVENTS, Load, SlicedDefinition, SlicedFilter};

use crate::document::Reading;
use crate::experiment::EvalError;
use crate::stats::{Counts, Estimate};
use crate::stream::{Event, Keys, StreamSpec};

/// Difference between the seed of a stream and the seed of a stream of events that the filter has not seen.
const UNSEEN: u64 = 1 << 60;

/// Returns the specification of a filter with the given number of cells (m) and positions (k), in the classic layout.
/// The filter accepts any load.
pub(crate) fn shaped(kind: Kind, window: Window, cells: u64, hashes: u32) -> FilterSpec {
    FilterSpec {
        cells: Some(cells),
        hashes: Some(hashes),
        layout: Some(Layout::Classic),
        ..FilterSpec::new(kind, window)
    }
}

/// Returns the distinct events of a run, one per millisecond.
pub(crate) fn distinct(events: u64, seed: u64) -> Result<impl Iterator<Item = Event>, EvalError> {
    Ok(StreamSpec::new(events, Keys::Distinct).events(seed)?)
}

/// Returns distinct events that [`distinct`] with the same seed does not return.
pub(crate) fn unseen(events: u64, seed: u64) -> Result<impl Iterator<Item = Event>, EvalError> {
    distinct(events, seed ^ UNSEEN)
}

/// Filter under measurement, with its secret and buffers.
pub(crate) struct Subject {
    /// Filter under measurement.
    pub(crate) filter: SlicedFilter,
    experiment: &'static str,
    secret: FilterSecret,
    digests: Vec<Digest>,
    times_ms: Vec<u64>,
    answers: Vec<Answer>,
}

impl Subject {
    /// Creates an empty filter whose hash function uses `seed`.
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

    /// Observes every event, and returns how many were called duplicates.
    pub(crate) fn observe(&mut self, events: impl Iterator<Item = Event>) -> Result<Counts, EvalError> {
        let mut counts = Counts::default();
        self.each(events, true, |_, is_duplicate| count(&mut counts, is_duplicate))?;
        Ok(counts)
    }

    /// Looks up every event, and returns how many were called duplicates.
    pub(crate) fn look_up(&mut self, events: impl Iterator<Item = Event>) -> Result<Counts, EvalError> {
        let mut counts = Counts::default();
        self.each(events, false, |_, is_duplicate| count(&mut counts, is_duplicate))?;
        Ok(counts)
    }

    /// Looks up every event, and calls `each` with the event and with whether it was called a duplicate.
    pub(crate) fn look_up_each(
        &mut self,
        events: impl Iterator<Item = Event>,
        each: impl FnMut(Event, bool),
    ) -> Result<(), EvalError> {
        self.each(events, false, each)
    }

    /// Observes every event, and calls `each` with the event and with whether it was called a duplicate.
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

    /// Returns the work of all slices so far.
    pub(crate) fn load(&self) -> Load {
        self.filter.loads().iter().fold(Load::default(), |sum, load| Load {
            positions_tested: sum.positions_tested + load.positions_tested,
            test_visits: sum.test_visits + load.test_visits,
            record_visits: sum.record_visits + load.record_visits,
        })
    }
}

/// Clock that returns nanoseconds since an arbitrary moment.
pub(crate) type Clock<'a> = &'a (dyn Fn() -> u64 + Sync);

/// Runs a task. Returns its result, and the elapsed time in nanoseconds.
pub(crate) fn timed<T>(clock_ns: Clock<'_>, task: impl FnOnce() -> T) -> (T, u64) {
    let begun_ns = clock_ns();
    let done = task();
    (done, clock_ns().saturating_sub(begun_ns))
}

/// Returns the median of an odd number of values. Disturbances of a few values do not change it.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Counts one trial.
pub(crate) fn count(counts: &mut Counts, is_success: bool) {
    counts.trials += 1;
    counts.successes += u64::from(is_success);
}

/// Measured and expected value of a point.
#[derive(Clone, Copy)]
pub(crate) struct Compared {
    pub(crate) estimate: Estimate,
    pub(crate) expected: f64,
}

impl Compared {
    /// Returns the point with an error of at least `error`.
    pub(crate) fn with_error_of(self, error: f64) -> Self {
        Self { estimate: self.estimate.with_error_of(error), ..self }
    }

    /// Returns the reading at position `x` of the axis.
    pub(crate) fn at(self, x: impl Into<f64>) -> Reading {
        Reading::new(x, self.estimate, self.expected)
    }
}

/// Returns the pooled rate of point `index` over runs that have counted the same points.
pub(crate) fn pooled(runs: &[Vec<Counts>], index: usize) -> Estimate {
    Estimate::of_counts(&runs.iter().map(|run| run[index]).collect::<Vec<_>>())
}

/// Returns the mean value of point `index` over runs that have measured the same points.
pub(crate) fn averaged(runs: &[Vec<f64>], index: usize, samples_per_run: u64) -> Estimate {
    Estimate::of_values(&column(runs, index), samples_per_run)
}

/// Returns the pooled rate of point `index` and its expected value, over runs that each have their own expected value.
pub(crate) fn pooled_with_expected(runs: &[Vec<Counts>], expected: &[Vec<f64>], index: usize) -> Compared {
    let counts: Vec<Counts> = runs.iter().map(|run| run[index]).collect();
    let (estimate, expected) = Estimate::of_counts_with_expected(&counts, &column(expected, index));
    Compared { estimate, expected }
}

/// Returns the mean value of point `index` and its expected value, over runs that each have their own expected value.
pub(crate) fn averaged_with_expected(
    runs: &[Vec<f64>],
    expected: &[Vec<f64>],
    index: usize,
    samples_per_run: u64,
) -> Compared {
    let (estimate, expected) =
        Estimate::of_values_with_expected(&column(runs, index), &column(expected, index), samples_per_run);
    Compared { estimate, expected }
}

fn column(runs: &[Vec<f64>], index: usize) -> Vec<f64> {
    runs.iter().map(|run| run[index]).collect()
}
