//! Reproduces Figure 7(c) of Koloniari et al. 2011, section 7. The experiment counts the slices that a pipelined lookup
//! visits. It uses three streams, in which 80, 50 and 20 % of the events are distinct.
//!
//! The experiment uses the visits that the production engine counts. No nodes or messages are involved.

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
    paragraph: "A vertical filter spreads the positions of an event over slices. A pipelined lookup visits these \
                slices in the order of the hash functions, and stops at the first unset cell. New events therefore \
                cost little, and duplicates visit all their slices. The paper counts the test pass only. A new event \
                must then be set in all its slices, which costs more than the pipeline saves if most events are new.",
    reads_logs: None,
    measure,
};

const HASHES: u32 = 6;
/// False-positive rate for which the filter is sized. It is the smallest rate of Koloniari et al.
const RATE: f64 = 0.02;
const SLICES: [u32; 6] = [2, 5, 10, 20, 40, 80];
pub(super) const DISTINCT_SHARES: [f64; 3] = [0.8, 0.5, 0.2];

/// Returns the number of cells of a filter for the distinct events of a stream.
fn cells(distinct_share: f64, events: u64) -> u64 {
    plain::cells(distinct_share * events as f64, RATE, HASHES) as u64
}

/// Returns the series of one pass, in the order of [`DISTINCT_SHARES`].
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

/// Returns the number of visits of a lookup that asks all slices at once. The lookup visits all slices of the event
/// `times` times.
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
        source: k11("sections 3.1 and 7", "Figure 7(c)"),
        parameters: vec![
            parameter("events", events),
            parameter("hash functions (k)", HASHES),
            parameter("rate of the full filter", RATE),
        ],
        sheets: vec![to_test, to_set],
        notes: vec![
            "The table of visits has no printed values, because the text of Koloniari et al. does not print the \
             numbers of the figure. Their figure counts only the visits that test an event, and not the visits that \
             set its cells."
                .to_owned(),
        ],
    })
}

const FORMULAS: [&str; 2] = [
    "the mean number of slices that a lookup visits. A duplicate needs S (1 - (1 - 1/S)^k) visits and a distinct \
     event needs V(k, S) visits, where S is the number of slices and k is the number of positions. The recursion V(r, \
     s) = 1 + sum over c of C(r-1, c-1) (1/s)^(c-1) (1 - 1/s)^(r-c) p^c V(r-c, s-1) gives the visits if r positions \
     are left and s slices have not been visited. The result is averaged over the share p of set cells while the \
     filter fills",
    "the number of visits that test events, plus S (1 - (1 - 1/S)^k) further visits for each event that is called \
     distinct. The further visits set the k positions of the event in those of the S slices that hold them",
];
