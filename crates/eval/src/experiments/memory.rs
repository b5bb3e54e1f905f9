//! Bits for an event of the window against the rate of false positives: every windowed kind, an exact map, and the bound of
//! information theory.
//!
//! Promises: sizes are those of the production planner, each with the rate that the filter then has. Must not know: how
//! sizes are found.

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
    paragraph: "No filter can remember an event in less than log2(1/P) bits if it may call one of 1/P new events a duplicate. What \
                each kind takes for a window of events, as the planner sizes it, stands beside that bound and beside a map that \
                never errs. The second picture tests the sizes: the measured rate lies where the formulas have it, which is \
                under the one that was asked for.",
    reads_logs: None,
    measure,
};

const RATES: [f64; 4] = [0.03, 0.01, 0.003, 0.001];
/// Windows before a measurement.
const WINDOWS_BEFORE: u64 = 2;
/// Windows of a measurement.
const WINDOWS_MEASURED: u64 = 2;

/// Of so many events of a window one region of fingerprints is filled, or more.
const REGION_EVENTS: u64 = 24_000;
/// A window of fingerprints is so many equal steps.
const WINDOW_STEPS: u64 = 100;

/// A kind with its window.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Timing,
    Generations,
    Cuckoo,
    JumpingCounters,
    SlidingCounters,
}

const WAYS: [(Way, &str, &str); 5] = [
    (Way::Timing, "timers, 8 bits", "mean over blocks of p^k; what is called a duplicate sets nothing (K11 4)"),
    (
        Way::Generations,
        "words of generations, 8 bits",
        "mean from jump to jump over blocks of 1 - product of (1 - p_i^k)",
    ),
    (
        Way::Cuckoo,
        "fingerprints in order of expiry",
        "1 - (1 - 2^-F)^(2 S fill), at half of the current tick (Fan et al. 2014, 5.1)",
    ),
    (Way::JumpingCounters, "counters, jumping", "mean of F^k over steady sub-windows (M05 3.3)"),
    (Way::SlidingCounters, "counters, sliding by count", "p^k; what is called a duplicate sets nothing (M05 5.2.3)"),
];

impl Way {
    /// Events of a window of about `events`: of fingerprints, which come in regions, as many as fill whole ones.
    fn events(self, events: u64, rate: f64) -> Result<u64, EvalError> {
        match self {
            Self::Cuckoo => {
                let regions = (events / REGION_EVENTS).max(1);
                Ok(filling(regions, WINDOW_STEPS, |events| self.spec(events, rate))?.window_events)
            }
            _ => Ok(events),
        }
    }

    /// The filter for a window of `events`, one a millisecond.
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

    /// The expected rate of this filter in a steady stream of `events` a window.
    fn expected(self, definition: &FilterDefinition, events: f64) -> f64 {
        let units = definition.rule.span_units - 1;
        match &definition.cells {
            CellDefinition::Timing(TimingCells { geometry, .. }) => {
                // Whole ticks, and half of the current one on average.
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

/// One run of one filter: its bits an event, and the events of steady windows that it called duplicates.
fn counted(way: Way, events: u64, rate: f64, seed: u64) -> Result<(f64, Counts), EvalError> {
    let mut subject = Subject::new("memory", &way.spec(events, rate), "none", seed)?;
    let mut stream = distinct((WINDOWS_BEFORE + WINDOWS_MEASURED) * events, seed)?;
    subject.observe(stream.by_ref().take((WINDOWS_BEFORE * events) as usize))?;
    let counts = subject.observe(stream)?;
    Ok((8.0 * subject.filter.bytes() as f64 / events as f64, counts))
}

/// Bits an event of a map of digests that forgets those that have left the window; its size is measured after two
/// windows.
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

/// Lines for the alternatives to a filter, in bits an event.
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
    let x = Axis::log("rate of false positives asked for");
    Ok(Findings {
        source: Source {
            paper: "Koloniari et al. 2011; Metwally et al. 2005".to_owned(),
            section: "K11 4; M05 3 and 5.2".to_owned(),
            figure: String::new(),
        },
        parameters: vec![parameter("events a window", events)],
        sheets: vec![
            Sheet::new("Bits for an event of the window", x.clone(), Axis::log("bits an event"), bits)
                .with_lines(lines_of_bits(exact, redis)),
            Sheet::new(
                "The rate that it then has",
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
    "Sizes keep the worst moment under the rate asked for: a jumping window just before a jump, timers with the tick that \
     rounding adds. The mean over a stream lies below it.",
    "Fingerprints come in regions of 64 KiB: their window is the largest that fills whole ones. Large windows take fewer bits, as \
     chance needs less room there (experiment cuckoo).",
    "Counters sliding by count keep the digests of the whole window in a queue: 128 bits each beside their counters.",
];

/// The note about Redis, with or without a server.
fn redis_note(key_bytes: Option<f64>) -> &'static str {
    match key_bytes {
        Some(_) => {
            "A key of Redis is what the memory that a server says it uses grew by, a part for each of many short keys; it \
             depends on the server and not on the seed. Keys of 24 bytes take 130 bytes each (bench rivals)."
        }
        None => "What a key of a Redis server takes is not shown: no redis-server was found to ask when this was made.",
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
