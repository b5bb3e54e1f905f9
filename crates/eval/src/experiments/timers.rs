//! Measures how long a sliding window of timers remembers the events that it delivered (Koloniari et al. 2011, section
//! 4).
//!
//! The experiment uses a production filter in which the window of an event starts at the occurrence that was delivered.
//! It tests that repeats of the event do not extend this window.

use firstseen_filter::rates::{plain, timing};
use firstseen_filter::{FilterSpec, Kind, Window};

use super::{k11, parameter};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{Subject, distinct, pooled, shaped};
use crate::stats::Counts;
use crate::stream::Event;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "timers",
    title: "Sliding windows: how long an event is remembered",
    paragraph: "The timers of a delivered event run for one window, and repeats do not restart them. Every repeat \
                within the window is therefore called a duplicate. After the window, repeats are called duplicates no \
                more often than new events, although each event was repeated once after half of its window.",
    reads_logs: None,
    measure,
};

const HASHES: u32 = 8;
/// False-positive rate for which the filter is sized.
const RATE: f64 = 0.02;
/// Number of points per window.
const PARTS: usize = 8;
/// Number of windows of ages that are measured.
const WINDOWS: usize = 2;
/// Number of windows in the whole stream: one that fills the filter, and the windows that are measured.
const STREAM_WINDOWS: usize = 1 + WINDOWS;

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let window_ticks: usize = run.scale.pick(16_000, 8_000, 4_000);
    let cells = plain::cells(window_ticks as f64, RATE, HASHES) as u64;
    let timers = shaped(Kind::Timing, Window::Duration(window_ticks as u64), cells, HASHES);
    let spec = FilterSpec { cell_bits: Some(16), lateness_ms: Some(0), ..timers };
    let counts = run.trials(|seed| counted(&spec, window_ticks, seed))?;
    let cell = Cell::new(cells as f64, window_ticks as f64);
    let points = (0..WINDOWS * PARTS).map(|part| {
        let expected = if part < PARTS { 1.0 } else { cell.repeats_found(part) };
        Reading::new((part as f64 + 0.5) / PARTS as f64, pooled(&counts, part), expected)
    });
    Ok(Findings {
        source: k11("section 4", ""),
        parameters: vec![
            parameter("window (ticks of 1 ms, one new event each)", window_ticks),
            parameter("timers (m)", cells),
            parameter("hash functions (k)", HASHES),
            parameter("rate of the filter", RATE),
        ],
        sheets: vec![Sheet::new(
            "Repeats called duplicates, by age",
            Axis::linear("age of the delivered sighting (windows)"),
            Axis::log("repeats called duplicates (share)"),
            vec![Readings::new("measured", FORMULA, points)],
        )],
        notes: Vec::new(),
    })
}

const FORMULA: &str = "1 for ages within the window, because the timers of a delivered event are then still running. \
For greater ages, the expected value is the probability that other events have set all k timers in the meantime. For \
ages just above the window, this probability is slightly lower than for still greater ages, because events that met \
the running timers were more often called duplicates and set nothing (Koloniari et al. 2011, section 4)";

/// A single timer of an event that was delivered, in a steady state.
struct Cell {
    /// Mean number of events that meet the timer per window.
    hits: f64,
    /// Mean number of these events that set the timer while it runs. The others are falsely called duplicates and set
    /// nothing.
    raises: f64,
}

impl Cell {
    fn new(cells: f64, window_ticks: f64) -> Self {
        let live = timing::live_events(window_ticks, window_ticks, 1.0);
        let rate = timing::delivered_classic(cells, HASHES, live);
        let refused = rate.powf(1.0 - 1.0 / f64::from(HASHES));
        let hits = -(-plain::fill(cells, HASHES, live)).ln_1p();
        Self { hits, raises: hits * (1.0 - refused) }
    }

