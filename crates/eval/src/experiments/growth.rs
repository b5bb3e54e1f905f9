//! Reproduces Figures 10 and 11 of Koloniari et al. 2011, section 7. The experiment counts the generations that a
//! filter opens during bursts of twice and five times the normal load, and measures how they raise the false-positive
//! rate.
//!
//! The experiment streams events tick by tick into production filters, whose growth is limited by density or by
//! cardinality.

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
    paragraph: "A filter that is sized for its normal load opens another generation of cells when the newest one is \
                full. Fullness is measured by used cells (density) or by recorded events (cardinality). The oldest \
                generation is dropped when its timers have run out. In this experiment, a burst of f times the load \
                lasts for the middle third of the stream. The filter then needs f + 1 generations at once: f full \
                windows of events, and the generation that is being filled while the oldest runs out. An event is \
                looked up in all generations. The false-positive rate grows with their number, but stays below f times \
                the rate of a full generation, because not all are full. After the burst, the filter returns to one \
                generation within one window.",
    reads_logs: None,
    measure,
};

const HASHES: u32 = 4;
/// False-positive rate of a full generation.
const RATE: f64 = 0.02;
const GENERATIONS_MAX: u32 = 16;
/// Number of ticks that batches may continue without maintenance. Expired events stay longer by this time.
const UPKEEP_TICKS: u64 = 4;
const FACTORS: [f64; 2] = [2.0, 5.0];
const LIMITS: [(Limit, &str); 2] = [(Limit::Density, "density"), (Limit::Cardinality, "cardinality")];

/// Size of the experiment.
#[derive(Clone, Copy)]
struct Size {
    windows_ticks: [u64; 3],
    tick_events: u64,
}

/// Stream through one filter.
#[derive(Clone, Copy)]
struct Case {
    window_ticks: u64,
    factor: f64,
    limit: Limit,
    /// Number of ticks of normal load for which a generation is sized.
    sized_ticks: u64,
}

/// Results of one run of a case.
struct Found {
    course: Course,
    /// Mean number of generations during the burst, between two openings.
    generations: f64,
    /// Number of new events during that time, and how many of them were called duplicates.
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

    /// Returns the cases: first every window with its own size of a generation, and then all windows with the size of
    /// the second.
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

    /// Returns the number of events in the ticks for which a generation is sized.
    fn sized_events(&self, size: Size) -> u64 {
        self.sized_ticks * size.tick_events
    }

    /// Returns the number of events (n) that fill a generation. A generation is sized for the events of a certain
    /// number of ticks. To these events, the function adds the events of one and a half ticks, because events stay
    /// longer than their window: all events of a tick expire together, which adds half a tick on average, and expiries
    /// are rounded up, which adds another tick.
    fn capacity_events(&self, size: Size) -> f64 {
        self.sized_events(size) as f64 * (1.0 + 1.5 / self.window_ticks as f64)
    }

    /// Returns the number of cells (m) that a generation needs to hold n events at the false-positive rate P of a full
    /// generation. The number follows from `n = -(m/k) ln(1 - P^(1/k))` (Koloniari et al. 2011, section 5).
    fn cells(&self, size: Size) -> f64 {
        let hashes = f64::from(HASHES);
        (-hashes * self.capacity_events(size) / (-RATE.powf(1.0 / hashes)).ln_1p()).ceil()
    }

    /// Returns the number of ticks for which an event is known: its own tick and a whole window.
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
            // On average, the first and the last tick count for a half.
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
        // Before the range `steady`, generations from before the burst still exist.
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

/// Counts up to the opening of a generation.
#[derive(Clone, Copy, Default)]
struct Opening {
    tick: u64,
    /// Sum of the number of generations over ticks.
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
        source: k11("sections 5 and 7", "Figures 10, 11"),
        parameters: vec![
            parameter("stream (ticks of 1 ms)", size.ticks()),
            parameter("new events per tick, outside of the burst", size.tick_events),
            parameter("hash functions (k)", HASHES),
            parameter("rate of a full generation", RATE),
        ],
        sheets,
        notes: NOTES.map(str::to_owned).to_vec(),
    })
}

/// Returns the series of all cases, in their order, over the windows.
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
    "the number 1 + W / tau of live generations, where W is the window in ticks and tau is the time in which a \
     generation fills. A generation is full when it has recorded x events, so tau = x / (arrivals (1 - rate)) ticks",
    "the false-positive rate 1 - product over the live generations i of (1 - p_i^k), averaged over the time in which \
     one generation fills. Here p_i is the share of cells that the live events of generation i have set. Koloniari et \
     al. 2011, section 5, give the rate 1 - (1-P)^L for L full generations instead",
];

const NOTES: [&str; 5] = [
    "Koloniari et al. say that the count of events (cardinality) cannot be decremented as events expire, so that a \
     filter fluctuates between one and two generations at normal load. In this project every generation counts its \
     events by tick and subtracts those that have expired, so one generation suffices. Two generations are needed only \
     if a generation is limited by its share of used cells (density). Expired timers count as used until a sweep \
     clears them, eight times per window, so a filter that is sized exactly for its load is always slightly beyond \
     this limit.",
    "Koloniari et al. state \"The larger the window, the more filters\". This holds only if filters of one size serve \
     all windows. A filter that is sized for its own window needs f + 1 generations in a burst of f times the normal \
     load, whatever the window is. Only the lifetime of the generations grows with the window.",
    "All events of this experiment are new, which is the worst case for growth, because repeats fill no generation. In \
     a burst of f times the load, the filter needs slightly fewer than f + 1 generations on average, because false \
     positives are not recorded and leave room. The exception is a burst of twice the load in the shortest window. A \
     generation is dropped four ticks late there, which matters more in a short window.",
    "The formulas assume that generations are independent. In fact an event has the same positions in all generations, \
     and only events that no generation knows are recorded. New events therefore hit the cells that older generations \
     have set slightly less often. At 5 times the load and a rate of 5 %, a generation limited by density takes 0.4 % \
     more events than the formula says, and the false-positive rate is 0.7 % higher. At a rate of 2 % the difference \
     is too small to be seen.",
    "The expected number of generations and the expected false-positive rate at each point of the stream come from a \
     simulation that follows the rules of growth tick by tick. Each run has its own simulation, with the same number \
     of events and with randomly drawn positions instead of hashed ones. The simulation drops a generation four ticks \
     after its last event has expired, as the filter does, because batches may continue for four ticks without \
     maintenance.",
];

fn each(runs: &[Vec<Found>], value: impl Fn(&Found) -> f64) -> Vec<Vec<f64>> {
    runs.iter().map(|run| run.iter().map(&value).collect()).collect()
}

/// Returns the lines `1 - (1 - P)^f`, which are the rates of f full generations for a burst of f times the load.
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
        // By cardinality, with the longest window and five times the load, the filter has one generation, then several,
        // and one again.
        let course = &document.panels[5].series[1].points;
        let at = |share: usize| course[share * (course.len() - 1) / 100].mean;
        assert!(at(20) == 1.0 && at(60) > 4.0 && at(100) == 1.0, "{course:?}");
    }
}
