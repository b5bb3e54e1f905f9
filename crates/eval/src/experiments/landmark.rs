//! Reproduces Figure 6 of Metwally et al. 2005 (section 6.3.1). The figure shows how the false-positive rate over a
//! landmark window of distinct clicks depends on the number of hash functions.
//!
//! The experiment uses production Bloom filters with a landmark window that counts events.

use firstseen_filter::rates::plain;
use firstseen_filter::{FilterSpec, Kind, Layout, Window};

use super::{M05_HASHES, halved_by_hashes, m05, parameter};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{Subject, distinct, pooled, shaped};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "landmark",
    title: "Landmark windows: error rate against hash functions",
    paragraph: "In a landmark window, distinct clicks fill a filter from empty, and every click that is called a \
                duplicate is an error. The memory grows with the number of hash functions k, so that a full filter has \
                a false-positive rate of 2^-k. The filter is full only at the end of the window. Over the whole \
                stream, the rate is four to eight times lower, as the mean over the filling predicts. The separate \
                hash spaces of the paper (partitioned layout) are as good as a common one (classic layout).",
    reads_logs: None,
    measure,
};

/// Number of cells per hash function and event: `1 / ln 2`, as in Metwally et al. 2005.
const CELLS_PER_EVENT: f64 = std::f64::consts::LOG2_E;
/// Printed values of Figure 6, "practical".
const PRINTED: [f64; 7] = [1.55e-2, 6.67e-3, 2.91e-3, 1.29e-3, 6.03e-4, 2.81e-4, 1.16e-4];
const LAYOUTS: [(Layout, &str); 2] =
    [(Layout::Classic, "measured, classic"), (Layout::Partitioned, "measured, partitioned")];

fn cells(hashes: u32, events: u64) -> u64 {
    (f64::from(hashes) * CELLS_PER_EVENT * events as f64) as u64
}

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    let events = run.scale.pick(1_000_000, 200_000, 20_000);
    let cases: Vec<_> = LAYOUTS.iter().flat_map(|(layout, _)| M05_HASHES.map(|hashes| (*layout, hashes))).collect();
    let counts = run.trials(|seed| {
        let mut counts = Vec::new();
        for (layout, hashes) in &cases {
            let cells = cells(*hashes, events);
            let plain = shaped(Kind::Bloom, Window::LandmarkEvents(events), cells, *hashes);
            let spec = FilterSpec { layout: Some(*layout), ..plain };
            counts.push(Subject::new("landmark", &spec, "none", seed)?.observe(distinct(events, seed)?)?);
        }
        Ok(counts)
    })?;
    let hashes_count = PRINTED.len();
    let series = LAYOUTS.iter().enumerate().map(|(index, (layout, name))| {
        Readings::new(
            *name,
            "the mean false-positive rate of a filter with m cells and k hash functions while n distinct events fill \
             it from empty. It is calculated as (1/n) sum over i < n of (1 - (1 - 1/m)^(ki))^k (Metwally et al. 2005, \
             section 5.1)",
            M05_HASHES.zip(PRINTED).enumerate().map(|(place, (hashes, printed))| {
                Reading::new(
                    f64::from(hashes),
                    pooled(&counts, index * hashes_count + place),
                    plain::stream_mean(cells(hashes, events) as f64, hashes, events as f64),
                )
                .printed((*layout == Layout::Classic).then_some(printed))
            }),
        )
    });
    Ok(Findings {
        source: m05("section 6.3.1", "Figure 6"),
        parameters: vec![
            parameter("distinct events per window (n)", events),
            parameter("cells (m) per hash function and event", CELLS_PER_EVENT),
        ],
        sheets: vec![
            Sheet::new(
                "Errors over a landmark window",
                Axis::linear("hash functions (k)"),
                Axis::log("distinct events called duplicates (share)"),
                series,
            )
            .with_line("full filter, 2^-k (M05 \"theoretical\")", halved_by_hashes()),
        ],
        notes: vec![
            "Metwally et al. compare the error rate that they measure with the rate 2^-k of a full filter, and find \
             the measured rate 4 to 8 times lower. The reason is that the measured rate is a mean over the whole \
             stream, and the filter is full only at the end of the stream. Each of their printed points comes from a \
             single run."
                .to_owned(),
        ],
    })
}
