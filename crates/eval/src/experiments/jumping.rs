//! Reproduces Figure 7 of Metwally et al. 2005 (section 6.3.1). The figure shows how the false-positive rate over
//! jumping windows of distinct clicks depends on the number of hash functions.
//!
//! The experiment measures two kinds of production filters, one with counters and one with words of generations. The
//! text of the paper can be understood in two ways: each window may start from empty, or the window may have been
//! jumping since the stream began. The experiment measures both variants.

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
    paragraph: "A window of four sub-windows jumps over distinct clicks. When a sub-window leaves, its counters are \
                subtracted at once. The numbers of the paper belong to windows that each start from empty. A filter \
                that has been jumping for some time always holds three full sub-windows, and its false-positive rate \
                is about three times as high. Users meet this higher rate. Words of generations test each sub-window \
                separately, and have a lower rate in the same cells.",
    reads_logs: None,
    measure,
};

/// Number of sub-windows in a window, including the current one.
const SUB_WINDOWS: u32 = 4;
/// Number of sub-windows in the whole stream, which gives 8 overlapping windows.
const STREAM_SUB_WINDOWS: u32 = 11;
/// Number of cells per hash function and event of the window: 288,539 for 200,000.
const CELLS_PER_EVENT: f64 = std::f64::consts::LOG2_E;
/// Printed values of Figure 7, "practical".
const PRINTED: [f64; 7] = [1.56e-2, 6.67e-3, 2.88e-3, 1.25e-3, 5.36e-4, 3.07e-4, 1.35e-4];

/// Interpretation of the paper's experiment.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    FromEmpty,
    Counters,
    Words,
}

const WAYS: [(Way, &str, &str); 3] = [
    (
        Way::FromEmpty,
        "measured, windows from empty",
        "the mean false-positive rate of a filter with m cells and k hash functions while the n distinct events of a \
         window fill it from empty. It is calculated as (1/n) sum over i < n of (1 - (1 - 1/m)^(ki))^k (Metwally et \
         al. 2005, section 5.1)",
    ),
    (
        Way::Counters,
        "measured, jumping counters",
        "the false-positive rate F^k, averaged over the stream. Here k is the number of hash functions, and F is the \
         share of cells that the events of the three to four live sub-windows have marked. Events that were called \
         duplicates mark no cells",
    ),
    (
        Way::Words,
        "measured, jumping words",
        "the probability that all k words of a new event have the bit of the same live generation, averaged over the \
         stream. This probability is 1 - product over the live generations i of (1 - p_i^k), where p_i is the share \
         of words with the bit of generation i. Events that are called duplicates set no bits, so they do not count \
         towards p_i",
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
        source: m05("section 6.3.1", "Figure 7"),
        parameters: vec![
            parameter("distinct events per window", u64::from(SUB_WINDOWS) * sub_window),
            parameter("distinct events per sub-window", sub_window),
            parameter("distinct events in all", u64::from(STREAM_SUB_WINDOWS) * sub_window),
            parameter("cells (m) per hash function and event of a window", CELLS_PER_EVENT),
        ],
        sheets: vec![
            Sheet::new(
                "Errors over jumping windows",
                Axis::linear("hash functions (k)"),
                Axis::log("distinct events called duplicates (share)"),
                series,
            )
            .with_line("full window, 2^-k (M05 \"theoretical\")", full),
        ],
        notes: vec![
            "The points that Metwally et al. print belong to windows that each start with an empty filter. Counters \
             that have been jumping since the stream began have 2.6 to 3.7 times as many errors, because such counters \
             always hold three full sub-windows."
                .to_owned(),
            "For k = 8, 9 and 10 hash functions, Metwally et al. print the theoretical rates 3.55e-3, 2.21e-3 and \
             1.10e-3. These values differ from 2^-k, which is the rate of a full filter. The results here show 2^-k \
             instead."
                .to_owned(),
        ],
    })
}

fn cells_of(hashes: u32, sub_window: u64) -> u64 {
    (f64::from(hashes) * CELLS_PER_EVENT * f64::from(SUB_WINDOWS) * sub_window as f64) as u64
}

/// Performs one run, and counts the distinct events that were called duplicates. They are counted separately for the
/// first window, which starts with an empty filter, and for all later windows.
fn counted(kind: Kind, hashes: u32, sub_window: u64, seed: u64) -> Result<[Counts; 2], EvalError> {
    // The jumps of a window are its full sub-windows. The current sub-window is added to them.
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
