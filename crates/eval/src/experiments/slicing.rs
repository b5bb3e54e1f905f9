//! Reproduces Figures 5, 7 and 8 of Koloniari et al. 2011, section 7. The experiment measures how the false-positive
//! rate, the fairness of the load and the greatest load of a slice depend on the number of slices and on the way of
//! slicing.
//!
//! The experiment uses production slices and the counts of work that they keep. No nodes are involved.

use std::collections::HashMap;

use firstseen_filter::rates::{plain, slicing};
use firstseen_filter::{Kind, Window};
use firstseen_routing::{fairness, greatest_share};

use super::balance::{Balance, KeyUse, balance};
use super::cuts::Way;
use super::logged::{self, DISTINCT_MIN};
use super::{k11, parameter};
use crate::document::{Axis, Readings, Sheet};
use crate::drawn::Drawn;
use crate::experiment::{EvalError, Experiment, Findings, LogUse, Run, Scale};
use crate::measure::{Compared, Subject, count, pooled_with_expected, shaped};
use crate::stats::{Counts, Estimate};
use crate::stream::{Event, Keys, Log, StreamSpec};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "slicing",
    title: "Slicing: false positives, fairness, greatest load",
    paragraph: "A filter can be sliced horizontally, so that each slice holds some of the events, vertically, so that \
                each slice holds some of the cells, or in both ways (diced). A vertical filter has the false-positive \
                rate of the unsliced filter for any number of slices. Horizontal slices fill unevenly, and the fullest \
                slices have the highest rates. If some events are far more frequent than others, the slice with the \
                most frequent event has the most work. Vertical slicing divides this work over k slices. Diced filters \
                lie between horizontal and vertical ones.",
    reads_logs: Some(LOGS),
    measure,
};

const LOGS: LogUse =
    LogUse { events_max: |scale| scale.pick(100_000, 60_000, 20_000), distinct_min: DISTINCT_MIN, has_stand_in: false };
const HASHES: u32 = 4;
const SLICES: [u32; 4] = [10, 20, 40, 80];
const RATES: [f64; 3] = [0.02, 0.05, 0.08];
/// Number of distinct items among 100,000 in the synthetic data sets of Koloniari et al.
const DISTINCT: f64 = 5_700.0;
const EVENTS_OF_SET: f64 = 100_000.0;
/// Number of keys for which a Zipf distribution with exponent 1 has about that number of distinct items.
const ZIPF_KEYS: f64 = 6_030.0;

/// Stream with the rate for which its filter is sized.
struct Case<'a> {
    source: Events<'a>,
    rate: f64,
    name: String,
    /// Number of distinct events for which the filter is sized.
    distinct: f64,
}

/// Source of events.
enum Events<'a> {
    Drawn(Keys),
    Logged(&'a [u64]),
}

/// Results of one slicing in one run.
#[derive(Clone, Copy)]
struct Found {
    errors: Counts,
    rate: f64,
    fairness: f64,
    greatest: f64,
    expected: Balance,
}

/// Returns all cases, and notes about the cases that were left out.
fn cases<'a>(scale: Scale, logs: &'a [Log]) -> (Vec<Case<'a>>, Vec<String>) {
    let events = (LOGS.events_max)(scale);
    let part = events as f64 / EVENTS_OF_SET;
    let distinct = DISTINCT * part;
    let mut cases = Vec::new();
    for (keys, name) in drawn_keys(events).into_iter().zip(["Zipf keys", "uniform keys"]) {
        cases.extend(RATES.map(|rate| Case { source: Events::Drawn(keys), rate, name: name.to_owned(), distinct }));
    }
    let mut left_out = Vec::new();
    for log in logs {
        cases.extend(logged_cases(LOGS.part(&log.keys, scale), format!("keys of {}", log.name)));
        // Koloniari et al. use a log twice: with the page as the event, and with the client as the event.
        let by_client = logged_cases(LOGS.part(&log.clients, scale), format!("clients of {}", log.name));
        if by_client[0].distinct >= DISTINCT_MIN as f64 {
            cases.extend(by_client);
        } else {
            let Case { name, distinct, .. } = &by_client[0];
            left_out.push(format!("Left out: {name}: {distinct} are too few, at least {DISTINCT_MIN} are needed."));
        }
    }
    (cases, left_out)
}

