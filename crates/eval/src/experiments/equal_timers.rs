//! Reproduces Figures 9(c) and 9(d) of Koloniari et al. 2011, section 7. The figures show the false positives and false
//! negatives of the equal-timers heuristic, by the number of timers that must be equal for a duplicate.
//!
//! The experiment fills the windows of production filters with distinct events, for each threshold k' from 0 to k. It
//! then counts the unseen keys that are called duplicates and the delivered keys that are not.

use std::collections::VecDeque;

use super::sliding::{CUTS, GROUPS, HASHES, RATE, Size};
use super::timer_groups::over_loads;
use super::{k11, parameter};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{Subject, distinct, pooled, unseen};
use crate::stats::Counts;
use crate::stream::Event;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "equal-timers",
    title: "Equal timers: false positives and false negatives",
    paragraph: "The equal-timers heuristic calls an event a duplicate only if all its timers are running and at least \
                k' of them are equal. The heuristic reduces false positives at the cost of false negatives. An unseen \
                key hardly ever finds equal timers, but later events have overwritten some timers of an old event. A \
                vertical filter does best with k' = 2, and the small slices of a horizontal filter with k' = 3. The \
                heuristic is off by default, because a filter that must find every duplicate cannot use it.",
    reads_logs: None,
    measure,
};

/// Slicings of the filter, in the order of [`CUTS`]. A filter with vertical slices gives the same verdicts as an
/// unsliced filter.
const SLICINGS: [&str; 2] = ["vertical:10", "horizontal:10"];
/// Maximum threshold k' for which false positives are shown. The threshold is the number of timers that must be equal
/// for a duplicate, and each further timer makes a false positive a thousand times less likely. With a greater
/// threshold, a run of acceptable length would have no false positive, so nothing could be measured.
const EQUAL_SHOWN: u32 = 3;

/// Returns the series of one error, one for each slicing. Error 0 is a false positive, and error 1 is a false negative.
fn series(counts: &[Vec<Counts>], size: Size, error: usize) -> impl Iterator<Item = Readings> {
    CUTS.iter().enumerate().map(move |(cut, (name, _, slices))| {
        let points = (0..=[EQUAL_SHOWN, HASHES][error]).map(|equal| {
            let place = 2 * (cut * (HASHES as usize + 1) + equal as usize) + error;
            Reading::new(equal, pooled(counts, place), expected(size, *slices, equal)[error])
        });
        Readings::new(format!("measured, {name}"), FORMULAS[error], points)
    })
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let window_ticks: u64 = run.scale.pick(16_000, 10_000, 6_000);
    let size = Size { window_ticks };
    let probes = run.scale.pick(50_000, 30_000, 10_000);
    let counts = run.trials(|seed| {
        let mut counts = Vec::new();
        for slicing in SLICINGS {
            for equal_timers in 0..=HASHES {
                counts.extend(counted(size, probes, slicing, equal_timers, seed)?);
            }
        }
        Ok(counts)
    })?;
    let x = Axis::linear("timers that must be equal (k'), of 8");
    let positives = Sheet::new(
        "Figure 9(c): false positives",
        x.clone(),
        Axis::log("false positives (share of unseen keys)"),
        series(&counts, size, 0),
    );
    let negatives = Sheet::new(
        "Figure 9(d): false negatives",
        x,
        Axis::linear("false negatives (share of delivered keys in the window)"),
        series(&counts, size, 1),
    );
    Ok(Findings {
        source: k11("sections 4 and 7", "Figures 9(c), 9(d)"),
        parameters: vec![
            parameter("window (ticks of 1 ms with one event each)", window_ticks),
            parameter("timers (m)", size.cells()),
            parameter("hash functions (k)", HASHES),
            parameter("slices", GROUPS),
            parameter("rate of the plain filter", RATE),
        ],
        sheets: vec![positives, negatives],
        notes: vec![
            "For the thresholds k' = 0 and k' = 1, the equal-timers heuristic is off. This experiment looks up keys \
             of all ages in the window with the same probability. A stream whose repeats come sooner has fewer false \
             negatives, because fewer timers have been overwritten by later events when a repeat arrives."
                .to_owned(),
            "Koloniari et al. give (1 - e^(-k/m))^k as the probability of k equal timers. This formula lacks a factor \
             for the number n of events that may have set the timers. Even with this factor, the probability for \
             thresholds k' of 4 and more is far too low to be measured."
                .to_owned(),
        ],
    })
}

const FORMULAS: [&str; 2] = [
    "the false-positive rate p^k (1 - (1 - c)^C(k,k')), averaged over the loads of the slices. Here p^k is the \
     probability that all k timers of an unseen key are running, and c is the probability that a single event was the \
     last to set k' given timers (Koloniari et al. 2011, section 4)",
    "the false-negative rate 1 - P(u >= k'), where u is the binomial number of timers of a delivered event that no \
     later event has raised. The rate is averaged over the window. It is reduced by the cases in which another event \
     makes at least k' timers equal (Koloniari et al. 2011, section 4)",
];

/// Returns the expected rates of false positives and of false negatives.
fn expected(size: Size, slices: u32, equal: u32) -> [f64; 2] {
    let mean_load = size.window_ticks as f64 / f64::from(slices);
    if slices == 1 {
        let groups = size.groups(slices, mean_load, equal);
        return [groups.unseen(equal), 1.0 - groups.delivered(equal)];
    }
    let unseen = over_loads(mean_load, |load| size.groups(slices, load, equal).unseen(equal));
    let delivered = over_loads(mean_load, |load| load / mean_load * size.groups(slices, load, equal).delivered(equal));
    [unseen, 1.0 - delivered]
}

/// Performs one run, in which the filter receives distinct events for two windows. Counts the unseen keys that are
/// called duplicates, and the delivered keys that are not.
fn counted(size: Size, probes: u64, slicing: &str, equal_timers: u32, seed: u64) -> Result<[Counts; 2], EvalError> {
    let mut subject = Subject::new("equal-timers", &size.spec(equal_timers), slicing, seed)?;
    let mut delivered = VecDeque::new();
    let mut now_ms = 0;
    subject.observe_each(distinct(2 * size.window_ticks, seed)?, |event, is_duplicate| {
        now_ms = event.time_ms + 1;
        if !is_duplicate {
            delivered.push_back(event);
        }
    })?;
    let unseen = unseen(probes, seed)?.map(|event| Event { time_ms: now_ms, ..event });
    let false_positives = subject.look_up(unseen)?;
    let in_window = delivered.into_iter().filter(|event| event.time_ms + size.window_ticks >= now_ms);
    let found = subject.look_up(in_window.map(|event| Event { time_ms: now_ms, ..event }))?;
    Ok([false_positives, Counts { successes: found.trials - found.successes, ..found }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;
    use crate::stats::Judged;

    #[test]
    fn equality_trades_one_error_for_the_other() {
        let run = Run::alone(12, 4, Scale::Tiny);
        let document = EXPERIMENT.run(&run).unwrap();
        assert_eq!(document.count(Judged::Out), 0, "{document:#?}");
        let [positives, negatives] = [0, 1].map(|panel| &document.panels[panel].series[0].points);
        assert!(positives[2].mean < 0.1 * positives[1].mean && negatives[8].mean > 0.5, "{positives:?} {negatives:?}");
        assert_eq!(negatives[1].mean, 0.0);
    }
}
