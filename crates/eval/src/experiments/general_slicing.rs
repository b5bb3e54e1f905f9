//! Measures the false-positive rate of the general slicing of Koloniari et al. 2011, section 3.3, Proposition 2. In
//! this slicing, k1 hash functions choose slices for an event, and k2 hash functions choose its positions in each of
//! these slices.
//!
//! The experiment uses production slice plans and cells, event by event. No nodes are involved.

use firstseen_filter::rates::plain;
use firstseen_filter::{FilterSecret, FilterSlice, Geometry, Kind, Layout, Stamp, UnitNumber, Window};
use firstseen_routing::{Route, SlicePlan};

use super::{k11, parameter};
use crate::document::{Axis, Reading, Readings, Sheet};
use crate::experiment::{EvalError, Experiment, Findings, Run};
use crate::measure::{count, distinct, pooled, shaped, unseen};
use crate::stats::Counts;
use crate::theory;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "general-slicing",
    title: "General slicing: choices of slices times positions in each",
    paragraph: "A horizontal filter has one slice per event, and a vertical filter one slice per position. In general, \
                k1 functions can choose slices, and k2 = k/k1 functions can choose positions in each slice. The paper \
                proves that no choice has a lower false-positive rate than the unsliced filter. The measurement \
                confirms this: with fewer choices the slices are loaded less evenly, and the rate of a horizontal \
                filter is the highest.",
    reads_logs: None,
    measure,
};

const HASHES: u32 = 12;
const CHOICES: [u32; 6] = [1, 2, 3, 4, 6, 12];
const SLICES: u32 = 40;
/// Stamp of all events, which arrive at the same time.
const STAMP: Stamp = Stamp::on_time(UnitNumber::FIRST);
const RATE: f64 = 0.02;

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    // The synthetic streams of Koloniari et al. have about 5,700 distinct events.
    let events: u64 = run.scale.pick(5_700, 5_700, 2_800);
    let probes = run.scale.pick(100_000, 30_000, 6_000);
    let slice_cells = plain::cells(events as f64, RATE, HASHES) as u64 / u64::from(SLICES);
    let counts =
        run.trials(|seed| CHOICES.iter().map(|k1| counted(*k1, slice_cells, events, probes, seed)).collect())?;
    let points = CHOICES.into_iter().enumerate().map(|(place, choices)| {
        let each = HASHES / choices;
        let expected = theory::general_slicing_rate(slice_cells as f64, SLICES, choices, each, events as f64);
        Reading::new(choices, pooled(&counts, place), expected)
    });
    let uncut = plain::rate((slice_cells * u64::from(SLICES)) as f64, HASHES, events as f64);
    Ok(Findings {
        source: k11("section 3.3", "Proposition 2"),
        parameters: vec![
            parameter("distinct events held (n)", events),
            parameter("slices (S)", SLICES),
            parameter("cells per slice (m/S)", slice_cells),
            parameter("positions in all (k = k1 k2)", HASHES),
        ],
        sheets: vec![
            Sheet::new(
                "False positives of the full filter, k1 k2 = 12",
                Axis::log("choices of a slice (k1); 1 is horizontal"),
                Axis::linear("false positives (share of new events)"),
                vec![Readings::new(
                    "measured",
                    "a product over the slices, averaged over all ways in which k1 hash functions can choose slices \
                     for an event. A slice that is chosen c times contributes the factor E[p^(k2 c)]. Here p is the \
                     share of set cells in the slice, and E is the mean over the binomial load of the slice (after \
                     Koloniari et al. 2011, equation 4, which assumes equal loads)",
                    points,
                )],
            )
            .with_line("uncut filter", vec![(1.0, uncut), (12.0, uncut)]),
        ],
        notes: vec![
            "The statement of Proposition 2 by Koloniari et al. is correct, although an exponent in their proof lacks \
             its minus sign."
                .to_owned(),
        ],
    })
}

/// Returns whether the slices have all positions of an event.
fn holds(slices: &[FilterSlice], route: &Route) -> bool {
    route.steps().all(|step| {
        slices[step.slice as usize].test_at(step.positions, STAMP).is_some_and(|sighting| sighting.is_hit())
    })
}

/// Performs one run: fills a filter, and then looks up events that it does not hold.
fn counted(choices: u32, slice_cells: u64, events: u64, probes: u64, seed: u64) -> Result<Counts, EvalError> {
    let definition = shaped(Kind::Bloom, Window::Unbounded, slice_cells, HASHES).resolve()?;
    let geometry = Geometry::new(slice_cells, HASHES, 1, Layout::Classic)?;
    let plan = SlicePlan::general(SLICES, choices, geometry)?;
    let mut slices = (0..SLICES).map(|_| FilterSlice::build(&definition)).collect::<Result<Vec<_>, _>>()?;
    let secret = FilterSecret::from_seed(seed);
    let mut route = Route::default();
    for event in distinct(events, seed)? {
        plan.route(secret.digest(&event.key.to_le_bytes()), &mut route);
        if !holds(&slices, &route) {
            route.steps().for_each(|step| {
                slices[step.slice as usize].set_at(step.positions, STAMP);
            });
        }
    }
    let mut counts = Counts::default();
    for event in unseen(probes, seed)? {
        plan.route(secret.digest(&event.key.to_le_bytes()), &mut route);
        count(&mut counts, holds(&slices, &route));
    }
    Ok(counts)
}
