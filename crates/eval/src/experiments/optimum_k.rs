//! Measures the best number of hash functions at fixed memory, for windows that grow from empty (Metwally et al. 2005,
//! section 7).
//!
//! The experiment uses production Bloom filters.

use firstseen_filter::rates::plain;
use firstseen_filter::{Kind, Window};

use super::{m05, parameter};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{Subject, distinct, pooled, shaped, unseen};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "optimum-k",
    title: "Hash functions at fixed memory: the optimum of a growing window",
    paragraph: "With m cells for n events, a full filter has its lowest false-positive rate with k = ln 2 m/n hash \
                functions. A window that grows from empty is full only at its end. Over the whole stream, a few more \
                hash functions have a lower rate, as the paper recommends.",
    reads_logs: None,
    measure,
};

/// Number of cells per event (m/n).
const CELLS_PER_EVENT: u64 = 8;
const HASHES: std::ops::RangeInclusive<u32> = 2..=14;
const SERIES: [(&str, &str); 2] = [
    (
        "measured, over the growing window",
        "the mean false-positive rate of a filter with m cells and k hash functions while the n distinct events of a \
         window fill it from empty. It is calculated as (1/n) sum over i < n of (1 - (1 - 1/m)^(ki))^k (Metwally et \
         al. 2005, section 5.1)",
    ),
    (
        "measured, full",
        "the false-positive rate of a filter with m cells and k hash functions that holds n distinct events. It is \
         calculated as (1 - (1 - 1/m)^(kn))^k (Metwally et al. 2005, section 5.1)",
    ),
];

/// Returns the expected rate of the series with this index in [`SERIES`].
fn expected(index: usize, events: u64, hashes: u32) -> f64 {
    let cells = (CELLS_PER_EVENT * events) as f64;
    match index {
        0 => plain::stream_mean(cells, hashes, events as f64),
        _ => plain::rate(cells, hashes, events as f64),
    }
}

/// Returns the number of hash functions with the lowest expected rate.
fn best(index: usize, events: u64) -> u32 {
    let by_rate = HASHES.min_by(|one, other| expected(index, events, *one).total_cmp(&expected(index, events, *other)));
    by_rate.unwrap_or_default()
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let events: u64 = run.scale.pick(200_000, 60_000, 20_000);
    let cells = CELLS_PER_EVENT * events;
    let counts = run.trials(|seed| {
        let mut counts = Vec::new();
        for hashes in HASHES {
            let spec = shaped(Kind::Bloom, Window::Unbounded, cells, hashes);
            let mut subject = Subject::new("optimum-k", &spec, "none", seed)?;
            counts.push(subject.observe(distinct(events, seed)?)?);
            counts.push(subject.look_up(unseen(events / 2, seed)?)?);
        }
        Ok(counts)
    })?;
    let [growing, full] = [0, 1].map(|index| best(index, events));
    let series = SERIES.iter().enumerate().map(|(index, (name, formula))| {
        Readings::new(
            *name,
            *formula,
            HASHES.enumerate().map(|(place, hashes)| {
                Reading::new(f64::from(hashes), pooled(&counts, 2 * place + index), expected(index, events, hashes))
            }),
        )
    });
    Ok(Findings {
        source: m05("section 7", ""),
        parameters: vec![parameter("distinct events (n)", events), parameter("cells per event (m/n)", CELLS_PER_EVENT)],
        sheets: vec![Sheet::new(
            "Errors by hash functions, 8 cells an event",
            Axis::linear("hash functions (k)"),
            Axis::log("distinct events called duplicates (share)"),
            series,
        )],
        notes: vec![format!(
            "According to the formulas, the mean error rate while a window fills the filter is lowest with k = {growing} \
             hash functions. The error rate of the full filter is lowest with k = {full}."
        )],
    })
}
