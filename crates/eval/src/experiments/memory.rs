//! Measures how much memory each kind of filter takes at a given false-positive rate P, in bits per event of the
//! window. The experiment compares every kind that has a window with two other values: the memory of an exact map, and
//! `log2(1/P)` bits. No filter can take fewer bits per event than that.
//!
//! The production planner determines the sizes of the filters. Each size comes with the false-positive rate that the
//! filter then has.

use firstseen_filter::rates::blocked::BlockRates;
use firstseen_filter::rates::generations::{self, JumpingLoad};
use firstseen_filter::rates::{cuckoo, timing};
use firstseen_filter::{
    BucketShape, CellDefinition, CuckooCells, ExactWindow, FilterDefinition, FilterSecret, FilterSpec, GenerationCells,
    Geometry, JumpingCells, Kind, Layout, Refresh, SlidingCells, Stamp, TimingCells, UnitNumber, Verdict, Window,
    WindowRule,
};

use super::cuckoo::filling;
use super::parameter;
use crate::document::{Axis, Line, Reading, Readings, Sheet, Source};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{Subject, averaged, distinct, pooled};
use crate::stats::Counts;
use crate::theory::JumpingCounters;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "memory",
    title: "Memory: bits for an event of the window",
    paragraph: "No filter can remember an event in less than log2(1/P) bits if its false-positive rate is P. The first \
                picture compares this bound with the memory that each kind of filter takes per event of a window, as \
                planned, and with the memory of an exact map. The second picture tests the planned sizes. The measured \
                rates agree with the formulas, and are below the requested rates.",
    reads_logs: None,
    measure,
};

const RATES: [f64; 4] = [0.03, 0.01, 0.003, 0.001];
/// Number of windows before a measurement.
const WINDOWS_BEFORE: u64 = 2;
/// Number of windows in a measurement.
const WINDOWS_MEASURED: u64 = 2;

/// Number of events in a window that fill at least one region of fingerprints.
const REGION_EVENTS: u64 = 24_000;
/// Number of equal steps in a window of fingerprints.
const WINDOW_STEPS: u64 = 100;

/// Kind of a filter, together with its window.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Timing,
    Generations,
    Cuckoo,
    JumpingCounters,
    SlidingCounters,
}

const WAYS: [(Way, &str, &str); 5] = [
    (
        Way::Timing,
        "timers, 8 bits",
        "the false-positive rate p^k, averaged over the blocks of cells. Here p is the share of live timers in a \
         block, and k is the number of hash functions. Events that are called duplicates set no timers (Koloniari et \
         al. 2011, section 4)",
    ),
    (
        Way::Generations,
        "words of generations, 8 bits",
        "the false-positive rate 1 - product over the live generations i of (1 - p_i^k), where p_i is the share of \
         words with the bit of generation i. The rate is first averaged over the blocks of cells, and then over the \
         time from one jump of the window to the next",
    ),
    (
        Way::Cuckoo,
        "fingerprints in order of expiry",
        "the false-positive rate 1 - (1 - 2^-F)^(2 S fill). Here a fingerprint has F bits, a bucket has S slots, and \
         the fill is the share of occupied slots in the middle of a tick (Fan et al. 2014, section 5.1)",
    ),
    (
        Way::JumpingCounters,
        "counters, jumping",
        "the false-positive rate F^k, averaged over the part of the stream that follows the first windows. Here F is \
         the share of marked cells, and k is the number of hash functions (Metwally et al. 2005, section 3.3)",
    ),
    (
        Way::SlidingCounters,
        "counters, sliding by count",
        "the false-positive rate p^k, where p is the share of counters in use, and k is the number of hash functions. \
         Events that are called duplicates do not change any counter (Metwally et al. 2005, section 5.2.3)",
    ),
];

impl Way {
    /// Returns the number of events in a window of about `events` events. Cuckoo filters consist of whole regions of
    /// fingerprints, so their window is set to the number of events that fills whole regions.
    fn events(self, events: u64, rate: f64) -> Result<u64, EvalError> {
        match self {
            Self::Cuckoo => {
                let regions = (events / REGION_EVENTS).max(1);
                Ok(filling(regions, WINDOW_STEPS, |events| self.spec(events, rate))?.window_events)
            }
            _ => Ok(events),
        }
    }

    /// Returns the specification of a filter for a window of `events` events, one per millisecond.
    fn spec(self, events: u64, rate: f64) -> FilterSpec {
        let (kind, window) = match self {
            Self::Timing => (Kind::Timing, Window::Duration(events)),
            Self::Generations => (Kind::Generations, Window::Duration(events)),
            Self::Cuckoo => (Kind::Cuckoo, Window::Duration(events)),
            Self::JumpingCounters => (Kind::Counting, Window::Duration(events)),
            Self::SlidingCounters => (Kind::Counting, Window::Events(events)),
        };
        FilterSpec { rate, capacity_events: Some(events), ..FilterSpec::new(kind, window) }
    }