fn logged_cases(keys: &[u64], name: String) -> [Case<'_>; RATES.len()] {
    let distinct = logged::distinct(keys) as f64;
    RATES.map(|rate| Case { source: Events::Logged(keys), rate, name: name.clone(), distinct })
}

/// Returns the keys of the synthetic data sets of Koloniari et al. with `events` events: Zipf and uniform.
pub(super) fn drawn_keys(events: u64) -> [Keys; 2] {
    let part = events as f64 / EVENTS_OF_SET;
    let zipf = Keys::Zipf { keys: (ZIPF_KEYS * part) as u64, exponent: 1.0 };
    [zipf, Keys::Uniform { keys: (DISTINCT * part) as u64 }]
}

/// Stream with flags for its new events, their number, the use of its keys, and the skew of this use.
struct Stream {
    events: Vec<Event>,
    is_new: Vec<bool>,
    distinct: f64,
    keys: Vec<KeyUse>,
    skew: Skew,
}

/// Statistics of the shares that the keys have in the stream.
#[derive(Clone, Copy)]
struct Skew {
    greatest: f64,
    /// Sum of the squared shares (q).
    squares: f64,
}

impl Skew {
    fn of(keys: &[KeyUse], events: usize) -> Self {
        let shares = keys.iter().map(|key| key.occurrences / events as f64);
        Self { greatest: shares.clone().fold(0.0, f64::max), squares: shares.map(|share| share * share).sum() }
    }

    fn mean(of_runs: impl Iterator<Item = Self> + Clone) -> Self {
        let runs = of_runs.clone().count() as f64;
        Self {
            greatest: of_runs.clone().map(|skew| skew.greatest).sum::<f64>() / runs,
            squares: of_runs.map(|skew| skew.squares).sum::<f64>() / runs,
        }
    }
}

impl Stream {
    fn of(source: &Events<'_>, events: u64, cells: u64, seed: u64) -> Result<Self, EvalError> {
        let events: Vec<Event> = match source {
            Events::Drawn(keys) => StreamSpec::new(events, *keys).events(seed)?.collect(),
            Events::Logged(keys) => keys.iter().map(|key| Event { time_ms: 0, key: *key, site: 0 }).collect(),
        };
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut keys: Vec<KeyUse> = Vec::new();
        let mut is_new = Vec::with_capacity(events.len());
        for event in &events {
            let place = *places.entry(event.key).or_insert(keys.len());
            is_new.push(place == keys.len());
            if place == keys.len() {
                let fill = plain::fill(cells as f64, HASHES, place as f64);
                keys.push(KeyUse { occurrences: 0.0, fill });
            }
            keys[place].occurrences += 1.0;
        }
        Ok(Self { distinct: keys.len() as f64, skew: Skew::of(&keys, events.len()), keys, events, is_new })
    }
}

fn found(stream: &Stream, cells: u64, way: Way, slices: u32, seed: u64) -> Result<Found, EvalError> {
    let spec = shaped(Kind::Bloom, Window::Unbounded, cells, HASHES);
    // Each number of slices has its own seed. With a single seed, all vertical filters would give the same measurement.
    let mut subject = Subject::new("slicing", &spec, &way.slicing(slices), seed ^ u64::from(slices))?;
    let mut errors = Counts::default();
    let mut is_new = stream.is_new.iter();
    subject.observe_each(stream.events.iter().copied(), |_, is_duplicate| {
        if is_new.next() == Some(&true) {
            count(&mut errors, is_duplicate);
        }
    })?;
    Ok(Found {
        errors,
        rate: way.stream_rate(slices, cells as f64, HASHES, stream.distinct),
        fairness: fairness(subject.filter.loads()),
        greatest: greatest_share(subject.filter.loads()),
        expected: balance(way, slices, HASHES, &stream.keys, !seed ^ u64::from(slices)),
    })
}

