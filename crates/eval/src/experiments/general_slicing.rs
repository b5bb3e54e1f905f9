//! K11 3.3, Proposition 2: k1 functions choose slices, k2 choose positions in each.
//!
//! Promises: production plans and cells, driven event by event. Must not know: nodes.

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
    paragraph: "Instead of one slice an event (horizontal) or one for each position (vertical), k1 functions may choose slices and \
                k2 = k/k1 positions in each. The paper proves that no choice improves on the rate of the uncut filter, and \
                none does: fewer choices load slices less evenly, and the rate of a horizontal filter is the highest.",
    reads_logs: None,
    measure,
};

const HASHES: u32 = 12;
const CHOICES: [u32; 6] = [1, 2, 3, 4, 6, 12];
const SLICES: u32 = 40;
/// All events come at once.
const STAMP: Stamp = Stamp::on_time(UnitNumber::FIRST);
const RATE: f64 = 0.02;

fn measure(run: &Run<'_>) -> Result<Findings, EvalError> {
    // K11's synthetic streams have about 5,700 distinct events.
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
        source: k11("3.3", "Proposition 2"),
        parameters: vec![
            parameter("distinct events held (n)", events),
            parameter("slices (S)", SLICES),
            parameter("cells a slice (m/S)", slice_cells),
            parameter("positions in all (k = k1 k2)", HASHES),
        ],
        sheets: vec![
            Sheet::new(
                "False positives of the full filter, k1 k2 = 12",
                Axis::log("choices of a slice (k1); 1 is horizontal"),
                Axis::linear("false positives (share of new events)"),
                vec![Readings::new(
                    "measured",
                    "choices fall into different slices or the same one; of each slice E[p^(k2 c)] over binomial loads \
                     (after K11 eq. 4, whose slices are all loaded alike)",
                    points,
                )],
            )
            .with_line("uncut filter", vec![(1.0, uncut), (12.0, uncut)]),
        ],
        notes: vec!["The exponent in the paper's proof lacks its minus sign; the statement holds.".to_owned()],
    })
}

/// Whether slices have all positions of an event.
fn holds(slices: &[FilterSlice], route: &Route) -> bool {
    route.steps().all(|step| {
        slices[step.slice as usize].test_at(step.positions, STAMP).is_some_and(|sighting| sighting.is_hit())
    })
}

/// One run: a filter is filled, then asked about events that it does not hold.
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