    /// Returns the expected rate of the filter in a steady stream of `events` events per window.
    fn expected(self, definition: &FilterDefinition, events: f64) -> f64 {
        let units = definition.rule.span_units - 1;
        match &definition.cells {
            CellDefinition::Timing(TimingCells { geometry, .. }) => {
                // On average, whole ticks and half of the current tick are alive.
                let live = timing::live_events(events, units as f64, 0.5);
                match geometry.layout() {
                    Layout::Blocked { .. } => {
                        timing::delivered_blocked(&mut rates_of(geometry), geometry.cells() as f64, live)
                    }
                    _ => timing::delivered_classic(geometry.cells() as f64, geometry.hashes(), live),
                }
            }
            CellDefinition::Generations(GenerationCells { geometry, .. }) => {
                let load = JumpingLoad { events, jumps: units as u32 };
                let cells = geometry.cells() as f64;
                match geometry.layout() {
                    Layout::Blocked { .. } => generations::delivered_blocked(&mut rates_of(geometry), cells, load).mean,
                    _ => generations::delivered_classic(cells, geometry.hashes(), load).mean,
                }
            }
            CellDefinition::Cuckoo(CuckooCells { geometry, .. }) => {
                let time_bits = match geometry.layout() {
                    Layout::Buckets { time_bits } => time_bits,
                    _ => 64,
                };
                let fill = timing::live_events(events, units as f64, 0.5) / geometry.cells() as f64;
                let shape = BucketShape::new(geometry.cell_bits(), time_bits);
                cuckoo::rate(shape, fill * (1.0 - cuckoo::rate(shape, fill)))
            }
            CellDefinition::JumpingCounting(JumpingCells { cells, hashes, .. }) => {
                let sub_windows = definition.rule.span_units as usize;
                let sub_window_events = events / units as f64;
                let steady = WINDOWS_BEFORE as u32 * units as u32;
                JumpingCounters { cells: *cells as f64, hashes: *hashes, sub_window_events, sub_windows }
                    .mean_rate(steady, 2 * steady)
            }
            CellDefinition::SlidingCounting(SlidingCells { cells, hashes, .. }) => {
                timing::delivered_classic(*cells as f64, *hashes, events)
            }
            _ => f64::NAN,
        }
    }
}

fn rates_of(geometry: &Geometry) -> BlockRates {
    BlockRates::new(geometry.block_cells(), geometry.hashes())
}

/// Performs one run of one filter. Returns its bits per event, and the events of steady windows that it called
/// duplicates.
fn counted(way: Way, events: u64, rate: f64, seed: u64) -> Result<(f64, Counts), EvalError> {
    let mut subject = Subject::new("memory", &way.spec(events, rate), "none", seed)?;
    let mut stream = distinct((WINDOWS_BEFORE + WINDOWS_MEASURED) * events, seed)?;
    subject.observe(stream.by_ref().take((WINDOWS_BEFORE * events) as usize))?;
    let counts = subject.observe(stream)?;
    Ok((8.0 * subject.filter.bytes() as f64 / events as f64, counts))
}

/// Returns the bits per event of a map of digests that removes those that have left the window. The size is measured
/// after two windows.
fn exact_bits(events: u64, seed: u64) -> Result<f64, EvalError> {
    let mut exact = ExactWindow::new(WindowRule { span_units: events, lateness_units: 0 }, Refresh::Fixed);
    let secret = FilterSecret::from_seed(seed);
    for event in distinct(2 * events, seed)? {
        let stamp = Stamp::on_time(UnitNumber(event.time_ms));
        exact.observe(secret.digest(&event.key.to_le_bytes()), stamp, Verdict::FirstSeen);
    }
    Ok(8.0 * exact.bytes() as f64 / events as f64)
}

fn line(name: &str, y: impl Fn(f64) -> f64) -> Line {
    Line { name: name.to_owned(), points: RATES.iter().rev().map(|rate| (*rate, y(*rate))).collect() }
}