/// Returns the results of all slicings of a case, ordered by the way of slicing, and the skew of the case's keys.
fn all_found(case: &Case<'_>, events: u64, seed: u64) -> Result<(Vec<Found>, Skew), EvalError> {
    let cells = cells_of(case);
    let stream = Stream::of(&case.source, events, cells, seed)?;
    let cuts = Way::ALL.into_iter().flat_map(|way| SLICES.map(|slices| (way, slices)));
    let found: Result<_, _> = cuts.map(|(way, slices)| found(&stream, cells, way, slices, seed)).collect();
    Ok((found?, stream.skew))
}

fn cells_of(case: &Case<'_>) -> u64 {
    let cells = plain::cells(case.distinct, case.rate, HASHES) as u64;
    // The number of cells is divisible by every number of slices, so that vertical filters are equal to the unsliced
    // filter.
    cells.next_multiple_of(u64::from(SLICES[SLICES.len() - 1]))
}

/// Results by run, case and slicing.
type Runs = Vec<Vec<(Vec<Found>, Skew)>>;

/// Returns the results of `cases`. Cases of the same stream must be adjacent.
fn sheets(run: &Run<'_>, cases: &[Case<'_>]) -> Result<Vec<Sheet>, EvalError> {
    let events = (LOGS.events_max)(run.scale);
    let runs: Runs = run.trials(|seed| cases.iter().map(|case| all_found(case, events, seed)).collect())?;
    let mut sheets = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        sheets.push(rate_sheet(&runs, index, case));
    }
    // The use of keys does not depend on the number of cells.
    for index in (0..cases.len()).step_by(RATES.len()) {
        sheets.push(fairness_sheet(&runs, index, &cases[index], events));
        sheets.push(greatest_sheet(&runs, index, &cases[index], events));
    }
    Ok(sheets)
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let events = (LOGS.events_max)(run.scale);
    let (cases, left_out) = cases(run.scale, run.logs);
    Ok(Findings {
        source: k11("sections 3.1 and 7", "Figures 5(a) to 5(c), 7(a), 8(a), 8(c)"),
        parameters: vec![
            parameter("events", events),
            parameter(
                "approximate number of distinct events of synthetic streams",
                (DISTINCT * events as f64 / EVENTS_OF_SET) as u64,
            ),
            parameter("hash functions (k)", HASHES),
            parameter(
                "cells (m) of drawn streams at 0.02, 0.05, 0.08; logs have those of their distinct events",
                cases[..3].iter().map(cells_of).collect::<Vec<_>>(),
            ),
        ],
        sheets: sheets(run, &cases)?,
        notes: NOTES.into_iter().map(str::to_owned).chain(left_out).collect(),
    })
}

const NOTES: [&str; 4] = [
    "Each rate is the share of new events that are called duplicates, FP/(FP + TN), in a stream that fills the filter \
     from empty. Koloniari et al. measure the same rate. It is below the rate for which the filter is sized, because \
     the filter reaches that rate only at the end of the stream.",
    "Equation 4 of Koloniari et al. assumes that all horizontal slices are equally full. The formula of this \
     experiment instead averages the rate over the binomial loads of the slices. The average rises with the number of \
     slices, as the measurements of Koloniari et al. do. In addition, this experiment adds the exponent k to their \
     formula for horizontal slicing that is followed by vertical slicing, because the printed formula lacks it.",
    "The load of a slice is its share of all tested positions. Koloniari et al. derive the fairness of the loads for \
     parallel lookups, where q is the sum of the squares of all keys' shares. Measured values differ from these \
     formulas for two reasons. Pipelined lookups of new events stop at the first empty cell, so frequent keys have \
     more weight than the formulas say. The formulas are also ratios of means, and the mean of the ratio is higher if \
     few keys make up the load, so the points of horizontal filters may lie above the line of the formula.",
    "The logs of Koloniari et al. are not public. This experiment uses synthetic streams with the same numbers of \
     events and distinct items instead, and also the logs that were given on the command line. Each log is used twice: \
     once with the requested page as the event, and once with the client as the event.",
];

