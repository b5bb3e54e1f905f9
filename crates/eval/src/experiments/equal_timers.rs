//! K11 7, Figure 9(c) and 9(d): false positives and false negatives of the equal-timers heuristic, by how many timers
//! must be equal.
//!
//! Promises: production filters with k' = 0..=k, full windows of distinct events. Must not know: what timers hold.

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
    paragraph: "The heuristic calls an event a duplicate only if all of its timers are running and at least k' of them are equal. \
                It trades one error for the other: an unseen key hardly ever meets equal timers, but an old event has lost \
                some of its own to later ones. One pair (k' = 2) is the best bargain in a vertical filter; the small cells of \
                horizontal slices want three. It is off by default: a filter that must find every duplicate cannot use it.",
    reads_logs: None,
    measure,
};

/// The cut of the filter, in the order of [`CUTS`]: a filter with vertical slices gives the same verdicts as the uncut
/// one.
const SLICINGS: [&str; 2] = ["vertical:10", "horizontal:10"];
/// With more equal timers no false positive shows up in any run that ends: the chance falls a thousandfold with each.
const EQUAL_SHOWN: u32 = 3;

/// The series of one error (0 is a false positive, 1 a false negative), one for each cut.
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
        source: k11("4 and 7", "Figures 9(c), 9(d)"),
        parameters: vec![
            parameter("window (ticks of 1 ms, one event each)", window_ticks),
            parameter("timers (m)", size.cells()),
            parameter("hash functions (k)", HASHES),
            parameter("slices", GROUPS),
            parameter("rate of the plain filter", RATE),
        ],
        sheets: vec![positives, negatives],
        notes: vec![
            "k' = 0 and 1 are the plain filter. Keys looked up are as likely of any age in the window; a stream whose repeats \
             come soon has fewer false negatives."
                .to_owned(),
            "The paper's (1 - e^(-k/m))^k for k equal timers lacks the number of events that may have set them, n; with it the \
             chance is still far below what can be measured here for k' of 4 and more."
                .to_owned(),
        ],
    })
}

const FORMULAS: [&str; 2] = [
    "p^k (1 - (1 - c)^C(k,k')), c the chance that k' timers were set last by one event; mean over slice loads (K11 4)",
    "1 - P(u >= k'), u binomial of timers not raised since, mean over the window; less what other events make equal (K11 4)",
];

/// False positives and false negatives.
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

/// One run: two windows of distinct events; then unseen keys that are called duplicates, and delivered keys that are
/// not.
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