/// Returns lines for the alternatives to a filter, in bits per event.
fn lines_of_bits(exact_bits: f64, redis_key_bytes: Option<f64>) -> Vec<Line> {
    let mut lines = vec![
        line("an exact map of digests", |_| exact_bits),
        line("the least of a Bloom filter without a window: log2(1/P) / ln 2", |rate| {
            -rate.log2() / std::f64::consts::LN_2
        }),
        line("the least of all: log2(1/P)", |rate| -rate.log2()),
    ];
    let redis = redis_key_bytes.map(|bytes| line("a key of Redis (SET key 1 NX EX, measured)", |_| 8.0 * bytes));
    lines.extend(redis);
    lines
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let events: u64 = run.scale.pick(48_000, 24_000, 6_000);
    let cases = WAYS.iter().flat_map(|(way, ..)| RATES.map(|rate| Ok((*way, way.events(events, rate)?, rate))));
    let cases: Vec<(Way, u64, f64)> = cases.collect::<Result<_, EvalError>>()?;
    let runs: Vec<Vec<(f64, Counts)>> =
        run.trials(|seed| cases.iter().map(|(way, events, rate)| counted(*way, *events, *rate, seed)).collect())?;
    let mut expected = Vec::new();
    for (way, events, rate) in &cases {
        expected.push(way.expected(&way.spec(*events, *rate).resolve()?, *events as f64));
    }
    let counts: Vec<Vec<Counts>> = runs.iter().map(|run| run.iter().map(|(_, counts)| *counts).collect()).collect();
    let bits: Vec<Vec<f64>> = runs.iter().map(|run| run.iter().map(|(bits, _)| *bits).collect()).collect();
    let cases = WAYS.iter().zip((0..cases.len()).step_by(RATES.len()));
    let bits = cases.clone().map(|((_, name, _), first)| {
        let points =
            RATES.iter().zip(first..).map(|(rate, case)| Reading::unjudged(*rate, averaged(&bits, case, events)));
        Readings::unjudged(*name, points)
    });
    let rates = cases.map(|((_, name, formula), first)| {
        let points =
            RATES.iter().zip(first..).map(|(rate, case)| Reading::new(*rate, pooled(&counts, case), expected[case]));
        Readings::new(*name, *formula, points)
    });
    let exact = exact_bits(events, run.trial_seeds()[0])?;
    let redis = run.redis_key_bytes;
    let x = Axis::log("requested false-positive rate");
    Ok(Findings {
        source: Source {
            paper: "Koloniari et al. 2011; Metwally et al. 2005".to_owned(),
            section: "sections 4 (Koloniari et al.) and 3 and 5.2 (Metwally et al.)".to_owned(),
            figure: String::new(),
        },
        parameters: vec![parameter("events per window", events)],
        sheets: vec![
            Sheet::new("Bits for an event of the window", x.clone(), Axis::log("bits an event"), bits)
                .with_lines(lines_of_bits(exact, redis)),
            Sheet::new(
                "False-positive rate of the planned size",
                x,
                Axis::log("measured false positives (share of new events)"),
                rates,
            )
            .with_lines(vec![line("as asked for", |rate| rate)]),
        ],
        notes: NOTES.into_iter().chain([redis_note(redis)]).map(str::to_owned).collect(),
    })
}

const NOTES: [&str; 3] = [
    "The planner chooses sizes so that the false-positive rate stays below the requested rate even at the worst \
     moment. In a jumping window, the worst moment is just before a jump. With timers, it is the end of a tick, \
     because rounding to ticks keeps events slightly longer. This experiment shows the mean rate over a stream, which \
     is therefore lower than the requested rate.",
    "Cuckoo filters consist of regions of 64 KiB with fingerprints, so their window is chosen as the largest one that \
     fills whole regions. Larger windows than those of this experiment take fewer bits per event, because they need \
     less room for random variation (experiment `cuckoo`).",
    "Counting filters whose window slides by the number of events need more memory than their counters. They keep the \
     digests of all events of the window in a queue, and each digest takes 128 bits.",
];

/// Returns the note about Redis, for results with and without a Redis server.
fn redis_note(key_bytes: Option<f64>) -> &'static str {
    match key_bytes {
        Some(_) => {
            "The memory of a Redis key was measured by adding many short keys to a server, and dividing the growth of \
             the memory that the server reports by the number of keys. The result depends on the server and not on the \
             seed. Longer keys take more memory: keys of 24 bytes take 130 bytes each (benchmark `rivals`)."
        }
        None => "The memory of a Redis key is not shown, because no redis-server was found.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;
    use crate::experiments::tests::found;
    use crate::stats::Judged;

    #[test]
    fn rates_are_as_promised_and_no_kind_beats_the_bound() {
        let document = found("memory");
        assert_eq!(document.count(Judged::Out), 0, "{document:#?}");
        let points = |panel: usize| document.panels[panel].series.iter().flat_map(|series| &series.points);
        assert!(points(0).all(|point| point.mean > -point.x.log2()));
        let shown =
            |document: &crate::Document| document.panels[0].lines.iter().any(|line| line.name.contains("Redis"));
        assert!(!shown(document) && document.notes.iter().any(|note| note.contains("no redis-server")));
        assert!(points(1).all(|point| point.low < point.x && point.expected.is_some_and(|rate| rate < point.x)));
    }

    #[test]
    fn a_key_of_redis_is_shown_where_it_was_measured() {
        let run = Run { redis_key_bytes: Some(125.0), ..Run::alone(17, 2, Scale::Tiny) };
        let document = EXPERIMENT.run(&run).unwrap();
        let line = document.panels[0].lines.last().unwrap();
        assert!(line.name.contains("Redis") && line.points.iter().all(|(_, bits)| *bits == 1000.0), "{line:?}");
        assert!(!document.notes.iter().any(|note| note.contains("no redis-server")));
    }
}
