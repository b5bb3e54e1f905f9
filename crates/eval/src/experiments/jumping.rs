//! M05 6.3.1, Figure 7: the rate over jumping windows of distinct clicks, against the number of hash functions.
//!
//! Promises: production counters, in both readings of the paper. Must not know: landmarks.

use firstseen_filter::rates::generations::{self, JumpingLoad};
use firstseen_filter::rates::plain;
use firstseen_filter::{FilterSpec, Kind, Window};

use super::{M05_HASHES, m05, parameter};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{Subject, distinct, pooled, shaped};
use crate::stats::Counts;
use crate::theory::JumpingCounters;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "jumping",
    title: "Jumping windows: error rate against hash functions",
    paragraph: "A window of four sub-windows jumps over distinct clicks: the counters of the oldest sub-window are subtracted \
                at once. The paper's numbers are those of windows that each start from empty. A filter that has been \
                jumping for a while always holds three full sub-windows and errs about three times as often: that is what \
                a user meets. Words of generations, which look at each sub-window by itself, err less in the same cells.",
    reads_logs: None,
    measure,
};

/// Sub-windows of a window, the current one included.
const SUB_WINDOWS: u32 = 4;
/// Sub-windows of the whole stream: 8 windows that overlap.
const STREAM_SUB_WINDOWS: u32 = 11;
/// Cells a hash function and event of the window: 288,539 for 200,000.
const CELLS_PER_EVENT: f64 = std::f64::consts::LOG2_E;
/// Figure 7, "practical".
const PRINTED: [f64; 7] = [1.56e-2, 6.67e-3, 2.88e-3, 1.25e-3, 5.36e-4, 3.07e-4, 1.35e-4];

/// One way to read the experiment.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    FromEmpty,
    Counters,
    Words,
}

const WAYS: [(Way, &str, &str); 3] = [
    (Way::FromEmpty, "measured, windows from empty", "(1/n) sum over i < n of (1 - (1 - 1/m)^(ki))^k (M05 5.1)"),
    (
        Way::Counters,
        "measured, jumping counters",
        "mean of F^k, F the share of cells marked in 3 to 4 sub-windows by events that were called distinct",
    ),
    (
        Way::Words,
        "measured, jumping words",
        "mean of 1 - product over live generations of (1 - p_i^k), less what is called duplicate",
    ),
];

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let sub_window = run.scale.pick(50_000, 10_000, 1_000);
    let counts = run.trials(|seed| {
        let mut ways = [Vec::new(), Vec::new(), Vec::new()];
        for hashes in M05_HASHES {
            let [first, later] = counted(Kind::Counting, hashes, sub_window, seed)?;
            let [_, words] = counted(Kind::Generations, hashes, sub_window, seed)?;
            ways.iter_mut().zip([first, later, words]).for_each(|(way, counts)| way.push(counts));
        }
        Ok(ways.concat())
    })?;
    let series = WAYS.iter().enumerate().map(|(index, (way, name, formula))| {
        Readings::new(
            *name,
            *formula,
            M05_HASHES.zip(PRINTED).enumerate().map(|(place, (hashes, printed))| {
                Reading::new(
                    f64::from(hashes),
                    pooled(&counts, index * PRINTED.len() + place),
                    expected(*way, hashes, sub_window),
                )
                .printed((*way == Way::FromEmpty).then_some(printed))
            }),
        )
    });
    let window = f64::from(SUB_WINDOWS) * sub_window as f64;
    let full = M05_HASHES.map(|k| (f64::from(k), plain::rate(cells_of(k, sub_window) as f64, k, window)));
    Ok(Findings {
        source: m05("6.3.1", "Figure 7"),
        parameters: vec![
            parameter("distinct events a window", u64::from(SUB_WINDOWS) * sub_window),
            parameter("distinct events a sub-window", sub_window),
            parameter("distinct events in all", u64::from(STREAM_SUB_WINDOWS) * sub_window),
            parameter("cells (m) per hash function and event of a window", CELLS_PER_EVENT),
        ],
        sheets: vec![Sheet::new("Errors over jumping windows", Axis::linear("hash functions (k)"), Axis::log("distinct events called duplicates (share)"), series).with_line("full window, 2^-k (M05 \"theoretical\")", full)],
        notes: vec![
            "The paper's points are landmark numbers of each window started from empty. Counters that have been jumping \
             since the stream began have 2.6 to 3.7 times as many errors."
                .to_owned(),
            "The theory that the paper prints for k = 8, 9, 10 (3.55e-3, 2.21e-3, 1.10e-3) is not 2^-k, which is drawn here."
                .to_owned(),
        ],
    })
}

fn cells_of(hashes: u32, sub_window: u64) -> u64 {
    (f64::from(hashes) * CELLS_PER_EVENT * f64::from(SUB_WINDOWS) * sub_window as f64) as u64
}

/// One run: distinct events that were called duplicates, of the first window, which starts from an empty filter, and of
/// all later ones.
fn counted(kind: Kind, hashes: u32, sub_window: u64, seed: u64) -> Result<[Counts; 2], EvalError> {
    // The jumps of a window are its full sub-windows; the current one is added to them.
    let window = Window::Events(u64::from(SUB_WINDOWS - 1) * sub_window);
    let spec = shaped(kind, window, cells_of(hashes, sub_window), hashes);
    let spec = FilterSpec { jumps: Some(SUB_WINDOWS - 1), ..spec };
    let mut subject = Subject::new("jumping", &spec, "none", seed)?;
    let mut stream = distinct(u64::from(STREAM_SUB_WINDOWS) * sub_window, seed)?;
    let first = subject.observe(stream.by_ref().take((u64::from(SUB_WINDOWS) * sub_window) as usize))?;
    Ok([first, subject.observe(stream)?])
}

fn expected(way: Way, hashes: u32, sub_window: u64) -> f64 {
    let cells = cells_of(hashes, sub_window) as f64;
    let sub_window = sub_window as f64;
    match way {
        Way::FromEmpty => plain::stream_mean(cells, hashes, f64::from(SUB_WINDOWS) * sub_window),
        Way::Counters => {
            let sub_windows = SUB_WINDOWS as usize;
            JumpingCounters { cells, hashes, sub_window_events: sub_window, sub_windows }
                .mean_rate(SUB_WINDOWS, STREAM_SUB_WINDOWS)
        }
        Way::Words => {
            let jumps = SUB_WINDOWS - 1;
            let load = JumpingLoad { events: f64::from(jumps) * sub_window, jumps };
            generations::delivered_classic(cells, hashes, load).mean
        }
    }
}
