//! Generations and false positives over the stream, as the paper shows them, beside the same law over drawn places.
//! Promises: measured and expected values are those of the same parts of the stream. Must not know: the formulas of a
//! steady burst.

use firstseen_filter::Limit;

use super::growing::{Full, Growing, Law};
use super::{Case, FACTORS, HASHES, LIMITS, RATE, Size, UPKEEP_TICKS};
use crate::document::{Axis, Readings, Sheet};
use crate::experiment::EvalError;
use crate::measure::{Compared, averaged_beside, pooled_beside};
use crate::stats::Counts;

/// Places on the axis of time.
const BINS: u64 = 30;
/// Where timers in use decide: how often in a window the expired ones are emptied, and the shortest pause between.
const SWEEPS: u64 = 8;
const SWEEP_TICKS_MIN: u64 = 8;
/// Windows of a run.
const WINDOWS: usize = 3;

/// The values in each of [`BINS`] parts of the stream.
pub(super) struct Course {
    /// Ticks, and generations summed over them.
    ticks: Vec<(u64, u64)>,
    /// Events, all of them new, and those that were called duplicates.
    errors: Vec<Counts>,
}

impl Course {
    pub(super) fn new() -> Self {
        Self { ticks: vec![(0, 0); BINS as usize], errors: vec![Counts::default(); BINS as usize] }
    }

    /// Adds one tick.
    pub(super) fn add(&mut self, size: Size, tick: u64, generations: usize, counts: Counts) {
        let bin = (tick * BINS / size.ticks()) as usize;
        self.ticks[bin].0 += 1;
        self.ticks[bin].1 += generations as u64;
        self.errors[bin].successes += counts.successes;
        self.errors[bin].trials += counts.trials;
    }

    /// The mean number of generations in each part.
    fn generations(&self) -> Vec<f64> {
        self.ticks.iter().map(|(ticks, generations)| *generations as f64 / *ticks as f64).collect()
    }

    /// The share of the errors in each part.
    fn rates(&self) -> Vec<f64> {
        self.errors.iter().map(|counts| counts.successes as f64 / counts.trials as f64).collect()
    }
}

/// The content of a panel: a window, and by what a generation is full; each burst has a curve.
#[derive(Clone, Copy)]
struct Shown {
    window: usize,
    limit: usize,
}

impl Shown {
    fn all() -> impl Iterator<Item = Self> {
        (0..WINDOWS).flat_map(|window| (0..LIMITS.len()).map(move |limit| Self { window, limit }))
    }

    /// The indices in the list of cases, in the order of the legend.
    fn cases(self) -> [usize; FACTORS.len()] {
        std::array::from_fn(|factor| WINDOWS * (self.limit * FACTORS.len() + factor) + self.window)
    }
}

/// One draw of every case that is shown, panel by panel.
pub(super) fn drawn(size: Size, cases: &[Case], seed: u64) -> Result<Vec<Course>, EvalError> {
    Shown::all().flat_map(Shown::cases).map(|case| cases[case].drawn(size, seed)).collect()
}

impl Case {
    fn drawn(&self, size: Size, seed: u64) -> Result<Course, EvalError> {
        let cells = self.cells(size);
        let law = Law {
            timers: cells as u32,
            hashes: HASHES,
            full: match self.limit {
                Limit::Cardinality => Full::Events(self.capacity_events(size).ceil() as u64),
                // z = m P^(1/k) (K11 5).
                Limit::Density => Full::Timers((cells * RATE.powf(1.0 / f64::from(HASHES))) as u64),
            },
            alive_ticks: self.alive_ticks(),
            upkeep_ticks: UPKEEP_TICKS,
            sweep_ticks: (self.alive_ticks() / SWEEPS).max(SWEEP_TICKS_MIN),
        };
        let mut growing = Growing::new(law, seed);
        let mut course = Course::new();
        let stream = self.stream(size);
        let mut events = stream.events(seed)?.peekable();
        for tick in 0..size.ticks() {
            let now_ms = stream.start_ms + tick;
            let trials = std::iter::from_fn(|| events.next_if(|event| event.time_ms <= now_ms)).count() as u64;
            let counts = Counts { successes: growing.tick(trials), trials };
            course.add(size, tick, growing.generations(), counts);
        }
        Ok(course)
    }
}

/// By window and limit the generations, then the false positives in the same order.
pub(super) fn sheets(size: Size, runs: &[Vec<Course>], drawn: &[Vec<Course>]) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for is_rate in [false, true] {
        for (panel, shown) in Shown::all().enumerate() {
            let cases = shown.cases().into_iter().enumerate();
            let curves = cases.map(|(place, case)| Curve { case, of_draw: panel * FACTORS.len() + place });
            let series = FACTORS.iter().zip(curves).map(|(factor, curve)| {
                let points = (0..BINS as usize).map(|bin| {
                    let compared =
                        if is_rate { curve.rate(bin, runs, drawn) } else { curve.generations(bin, size, runs, drawn) };
                    compared.at(100.0 * (bin as f64 + 0.5) / BINS as f64)
                });
                let law = "the law of growth, tick by tick, over places that are drawn (K11 5)";
                Readings::new(format!("measured, burst of {factor} times the load"), law, points)
            });
            let [figure, y] = TITLES[usize::from(is_rate)];
            let limit = LIMITS[shown.limit].1;
            let window_ticks = size.windows_ticks[shown.window];
            let title = format!("{figure}, by {limit}, window of {window_ticks} ticks");
            sheets.push(Sheet::new(title, Axis::linear("place in the stream (%)"), Axis::linear(y), series));
        }
    }
    sheets
}

/// The titles of panels and of their axes: of generations, and of false positives.
const TITLES: [[&str; 2]; 2] = [
    ["Figure 10: live generations", "generations (mean)"],
    ["Figure 11: false positives", "false positives (share of new events)"],
];

/// A curve of a panel: its place in the list of cases, and in the list of draws.
#[derive(Clone, Copy)]
struct Curve {
    case: usize,
    of_draw: usize,
}

impl Curve {
    fn rate(self, bin: usize, runs: &[Vec<Course>], drawn: &[Vec<Course>]) -> Compared {
        let errors: Vec<_> = runs.iter().map(|run| run[self.case].errors.clone()).collect();
        let rates: Vec<_> = drawn.iter().map(|run| run[self.of_draw].rates()).collect();
        pooled_beside(&errors, &rates, bin)
    }

    fn generations(self, bin: usize, size: Size, runs: &[Vec<Course>], drawn: &[Vec<Course>]) -> Compared {
        let measured: Vec<_> = runs.iter().map(|run| run[self.case].generations()).collect();
        let expected: Vec<_> = drawn.iter().map(|run| run[self.of_draw].generations()).collect();
        // Ticks are whole: another run may have one more or fewer, though none of these runs has.
        let tick = BINS as f64 / size.ticks() as f64;
        let error = tick / (runs.len() as f64).sqrt();
        averaged_beside(&measured, &expected, bin, size.ticks() / BINS).with_error_of(error)
    }
}
