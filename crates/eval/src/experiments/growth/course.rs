//! Measures the number of generations and the false-positive rate at each point of a stream with a burst, as the
//! figures of the paper show them. The measurements are compared with a simulation of the same rules with randomly
//! drawn positions.
//!
//! Each measured value is compared with the expected value of the same part of the stream.

use firstseen_filter::Limit;

use super::growing::{Full, Growing, Law};
use super::{Case, FACTORS, HASHES, LIMITS, RATE, Size, UPKEEP_TICKS};
use crate::document::{Axis, Readings, Sheet};
use crate::experiment::EvalError;
use crate::measure::{Compared, averaged_with_expected, pooled_with_expected};
use crate::stats::Counts;

/// Number of points on the time axis.
const BINS: u64 = 30;
/// Number of sweeps in a window, and the minimum number of ticks between two sweeps, for filters that decide by the
/// number of used timers.
const SWEEPS: u64 = 8;
const SWEEP_TICKS_MIN: u64 = 8;
/// Number of windows in a run.
const WINDOWS: usize = 3;

/// Values for each of [`BINS`] parts of the stream.
pub(super) struct Course {
    /// For each part, the number of ticks and the sum of generations over these ticks.
    ticks: Vec<(u64, u64)>,
    /// For each part, the number of events, which are all new, and how many of them were called duplicates.
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

    /// Returns the mean number of generations in each part.
    fn generations(&self) -> Vec<f64> {
        self.ticks.iter().map(|(ticks, generations)| *generations as f64 / *ticks as f64).collect()
    }

    /// Returns the share of errors in each part.
    fn rates(&self) -> Vec<f64> {
        self.errors.iter().map(|counts| counts.successes as f64 / counts.trials as f64).collect()
    }
}

/// Content of a panel: a window and a measure of fullness. Each burst has a curve.
#[derive(Clone, Copy)]
struct Shown {
    window: usize,
    limit: usize,
}

impl Shown {
    fn all() -> impl Iterator<Item = Self> {
        (0..WINDOWS).flat_map(|window| (0..LIMITS.len()).map(move |limit| Self { window, limit }))
    }

    /// Returns the indexes in the list of cases, in the order of the legend.
    fn cases(self) -> [usize; FACTORS.len()] {
        std::array::from_fn(|factor| WINDOWS * (self.limit * FACTORS.len() + factor) + self.window)
    }
}

/// Returns one simulation of every case that is shown, panel by panel.
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
                // The density limit is z = m P^(1/k) (Koloniari et al. 2011, section 5).
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

/// Returns the panels with generations by window and limit, followed by the panels with false positives in the same
/// order.
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
                let law = "the result of a simulation that follows the rules of growth tick by tick. The simulation \
                           draws positions at random instead of hashing events (after Koloniari et al. 2011, section \
                           5)";
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

/// Titles of panels and of their y axes, for generations and for false positives.
const TITLES: [[&str; 2]; 2] = [
    ["Figure 10: live generations", "generations (mean)"],
    ["Figure 11: false positives", "false positives (share of new events)"],
];

/// Curve of a panel: its index in the list of cases, and its index in the list of simulations.
#[derive(Clone, Copy)]
struct Curve {
    case: usize,
    of_draw: usize,
}

impl Curve {
    fn rate(self, bin: usize, runs: &[Vec<Course>], drawn: &[Vec<Course>]) -> Compared {
        let errors: Vec<_> = runs.iter().map(|run| run[self.case].errors.clone()).collect();
        let rates: Vec<_> = drawn.iter().map(|run| run[self.of_draw].rates()).collect();
        pooled_with_expected(&errors, &rates, bin)
    }

    fn generations(self, bin: usize, size: Size, runs: &[Vec<Course>], drawn: &[Vec<Course>]) -> Compared {
        let measured: Vec<_> = runs.iter().map(|run| run[self.case].generations()).collect();
        let expected: Vec<_> = drawn.iter().map(|run| run[self.of_draw].generations()).collect();
        // Ticks are integers. Another run may have one tick more or less, even if none of these runs differs.
        let tick = BINS as f64 / size.ticks() as f64;
        let error = tick / (runs.len() as f64).sqrt();
        averaged_with_expected(&measured, &expected, bin, size.ticks() / BINS).with_error_of(error)
    }
}
