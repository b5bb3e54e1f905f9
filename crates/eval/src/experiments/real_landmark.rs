//! M05 6.3.2: the rate over a landmark window of real clicks, against the number of hash functions.
//!
//! Promises: production bits over logs that were handed in, or over a stream with the paper's share of repeats where none
//! was. Must not know: files.

use std::collections::HashSet;

use firstseen_filter::rates::plain;
use firstseen_filter::{Kind, Window};

use super::{M05_HASHES, m05, parameter};
use crate::document::{Axis, Line, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{Subject, count, pooled_beside, shaped};
use crate::stats::Counts;
use crate::stream::{Event, Keys, Log, StreamSpec};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "real-landmark",
    title: "Landmark windows over real clicks: error rate against hash functions",
    paragraph: "The same as landmark, over clicks that come again: distinct clicks that are called duplicates are errors, of all \
                distinct clicks. Repeats set nothing new, so only how many clicks are distinct matters, and the same mean over \
                the filling tells the errors of any log. Logs are handed in; where none is, a stream with the repeats of the \
                paper's log stands in for them.",
    reads_logs: true,
    measure,
};

/// The paper's log: 4,093,573 distinct clicks of 5,583,301.
const DISTINCT_SHARE: f64 = 4_093_573.0 / 5_583_301.0;
/// Cells a hash function and distinct click: as in landmark, 5,905,777 for 4,093,573.
const CELLS_PER_EVENT: f64 = std::f64::consts::LOG2_E;
/// "Practical", k = 4..10.
const PRINTED: [f64; 7] = [1.57e-2, 6.63e-3, 2.84e-3, 1.26e-3, 5.71e-4, 2.49e-4, 1.12e-4];

/// Clicks in order, which of them are the first of their key, and how many those are.
struct Clicks {
    events: Vec<Event>,
    is_new: Vec<bool>,
    distinct: u64,
}

impl Clicks {
    fn of(events: Vec<Event>) -> Self {
        let mut seen = HashSet::new();
        let is_new = events.iter().map(|event| seen.insert(event.key)).collect();
        Self { events, is_new, distinct: seen.len() as u64 }
    }

    fn of_log(log: &Log, events_max: u64) -> Self {
        let event = |key: &u64| Event { time_ms: 0, key: *key, site: 0 };
        Self::of(log.keys.iter().take(events_max as usize).map(event).collect())
    }

    fn stand_in(events: u64, seed: u64) -> Result<Self, EvalError> {
        let keys = Keys::Repeats { distinct_share: DISTINCT_SHARE, recent_keys: u64::MAX };
        Ok(Self::of(StreamSpec::new(events, keys).events(seed)?.collect()))
    }

    fn cells(&self, hashes: u32) -> u64 {
        (f64::from(hashes) * CELLS_PER_EVENT * self.distinct as f64) as u64
    }

    /// New clicks that were called duplicates.
    fn errors(&self, hashes: u32, seed: u64) -> Result<Counts, EvalError> {
        let spec = shaped(Kind::Bloom, Window::Unbounded, self.cells(hashes), hashes);
        let mut subject = Subject::new("real-landmark", &spec, "none", seed)?;
        let (mut errors, mut is_new) = (Counts::default(), self.is_new.iter());
        subject.observe_each(self.events.iter().copied(), |_, is_duplicate| {
            if is_new.next() == Some(&true) {
                count(&mut errors, is_duplicate);
            }
        })?;
        Ok(errors)
    }
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let events: u64 = run.scale.pick(500_000, 100_000, 20_000);
    let logs: Vec<Clicks> = run.logs.iter().map(|log| Clicks::of_log(log, events)).collect();
    let mut names: Vec<&str> = run.logs.iter().map(|log| log.name.as_str()).collect();
    if names.is_empty() {
        names.push("stream with the paper's repeats");
    }
    let runs = run.trials(|seed| {
        let stand_in = if logs.is_empty() { Some(Clicks::stand_in(events, seed)?) } else { None };
        let (mut counts, mut expected) = (Vec::new(), Vec::new());
        for clicks in logs.iter().chain(&stand_in) {
            for hashes in M05_HASHES {
                counts.push(clicks.errors(hashes, seed)?);
                expected.push(plain::stream_mean(clicks.cells(hashes) as f64, hashes, clicks.distinct as f64));
            }
        }
        Ok((counts, expected))
    })?;
    let (counts, expected): (Vec<Vec<Counts>>, Vec<Vec<f64>>) = runs.into_iter().unzip();
    let sheet = |(log, name): (usize, &&str)| {
        let reading = |(at, (hashes, printed)): (usize, (u32, f64))| {
            let place = log * PRINTED.len() + at;
            let (estimate, expected) = pooled_beside(&counts, &expected, place);
            Reading { x: f64::from(hashes), estimate, expected, printed: Some(printed) }
        };
        let full = M05_HASHES.map(|hashes| (f64::from(hashes), 0.5f64.powi(hashes as i32))).collect();
        Sheet {
            title: format!("Errors over a landmark window: {name}"),
            x: Axis::linear("hash functions (k)"),
            y: Axis::log("distinct clicks called duplicates (share)"),
            series: vec![Readings {
                name: "measured".to_owned(),
                formula: Some("(1/n) sum over i < n of (1 - (1 - 1/m)^(ki))^k, n distinct clicks (M05 5.1)".to_owned()),
                points: M05_HASHES.zip(PRINTED).enumerate().map(reading).collect(),
            }],
            lines: vec![Line { name: "full filter, 2^-k (M05 \"theoretical\")".to_owned(), points: full }],
        }
    };
    Ok(Findings {
        source: m05("6.3.2", "errors of real clicks, landmark"),
        parameters: vec![
            parameter("clicks at most", events),
            parameter("cells (m) per hash function and distinct click", CELLS_PER_EVENT),
        ],
        sheets: names.iter().enumerate().map(sheet).collect(),
        notes: vec![
            "The paper's log is not public. Its numbers stand beside because only the cells for a distinct click matter, and those \
             are the same here."
                .to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;
    use crate::stats::Verdict;

    #[test]
    fn a_log_errs_as_its_distinct_clicks_say() {
        // Every third click comes again at once.
        let keys = (0..24_000u64).map(|click| if click % 3 == 2 { click - 1 } else { click }).collect();
        let log = Log { name: "thirds".to_owned(), keys, ..Log::default() };
        let run = Run { logs: &[log], ..Run::alone(18, 4, Scale::Tiny) };
        let document = EXPERIMENT.run(&run).unwrap();
        assert_eq!(document.count(Verdict::Out), 0, "{document:#?}");
        assert!(document.panels[0].title.contains("thirds"));
    }
}