    /// Returns the probability that the timer runs d windows after its own time has ended, for d from 0 to 1.
    ///
    /// The function first computes the probability that the timer has stopped, which means that no event has set it in
    /// the last window. The last window ends at the time of the lookup and has two parts. During the first part, whose
    /// length is 1 - d, the original event still keeps the timer running. Other events raise a running timer r times
    /// per window on average, so no event raises it in this part with the probability `e^(-r (1-d))`.
    ///
    /// During the second part of the last window, whose length is d, the timer runs for some time and is then empty,
    /// unless an event sets it. Let l be the time at which it was last set before the last window. This time lies
    /// between 0, the time of the original event, and d. In the second part, the timer runs for l and is empty for d -
    /// l. Events hit an empty timer h times per window on average, so no event sets the timer in this part with the
    /// probability `e^(-r l - h (d-l))`.
    ///
    /// The probability for the second part depends on l, so the function averages it over l. The time l is 0 with the
    /// probability `e^(-r d)`, and otherwise has the density `r e^(-r (d-l))`. The average is `e^(-(r+h) d) + r/h e^(-r
    /// d) (1 - e^(-h d))`. For d = 1, the timer has stopped with a probability that is nearly the share of empty timers
    /// among all timers.
    fn runs_after(&self, d: f64) -> f64 {
        let Self { hits: h, raises: r } = *self;
        let since = (-(r + h) * d).exp() - r / h * (-r * d).exp() * (-h * d).exp_m1();
        1.0 - (-r * (1.0 - d)).exp() * since
    }

    /// Returns the probability that all timers run, averaged over the ages of a part.
    fn repeats_found(&self, part: usize) -> f64 {
        const STEPS: usize = 20;
        let begin = (part - PARTS) as f64 / PARTS as f64;
        let found = (0..STEPS).map(|step| {
            let after = begin + (step as f64 + 0.5) / (STEPS * PARTS) as f64;
            self.runs_after(after).powi(HASHES as i32)
        });
        found.sum::<f64>() / STEPS as f64
    }
}

/// Performs one run, and returns two counts for each age that events have at the end of the stream. All counted events
/// were delivered, and were repeated after half a window. The first count is the number of these events. The second
/// count is the number of them that are called duplicates at the end of the stream.
fn counted(spec: &FilterSpec, window_ticks: usize, seed: u64) -> Result<Vec<Counts>, EvalError> {
    let mut subject = Subject::new("timers", spec, "none", seed)?;
    let sightings: Vec<Event> = distinct((STREAM_WINDOWS * window_ticks) as u64, seed)?.collect();
    let mut is_delivered = vec![false; sightings.len()];
    let part_ticks = window_ticks / PARTS;
    // The stream is sent in parts, because the verdicts of a part determine which events are repeated later.
    for start in (0..sightings.len()).step_by(part_ticks) {
        let mut asked = Vec::new();
        for tick in start..start + part_ticks {
            asked.push((tick, sightings[tick]));
            let repeated = tick.checked_sub(window_ticks / 2).filter(|first| is_delivered[*first]);
            asked.extend(repeated.map(|first| (first, at(sightings[first], sightings[tick].time_ms))));
        }
        let mut first_asked = asked.iter().map(|(first, _)| *first);
        subject.observe_each(asked.iter().map(|(_, event)| *event), |_, is_duplicate| {
            first_asked.next().into_iter().for_each(|first| is_delivered[first] |= !is_duplicate);
        })?;
    }
    let now = sightings.len() - 1;
    let mut counts = Vec::new();
    for part in 0..WINDOWS * PARTS {
        let sighted = (part * part_ticks + 1..=(part + 1) * part_ticks).map(|age| now - age);
        let delivered = sighted.filter(|tick| is_delivered[*tick]);
        counts.push(subject.look_up(delivered.map(|tick| at(sightings[tick], sightings[now].time_ms)))?);
    }
    Ok(counts)
}

/// Returns the same event with another time.
fn at(event: Event, time_ms: u64) -> Event {
    Event { time_ms, ..event }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_windows_after_an_event_its_timers_are_nearly_as_all_others() {
        let (cells, window_ticks) = (70_000.0, 8_000.0);
        let rate = timing::delivered_classic(cells, HASHES, window_ticks + 1.0);
        let cell = Cell::new(cells, window_ticks);
        assert!((cell.runs_after(1.0).powi(HASHES as i32) / rate - 1.0).abs() < 0.01);
        assert!(cell.runs_after(0.0).powi(HASHES as i32) / rate < 0.95);
    }
}
