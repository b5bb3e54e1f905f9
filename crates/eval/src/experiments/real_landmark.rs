//! Reproduces the experiment with landmark windows over real clicks of Metwally et al. 2005 (section 6.3.2). The
//! experiment shows how the false-positive rate depends on the number of hash functions.
//!
//! The filters are production Bloom filters, and the events come from the logs of the run. If no log is given, the
//! experiment uses a synthetic stream with the same share of repeats as the log of the paper.

use std::collections::HashSet;

use firstseen_filter::rates::plain;
use firstseen_filter::{Kind, Window};

use super::logged::{Clicks, DISTINCT_MIN, filter_seeds};
use super::{M05_HASHES, halved_by_hashes, m05, parameter};
use crate::document::{Axis, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, LogUse, Run};
use crate::measure::{Subject, count, pooled_with_expected, shaped};
use crate::stats::Counts;
use crate::stream::Event;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "real-landmark",
    title: "Landmark windows over real clicks: error rate against hash functions",
    paragraph: "This experiment repeats the experiment `landmark` with clicks that occur more than once. An error is a \
                distinct click that is called a duplicate, and errors are counted relative to all distinct clicks. \
                Repeats set no further cells, so only the number of distinct clicks matters, and the same mean over \
                the filling gives the expected errors of any log. If no log is given, a synthetic stream with the \
                repeats of the paper's log replaces it.",
    reads_logs: Some(LOGS),
    measure,
};

const LOGS: LogUse =
    LogUse { events_max: |scale| scale.pick(500_000, 100_000, 20_000), distinct_min: DISTINCT_MIN, has_stand_in: true };
/// Size of the filter relative to the stream: the number of cells, divided by the number of hash functions and by the
/// number of distinct clicks. The ratio is the same as in the experiment `landmark`, where 5,905,777 cells per hash
/// function are used for 4,093,573 distinct clicks.
const CELLS_PER_EVENT: f64 = std::f64::consts::LOG2_E;
/// Printed values in the column "Practical", for k = 4..10.
const PRINTED: [f64; 7] = [1.57e-2, 6.63e-3, 2.84e-3, 1.26e-3, 5.71e-4, 2.49e-4, 1.12e-4];

/// Clicks of one log in order, with flags for the first click of each key, and the number of distinct keys.
struct Landmark<'a> {
    keys: &'a [u64],
    is_new: Vec<bool>,
    distinct: u64,
}

impl<'a> Landmark<'a> {
    fn of(keys: &'a [u64]) -> Self {
        let mut seen = HashSet::new();
        let is_new = keys.iter().map(|key| seen.insert(*key)).collect();
        Self { keys, is_new, distinct: seen.len() as u64 }
    }

    fn cells(&self, hashes: u32) -> u64 {
        (f64::from(hashes) * CELLS_PER_EVENT * self.distinct as f64) as u64
    }

    /// Returns how many new clicks were called duplicates by all filters of a run.
    fn errors(&self, hashes: u32, filter_seeds: impl Iterator<Item = u64>) -> Result<Counts, EvalError> {
        let spec = shaped(Kind::Bloom, Window::Unbounded, self.cells(hashes), hashes);
        let mut errors = Counts::default();
        for seed in filter_seeds {
            let mut subject = Subject::new("real-landmark", &spec, "none", seed)?;
            let mut is_new = self.is_new.iter();
            let events = self.keys.iter().map(|key| Event { time_ms: 0, key: *key, site: 0 });
            subject.observe_each(events, |_, is_duplicate| {
                if is_new.next() == Some(&true) {
                    count(&mut errors, is_duplicate);
                }
            })?;
        }
        Ok(errors)
    }
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let clicks = Clicks::new(run, &LOGS);
    let scale = run.scale;
    let runs = run.trials(|seed| {
        let mut counts = Vec::new();
        let mut expected = Vec::new();
        for keys in clicks.keys(seed)? {
            let landmark = Landmark::of(&keys);
            for hashes in M05_HASHES {
                counts.push(landmark.errors(hashes, filter_seeds(scale, keys.len(), seed))?);
                expected.push(plain::stream_mean(landmark.cells(hashes) as f64, hashes, landmark.distinct as f64));
            }
        }
        Ok((counts, expected))
    })?;
    let (counts, expected): (Vec<Vec<Counts>>, Vec<Vec<f64>>) = runs.into_iter().unzip();
    let names = clicks.names();
    let sheets = names.iter().enumerate().map(|(log, name)| {
        let points = M05_HASHES.zip(PRINTED).enumerate().map(|(at, (hashes, printed))| {
            pooled_with_expected(&counts, &expected, log * PRINTED.len() + at).at(hashes).printed(Some(printed))
        });
        let title = format!("Errors over a landmark window: {name}");
        let y = Axis::log("distinct clicks called duplicates (share)");
        Sheet::new(title, Axis::linear("hash functions (k)"), y, [Readings::new("measured", FORMULA, points)])
            .with_line("full filter, 2^-k (M05 \"theoretical\")", halved_by_hashes())
    });
    Ok(Findings {
        source: m05("section 6.3.2", "errors of real clicks in a landmark window"),
        parameters: clicks
            .parameters()
            .into_iter()
            .chain([parameter("cells (m) per hash function and distinct click", CELLS_PER_EVENT)])
            .collect(),
        sheets: sheets.collect(),
        notes: clicks.note().into_iter().chain([NOTE.to_owned()]).collect(),
    })
}

const FORMULA: &str = "the mean false-positive rate of a filter with m cells and k hash functions while the n \
distinct clicks of the log fill it from empty. It is calculated as (1/n) sum over i < n of (1 - (1 - 1/m)^(ki))^k \
(Metwally et al. 2005, section 5.1)";
const NOTE: &str = "The click log of Metwally et al. is not public, so this experiment uses another log. The error \
rates can still be compared, because they depend only on the number of cells per distinct click, and that number is \
the same in both.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;
    use crate::stats::Judged;
    use crate::stream::Log;

    #[test]
    fn a_log_errs_as_its_distinct_clicks_say() {
        // Every third click is the repeat of the click before it.
        let keys = (0..24_000u64).map(|click| if click % 3 == 2 { click - 1 } else { click }).collect();
        let log = Log { name: "thirds".to_owned(), keys, ..Log::default() };
        let run = Run { logs: &[log], ..Run::alone(18, 4, Scale::Tiny) };
        let document = EXPERIMENT.run(&run).unwrap();
        assert_eq!(document.count(Judged::Out), 0, "{document:#?}");
        assert!(document.panels[0].title.contains("thirds"));
    }

    #[test]
    fn a_log_that_is_too_small_is_refused_by_name() {
        let log =
            Log { name: "small".to_owned(), keys: (0..5_000).map(|click| click % 50).collect(), ..Log::default() };
        let run = Run { logs: &[log], ..Run::alone(18, 4, Scale::Tiny) };
        let error = EXPERIMENT.run(&run).unwrap_err().to_string();
        assert_eq!(error, "log small has 50 distinct events; experiment real-landmark needs at least 1000");
    }
}