/// Returns a series for each way of slicing. `compared` gives the point of each slicing.
fn series(compared: impl Fn(usize) -> Compared, formula: impl Fn(Way) -> &'static str) -> Vec<Readings> {
    let series = Way::ALL.into_iter().enumerate().map(|(place, way)| {
        let cuts = SLICES.iter().enumerate();
        let points = cuts.map(|(at, slices)| compared(place * SLICES.len() + at).at(*slices));
        Readings::new(format!("measured, {}", way.name()), formula(way), points)
    });
    series.collect()
}

/// Returns one number of every slicing, from every run.
fn values(runs: &Runs, case: usize, number: impl Fn(&Found) -> f64) -> Vec<Vec<f64>> {
    runs.iter().map(|run| run[case].0.iter().map(&number).collect()).collect()
}

fn slices_axis() -> Axis {
    Axis::log("slices (S)")
}

fn rate_sheet(runs: &Runs, index: usize, case: &Case<'_>) -> Sheet {
    let counts: Vec<Vec<Counts>> =
        runs.iter().map(|run| run[index].0.iter().map(|found| found.errors).collect()).collect();
    let expected = values(runs, index, |found| found.rate);
    let figure = if index == 0 { "Figures 5(a), 7(a)" } else { "The same" };
    Sheet::new(
        format!("{figure}: false positives, {}, sized for {}", case.name, case.rate),
        slices_axis(),
        Axis::linear("false positives (share of new events)"),
        series(
            |cut| pooled_with_expected(&counts, &expected, cut),
            |way| match way {
                Way::Vertical => {
                    "the mean of (1 - (1 - 1/m)^(kn))^k while the number n of recorded events grows from 0. This is \
                     the false-positive rate of an unsliced filter with m cells and k hash functions, which vertical \
                     slicing does not change (Koloniari et al. 2011, section 3.1)"
                }
                Way::Horizontal => {
                    "the false-positive rate p^k, where p is the share of set cells in a slice. The rate is first \
                     averaged over the binomial loads of the slices, and then over the stream that fills the filter \
                     (after Koloniari et al. 2011, equation 4, which assumes equal loads)"
                }
                Way::HorizontalVertical => {
                    "the same false-positive rate as for horizontal slicing, except that the loads of slices are \
                     replaced by the loads of groups of slices. The reason is that all positions of an event lie in \
                     one group of slices (Koloniari et al. 2011, section 3.1)"
                }
                Way::VerticalHorizontal => {
                    "a product over the vertical ranges of cells, averaged over the stream that fills the filter. A \
                     range that contains c positions of an event contributes the factor E[p^c]. Here p is the share \
                     of set cells in one part of the range, and E is the mean over the loads of these parts"
                }
            },
        ),
    )
}

fn fairness_sheet(runs: &Runs, index: usize, case: &Case<'_>, events: u64) -> Sheet {
    let q = Skew::mean(runs.iter().map(|run| run[index].1)).squares;
    let horizontal = SLICES.map(|slices| (f64::from(slices), slicing::fairness_horizontal(slices, q)));
    let vertical = SLICES.map(|slices| (f64::from(slices), slicing::fairness_vertical(slices, HASHES, q)));
    Sheet::new(
        format!("Figures 5(b), 8(a): fairness, {}", case.name),
        slices_axis(),
        Axis::linear("Jain's fairness of the positions tested"),
        series(
            |cut| compared_with_drawn(runs, index, cut, events, |found| (found.fairness, found.expected.fairness)),
            |_| DRAWN,
        ),
    )
    .with_line("K11, horizontal: 1/(1 + (S-1) q)", horizontal)
    .with_line("K11, vertical: 1/(1 + (S-1) q/k)", vertical)
}

