//! K11 7, Figures 10 and 11: the generations that a filter opens in bursts of twice and five times the load, and their
//! cost.
//!
//! Promises: production growth by density and by cardinality, tick by tick. Must not know: what a generation's cells hold.

mod course;
mod growing;

use firstseen_filter::rates::growth as rates;
use firstseen_filter::{FilterSpec, GrowthSpec, Kind, Layout, Limit, Window};

use self::course::Course;
use super::burst::{Burst, Steady};
use super::{k11, parameter};
use crate::document::{Axis, Line, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run, Scale};
use crate::measure::{Compared, Subject, averaged, pooled};
use crate::stats::Counts;
use crate::stream::{self, Keys, StreamSpec};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "growth",
    title: "Dynamic size: generations through a burst",
    paragraph: "A filter sized for its normal load opens another generation of cells whenever the newest is full, by the cells in \
                use (density) or by the events recorded (cardinality), and drops the oldest when its timers have run out. \
                A burst of f times the load lasts for the middle third of the stream. It needs f + 1 generations at once: f \
                windows full of events, and the one that is being filled while the oldest runs out. An event is looked up in \
                all of them, so false positives grow with them, to less than f times the rate of a full one: not all are full. After the burst one window suffices \
                until all are gone.",
    reads_logs: None,
    measure,
};

const HASHES: u32 = 4;
/// Rate of a full generation.
const RATE: f64 = 0.02;
const GENERATIONS_MAX: u32 = 16;
/// Ticks for which batches may go on without upkeep: expired events stay so much longer.
const UPKEEP_TICKS: u64 = 4;
const FACTORS: [f64; 2] = [2.0, 5.0];
const LIMITS: [(Limit, &str); 2] = [(Limit::Density, "density"), (Limit::Cardinality, "cardinality")];

/// How large the experiment is.
#[derive(Clone, Copy)]
struct Size {
    windows_ticks: [u64; 3],
    tick_events: u64,
}

/// One stream through one filter.
#[derive(Clone, Copy)]
struct Case {
    window_ticks: u64,
    factor: f64,
    limit: Limit,
    /// Ticks of normal load that a generation is sized for.
    sized_ticks: u64,
}

/// The results of one run of a case.
struct Found {
    course: Course,
    /// Mean number of generations in the burst, between two openings.
    generations: f64,
    /// New events of that time that were called duplicates.
    errors: Counts,
}

impl Size {
    fn of(scale: Scale) -> Self {
        Self {
            windows_ticks: scale.pick([100, 500, 1000], [100, 500, 1000], [50, 100, 200]),
            tick_events: scale.pick(10, 6, 20),
        }
    }

    fn ticks(self) -> u64 {
        15 * self.windows_ticks[2]
    }

    /// Every window with its own size of a generation; then all with the size of the second.
    fn cases(self) -> Vec<Case> {
        let mut cases = Vec::new();
        for (limit, _) in LIMITS {
            for factor in FACTORS {
                let own =
                    self.windows_ticks.map(|ticks| Case { window_ticks: ticks, factor, limit, sized_ticks: ticks });
                cases.extend(own);
            }
        }
        cases.extend(self.windows_ticks.map(|window_ticks| Case {
            window_ticks,
            factor: FACTORS[0],
            limit: Limit::Cardinality,
            sized_ticks: self.windows_ticks[1],
        }));
        cases
    }
}

impl Case {
    fn spec(&self, size: Size) -> FilterSpec {
        FilterSpec {
            rate: rates::live_rate(RATE, f64::from(GENERATIONS_MAX)),
            capacity_events: Some(self.sized_events(size)),
            hashes: Some(HASHES),
            layout: Some(Layout::Classic),
            cell_bits: Some(16),
            lateness_ms: Some(0),
            growth: Some(GrowthSpec { limit: self.limit, generations_max: GENERATIONS_MAX, ratio: 1.0 }),
            ..FilterSpec::new(Kind::Timing, Window::Duration(self.window_ticks))
        }
    }

    fn stream(&self, size: Size) -> StreamSpec {
        let third = size.ticks() / 3;
        let burst = stream::Burst { from_ms: third, to_ms: 2 * third, factor: self.factor };
        let rate = size.tick_events as f64;
        let events = rate * third as f64 * (2.0 + self.factor);
        StreamSpec {
            events_per_second: 1000.0 * rate,
            bursts: vec![burst],
            ..StreamSpec::new(events as u64, Keys::Distinct)
        }
    }

    /// Events of the ticks that a generation is sized for.
    fn sized_events(&self, size: Size) -> u64 {
        self.sized_ticks * size.tick_events
    }

