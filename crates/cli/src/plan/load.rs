//! Computes what happens if more events arrive than were planned for. For each load, the results are the error rate if
//! the filter accepts all events, the share of events that a full filter rejects, and the memory of a filter that may
//! grow.

use firstseen_filter::rates::{SizingError, growth};
use firstseen_filter::{
    Ability, FilterDefinition, FilterSpec, GENERATIONS_MAX, Geometry, GrowthSpec, Limit, SpecError, Window,
};
use serde::Serialize;

/// Loads that are computed, as multiples of the planned load.
const FACTORS: [u32; 3] = [1, 2, 10];

/// Results for one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Load {
    /// The load as a multiple of the planned load.
    pub(super) factor: u32,
    /// Worst false-positive rate if every event were recorded.
    pub(super) rate_if_all_recorded: f64,
    /// Share of the new events that the filter rejects. It replies `Undecided` because it is full, and thereby keeps
    /// its false-positive rate.
    pub(super) refused_share: f64,
    /// Memory of a filter that may grow. `None` means that growth does not help, or that the kind cannot grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grown: Option<Grown>,
}

/// A filter that grows by adding generations and keeps its false-positive rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Grown {
    /// Flag of `dedup` that allows the filter to grow.
    pub(super) option: String,
    /// Number of generations that exist at the same time.
    pub(super) generations: u32,
    /// Memory of all generations.
    pub(super) memory_bytes: u64,
}

/// Computes what happens at several multiples of the planned load. If the window counts events, the result is empty,
/// because such a window contains the same number of events at any load.
pub(super) fn loads(spec: &FilterSpec, definition: &FilterDefinition, events: f64) -> Result<Vec<Load>, SpecError> {
    if matches!(spec.window, Window::Events(_) | Window::LandmarkEvents(_)) {
        return Ok(Vec::new());
    }
    FACTORS
        .into_iter()
        .map(|factor| {
            let times = f64::from(factor);
            Ok(Load {
                factor,
                rate_if_all_recorded: definition.rates(events * times).worst,
                refused_share: if definition.cells.refuses() { 1.0 - 1.0 / times } else { 0.0 },
                grown: match spec.window {
                    _ if factor == 1 || !spec.kind.can(Ability::Grow) => None,
                    Window::Unbounded => Some(doubled(spec, definition, factor)?),
                    _ => grown(spec, definition, factor)?,
                },
            })
        })
        .collect()
}

/// Computes how many generations a growing filter needs at `factor` times the planned load, and how much memory they
/// take. All generations have the same size (Koloniari et al. 2011, section 5).
///
/// When a generation is full, the filter opens a further generation for new events. It keeps the full generation until
/// all events in it have expired. If events may be late, it keeps the generation for the lateness longer, because late
/// events are compared with it. Several generations therefore exist at the same time.
///
/// A filter with a sliding window needs one more generation than that. While it records events in the newest
/// generation, it is still clearing the cells of a generation whose events have expired.
fn grown(spec: &FilterSpec, definition: &FilterDefinition, factor: u32) -> Result<Option<Grown>, SpecError> {
    let rule = definition.rule;
    let generations = if definition.cells.slides() {
        let lifetime_windows = (rule.span_units + rule.lateness_units) as f64 / (rule.span_units - 1) as f64;
        (f64::from(factor) * lifetime_windows).ceil() as u32 + 1
    } else {
        factor
    };
    if generations > GENERATIONS_MAX {
        return Ok(None);
    }
    let growth = GrowthSpec { limit: Limit::Cardinality, generations_max: generations, ratio: 1.0 };
    let one = match (FilterSpec { growth: Some(growth), ..spec.clone() }).resolve() {
        // Each of several generations needs a lower rate than the whole filter, which fingerprints cannot reach at any
        // size.
        Err(SpecError::Sizing(SizingError::Prints { .. })) => return Ok(None),
        one => one?,
    };
    let memory_bytes = one.bytes().saturating_mul(u64::from(generations));
    Ok(Some(Grown { option: format!("equal:{generations}"), generations, memory_bytes }))
}

/// Computes a filter whose generations double in size while their rates halve (Almeida and others, 2007).
fn doubled(spec: &FilterSpec, definition: &FilterDefinition, factor: u32) -> Result<Grown, SpecError> {
    const RATIO: u32 = 2;
    let planned = spec.capacity_events.unwrap_or(0);
    let mut memory_bytes = 0u64;
    let mut held_times = 0;
    let mut generations = 0;
    while held_times < factor {
        let times = RATIO.pow(generations);
        let generation = FilterSpec {
            capacity_events: Some(planned.saturating_mul(u64::from(times))),
            rate: growth::tightened(spec.rate, 1.0 / f64::from(RATIO), generations),
            // All generations have the same layout as the first generation.
            layout: definition.cells.geometry().map(Geometry::layout),
            ..spec.clone()
        };
        memory_bytes = memory_bytes.saturating_add(generation.resolve()?.bytes());
        held_times += times;
        generations += 1;
    }
    Ok(Grown { option: format!("geometric:{RATIO}"), generations, memory_bytes })
}