fn greatest_sheet(runs: &Runs, index: usize, case: &Case<'_>, events: u64) -> Sheet {
    let top = Skew::mean(runs.iter().map(|run| run[index].1)).greatest;
    let even = SLICES.map(|slices| (f64::from(slices), 1.0 / f64::from(slices)));
    let hottest = SLICES.map(|slices| (f64::from(slices), top.max(1.0 / f64::from(slices))));
    Sheet::new(
        format!("Figures 5(c), 8(c): greatest load of a slice, {}", case.name),
        slices_axis(),
        Axis::log("share of the positions tested"),
        series(
            |cut| compared_with_drawn(runs, index, cut, events, |found| (found.greatest, found.expected.greatest)),
            |_| DRAWN,
        ),
    )
    .with_line("all slices alike: 1/S", even)
    .with_line("least for horizontal: the most frequent key", hottest)
}

/// Returns the measured value of one slicing, together with its expected value. The expected value is the same quantity
/// in a simulation with randomly drawn positions. The error of their difference is computed from the simulation,
/// because a rare event may occur there without occurring in any run.
fn compared_with_drawn(
    runs: &Runs,
    case: usize,
    cut: usize,
    events: u64,
    number: impl Fn(&Found) -> (f64, Drawn),
) -> Compared {
    let (measured, models): (Vec<f64>, Vec<Drawn>) = runs.iter().map(|run| number(&run[case].0[cut])).unzip();
    let expected: Vec<f64> = models.iter().map(|drawn| drawn.mean).collect();
    let (estimate, expected) = Estimate::of_values_with_expected(&measured, &expected, events);
    Compared { estimate, expected }.with_error_of(Drawn::error(&models))
}

const DRAWN: &str = "the mean result of several simulations of the same slicing. Each simulation draws the slices of \
each key's positions at random. Its lookups stop at the first unset cell, like those of the filter";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::judged;
    use crate::stats::Judged;

    #[test]
    #[ignore = "minutes"]
    fn a_log_of_distinct_keys_alone_loads_slices_as_its_lookups_stop() {
        let keys: Vec<u64> = (0..3_000).collect();
        let cases = logged_cases(&keys, "keys of a crawl".to_owned());
        let panels = judged(sheets(&Run::alone(15, 20, Scale::Tiny), &cases).unwrap());
        let points = panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
        let of = |verdict| points.clone().filter(move |point| point.verdict == verdict).collect::<Vec<_>>();
        assert!(of(Judged::Out).is_empty() && !of(Judged::In).is_empty(), "{:#?}", of(Judged::Out));
    }

    #[test]
    #[ignore = "minutes"]
    fn vertical_slices_are_fairer_and_err_no_more() {
        let keys = (0..20_000).map(|event| event % 1_500).collect();
        let clients = (0..20_000).map(|event| event % 7).collect();
        let logs = [Log { name: "a round".to_owned(), keys, clients }];
        let run = Run { logs: &logs, ..Run::alone(15, 4, Scale::Tiny) };
        let document = EXPERIMENT.run(&run).unwrap();
        assert_eq!(document.count(Judged::Out), 0, "{document:#?}");
        let last = |panel: usize, series: usize| document.panels[panel].series[series].points[SLICES.len() - 1].mean;
        assert!(last(0, 0) < last(0, 1) && last(9, 0) > last(9, 1) && last(10, 0) < last(10, 1));
        assert!(document.panels[6].title.contains("keys of a round") && document.panels.len() == 15);
        let too_few = "Left out: clients of a round: 7 are too few, at least 1000 are needed.";
        assert_eq!(document.notes.last().map(String::as_str), Some(too_few));
    }
}