    /// Events (n) that fill a generation: those, and half a tick's for the tick that events share and a tick's for the
    /// one that rounding adds.
    fn capacity_events(&self, size: Size) -> f64 {
        self.sized_events(size) as f64 * (1.0 + 1.5 / self.window_ticks as f64)
    }

    /// Its cells (m), of which n events make the rate P of a full generation: `n = -(m/k) ln(1 - P^(1/k))` (K11 5).
    fn cells(&self, size: Size) -> f64 {
        let hashes = f64::from(HASHES);
        (-hashes * self.capacity_events(size) / (-RATE.powf(1.0 / hashes)).ln_1p()).ceil()
    }

    /// Ticks in which an event is known: a whole window after its own.
    fn alive_ticks(&self) -> u64 {
        self.window_ticks + 1
    }

    fn expected(&self, size: Size) -> Steady {
        let burst = Burst {
            cells: self.cells(size),
            hashes: HASHES,
            capacity_events: self.capacity_events(size),
            limit: self.limit,
            tick_events: self.factor * size.tick_events as f64,
            // The first and the last tick count for a half on average.
            alive_ticks: self.alive_ticks() as f64 - 0.5,
            kept_ticks: (self.alive_ticks() + UPKEEP_TICKS) as f64,
        };
        burst.steady()
    }

    fn counted(&self, size: Size, seed: u64) -> Result<Found, EvalError> {
        let mut subject = Subject::new("growth", &self.spec(size), "none", seed)?;
        let stream = self.stream(size);
        let mut events = stream.events(seed)?.peekable();
        let third = size.ticks() / 3;
        // Until `steady` begins, generations from before the burst are still there.
        let steady = third + (2.2 * self.window_ticks as f64) as u64..2 * third;
        let mut course = Course::new();
        let mut at_openings: Vec<Opening> = Vec::new();
        let mut generation_ticks = 0;
        let mut errors = Counts::default();
        let mut before = 1;
        for tick in 0..size.ticks() {
            let now_ms = stream.start_ms + tick;
            let counts = subject.observe(std::iter::from_fn(|| events.next_if(|event| event.time_ms <= now_ms)))?;
            let generations = subject.filter.generations();
            if steady.contains(&tick) {
                if generations > before || at_openings.is_empty() {
                    at_openings.push(Opening { tick, generation_ticks, errors });
                }
                generation_ticks += generations as u64;
                errors.successes += counts.successes;
                errors.trials += counts.trials;
            }
            before = generations;
            course.add(size, tick, generations, counts);
        }
        let first = at_openings.get(1).or(at_openings.first()).copied().unwrap_or_default();
        let end = Opening { tick: steady.end, generation_ticks, errors };
        let last = if at_openings.len() < 3 { end } else { at_openings[at_openings.len() - 1] };
        Ok(Found {
            course,
            generations: (last.generation_ticks - first.generation_ticks) as f64 / (last.tick - first.tick) as f64,
            errors: Counts {
                successes: last.errors.successes - first.errors.successes,
                trials: last.errors.trials - first.errors.trials,
            },
        })
    }
}

