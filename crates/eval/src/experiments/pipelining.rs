//! K11 7, Figure 7(c): slices that a pipelined lookup visits, at 80, 50 and 20 % distinct events.
//!
//! Promises: visits as the production engine counts them. Must not know: nodes, messages.

use firstseen_filter::rates::{plain, slicing};
use firstseen_filter::{Kind, Window};

use super::{k11, parameter};
use crate::document::{Axis, Line, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{Subject, averaged, shaped};
use crate::stream::{Keys, StreamSpec};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pipelining",
    title: "Pipelined lookups of vertical filters: slices visited",
    paragraph: "A vertical filter spreads the positions of an event over slices. A pipelined lookup visits them in the order of \
                the hash functions and stops at the first cell that is not set, so new events cost little and duplicates visit \
                all of their slices. The paper counts the test pass; a new event is then set in all of its slices, which costs \
                more than the pipeline saves where most events are new.",
    reads_logs: None,
    measure,
};

const HASHES: u32 = 6;
/// The rate that the filter is sized for, as K11's smallest.
const RATE: f64 = 0.02;
const SLICES: [u32; 6] = [2, 5, 10, 20, 40, 80];
pub(super) const DISTINCT_SHARES: [f64; 3] = [0.8, 0.5, 0.2];

/// The cells of a filter for the distinct events of a stream.
fn cells(distinct_share: f64, events: u64) -> u64 {
    plain::cells(distinct_share * events as f64, RATE, HASHES) as u64
}

/// The series of one pass, in the order of [`DISTINCT_SHARES`].
fn series(values: &[Vec<f64>], pass: usize, events: u64) -> impl Iterator<Item = Readings> {
    DISTINCT_SHARES.into_iter().enumerate().map(move |(place, share)| {
        let points = SLICES.into_iter().enumerate().map(|(index, slices)| {
            let distinct = share * events as f64;
            let visits = slicing::stream_visits(slices, HASHES, cells(share, events) as f64, distinct, 1.0 - share);
            let estimate = averaged(values, 2 * (place * SLICES.len() + index) + pass, events);
            Reading::new(slices, estimate, [visits.test, visits.test_and_set][pass])
        });
        Readings::new(format!("measured, {:.0} % distinct", 100.0 * share), FORMULAS[pass], points)
    })
}

/// What a lookup visits that asks all slices at once, which is so many times all of its slices.
fn parallel(times: f64) -> [(f64, f64); SLICES.len()] {
    SLICES.map(|slices| (f64::from(slices), times * slicing::slices_touched(slices, HASHES)))
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let events: u64 = run.scale.pick(100_000, 30_000, 5_000);
    let values = run.trials(|seed| {
        let mut values = Vec::new();
        for share in DISTINCT_SHARES {
            for slices in SLICES {
                let spec = shaped(Kind::Bloom, Window::Unbounded, cells(share, events), HASHES);
                let mut subject = Subject::new("pipelining", &spec, &format!("vertical:{slices}"), seed)?;
                let keys = Keys::Repeats { distinct_share: share, recent_keys: u64::MAX };
                subject.observe(StreamSpec::new(events, keys).events(seed)?)?;
                let load = subject.load();
                let visits = [load.test_visits, load.test_visits + load.record_visits];
                values.extend(visits.map(|visits| visits as f64 / events as f64));
            }
        }
        Ok(values)
    })?;
    let x = Axis::log("slices (S)");
    let y = Axis::linear("slices visited per event");
    let to_test = Sheet::new("Test pass (what the paper counts)", x.clone(), y.clone(), series(&values, 0, events))
        .with_line("without pipeline: S (1 - (1 - 1/S)^k)", parallel(1.0));
    // A lookup that asks all slices at once visits all of them to test, and again to set.
    let lines = DISTINCT_SHARES.map(|share| Line {
        name: format!("without pipeline, {:.0} % distinct", 100.0 * share),
        points: parallel(1.0 + share).to_vec(),
    });
    let to_set = Sheet::new("Test and set", x, y, series(&values, 1, events)).with_lines(lines.to_vec());
    Ok(Findings {
        source: k11("3.1 and 7", "Figure 7(c)"),
        parameters: vec![
            parameter("events", events),
            parameter("hash functions (k)", HASHES),
            parameter("rate of the full filter", RATE),
        ],
        sheets: vec![to_test, to_set],
        notes: vec![
            "The paper counts the test pass only. Its figure's numbers are not in the text, so none are printed here."
                .to_owned(),
        ],
    })
}

const FORMULAS: [&str; 2] = [
    "duplicates S (1 - (1 - 1/S)^k); distinct events V(k, S) over the filling p, with V(r, s) = 1 + sum over c of \
     C(r-1, c-1) (1/s)^(c-1) (1 - 1/s)^(r-c) p^c V(r-c, s-1)",
    "the test pass, and S (1 - (1 - 1/S)^k) more for each event that is called distinct",
];
