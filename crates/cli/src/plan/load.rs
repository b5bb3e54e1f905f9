//! What happens at more than the planned load.
//!
//! Promises: the rate if no event were refused, the share that is refused, and the memory of a filter that grows. Must
//! not know: nodes, how it is printed.

use firstseen_filter::rates::{SizingError, growth};
use firstseen_filter::{
    Ability, FilterDefinition, FilterSpec, GENERATIONS_MAX, Geometry, GrowthSpec, Limit, SpecError, Window,
};
use serde::Serialize;

/// Times the planned load.
const FACTORS: [u32; 3] = [1, 2, 10];

/// One load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Load {
    /// Times the planned load.
    pub(super) factor: u32,
    /// Worst rate if every event were recorded.
    pub(super) rate_if_all_recorded: f64,
    /// Share of the new events that the filter refuses (`Undecided`, because it is full) instead of lying more often.
    pub(super) refused_share: f64,
    /// The memory of a filter that may grow, where growth helps and the kind can grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grown: Option<Grown>,
}

/// A filter that grows by generations and keeps its rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Grown {
    /// The option of `dedup` that lets it grow.
    pub(super) option: String,
    /// Generations at once.
    pub(super) generations: u32,
    /// Memory of all of them.
    pub(super) memory_bytes: u64,
}

/// The loads that may come. A window that counts events brings the same number of them, whatever the load.
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

/// Equal generations (K11 5), each of which is kept until all its events have expired beyond the lateness. There are as
/// many as a lifetime fills, and where the window slides also the one that is being emptied.
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
        // Each of several generations would need a rate that no fingerprints have.
        Err(SpecError::Sizing(SizingError::Prints { .. })) => return Ok(None),
        one => one?,
    };
    let memory_bytes = one.bytes().saturating_mul(u64::from(generations));
    Ok(Some(Grown { option: format!("equal:{generations}"), generations, memory_bytes }))
}

/// Generations that double, with rates that halve (Almeida and others, 2007).
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
            // All generations have the layout of the first.
            layout: definition.cells.geometry().map(Geometry::layout),
            ..spec.clone()
        };
        memory_bytes = memory_bytes.saturating_add(generation.resolve()?.bytes());
        held_times += times;
        generations += 1;
    }
    Ok(Grown { option: format!("geometric:{RATIO}"), generations, memory_bytes })
}