/// What was counted until a generation opened.
#[derive(Clone, Copy, Default)]
struct Opening {
    tick: u64,
    /// Generations, summed over ticks.
    generation_ticks: u64,
    errors: Counts,
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let size = Size::of(run.scale);
    let cases = size.cases();
    let both = run.trials(|seed| {
        let counted: Result<Vec<Found>, _> = cases.iter().map(|case| case.counted(size, seed)).collect();
        Ok((counted?, course::drawn(size, &cases, seed)?))
    })?;
    let (runs, drawn): (Vec<Vec<Found>>, Vec<Vec<Course>>) = both.into_iter().unzip();
    let expected: Vec<Steady> = cases.iter().map(|case| case.expected(size)).collect();
    let generations = each(&runs, |found| found.generations);
    let errors: Vec<Vec<Counts>> = runs.iter().map(|run| run.iter().map(|found| found.errors).collect()).collect();
    let per_run = (size.ticks() / 3) * size.tick_events;
    let courses: Vec<Vec<Course>> =
        runs.into_iter().map(|run| run.into_iter().map(|found| found.course).collect()).collect();
    let mut sheets = course::sheets(size, &courses, &drawn);
    let x = Axis::linear("window (ticks)");
    sheets.push(Sheet::new(
        "Figure 10: live generations within the burst",
        x.clone(),
        Axis::linear("generations (mean)"),
        by_window(size, FORMULAS[0], |case| Compared {
            estimate: averaged(&generations, case, per_run),
            expected: expected[case].generations,
        }),
    ));
    let rates = Sheet::new(
        "Figure 11: false positives within the burst",
        x,
        Axis::linear("false positives (share of new events)"),
        by_window(size, FORMULAS[1], |case| Compared {
            estimate: pooled(&errors, case),
            expected: expected[case].rate,
        }),
    );
    sheets.push(rates.with_lines(live_lines(size)));
    Ok(Findings {
        source: k11("5 and 7", "Figures 10, 11"),
        parameters: vec![
            parameter("stream (ticks of 1 ms)", size.ticks()),
            parameter("new events a tick, outside of the burst", size.tick_events),
            parameter("hash functions (k)", HASHES),
            parameter("rate of a full generation", RATE),
        ],
        sheets,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

/// The series of all cases, in their order, over the windows.
fn by_window(size: Size, formula: &str, compared: impl Fn(usize) -> Compared) -> Vec<Readings> {
    let mut names = Vec::new();
    for (_, limit) in LIMITS {
        names.extend(FACTORS.map(|factor| format!("measured, {limit}, {factor} times the load")));
    }
    names.push(format!("measured, cardinality, {} times the load, one size for all windows", FACTORS[0]));
    let series = names.into_iter().enumerate().map(|(series, name)| {
        let windows = size.windows_ticks.iter().enumerate();
        let points = windows.map(|(place, window_ticks)| compared(3 * series + place).at(*window_ticks as f64));
        Readings::new(name, formula, points)
    });
    series.collect()
}

const FORMULAS: [&str; 2] = [
    "1 + W / tau, tau = x / (arrivals (1 - rate)) ticks in which a generation takes the x events that fill it",
    "mean over a period of 1 - product of (1 - p_i^k) over what lives of each generation (K11 5: 1 - (1-P)^L)",
];

const NOTES: [&str; 5] = [
    "The paper says that cardinality cannot be decremented as events expire, so that it fluctuates between one filter and two \
     at normal load. Here every generation counts its events by tick, and takes new ones for those that have expired: one \
     generation suffices. It is density that needs two at normal load: it counts expired timers until they are swept, eight times a \
     window, so a filter that is sized exactly for its load is always a little beyond its limit.",
    "\"The larger the window, the more filters\" holds only where one size serves all windows. Sized for its own window, a \
     filter needs f + 1 generations in a burst of f times the load, whatever the window; what grows is how long they live.",
    "All events here are new, which is the worst case for growth: repeats open nothing. False positives that are refused leave \
     room, so there are fewer generations than f + 1, but at twice the load in the shortest window, where the four ticks of upkeep weigh more.",
    "The formulas take generations as independent. An event has the same positions in all of them, and only what none of them \
     knows is recorded, so cells that older generations have set are hit a little less: at 5 times the load and a rate of 5 %, \
     0.4 % more events fill a generation by density and the rate is 0.7 % higher than said here; at 2 % too little to be seen.",
    "Courses over the stream are expected as the law of growth gives them tick by tick: for every run once, with as many events \
     and places that are drawn, not hashed. A generation goes when its last event has expired and four ticks more, for which \
     batches may go on without upkeep.",
];

fn each(runs: &[Vec<Found>], value: impl Fn(&Found) -> f64) -> Vec<Vec<f64>> {
    runs.iter().map(|run| run.iter().map(&value).collect()).collect()
}

/// `1 - (1 - P)^f`: as many full generations as the burst is times the load.
fn live_lines(size: Size) -> Vec<Line> {
    let ends = [size.windows_ticks[0], size.windows_ticks[2]];
    let lines = FACTORS.map(|factor| Line {
        name: format!("1 - (1 - P)^{factor}"),
        points: ends.map(|window_ticks| (window_ticks as f64, rates::live_rate(RATE, factor))).to_vec(),
    });
    lines.to_vec()
}

#[cfg(test)]
mod tests {
    use crate::experiments::tests::found;
    use crate::stats::Judged;

    #[test]
    #[ignore = "minutes"]
    fn a_burst_opens_generations_and_they_go_again() {
        let document = found("growth");
        assert_eq!(document.count(Judged::Out), 0, "{document:#?}");
        // By cardinality, with the longest window, at five times the load: one generation, many, one again.
        let course = &document.panels[5].series[1].points;
        let at = |share: usize| course[share * (course.len() - 1) / 100].mean;
        assert!(at(20) == 1.0 && at(60) > 4.0 && at(100) == 1.0, "{course:?}");
    }
}
