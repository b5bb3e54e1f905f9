//! Resolves a filter specification in three steps: first the units of the window, then the sizes, then growth.

use super::size::{Load, capacity_within, geometry, layout_of, live_events};
use super::units::{Sizing, Units, units};
use super::{FIRST_CAPACITY_EVENTS, FilterSpec, GrowthSpec, SpecError, counting, no};
use crate::definition::{Asked, BloomCells, CellDefinition, FilterDefinition, GenerationCells, TimingCells};
use crate::growth::{GENERATIONS_MAX, Growth, JumpLimit, Limit};
use crate::kind::{Ability, Kind, Windows};
use crate::rates::blocked::BlockRates;
use crate::rates::{growth as growth_rates, plain};
use crate::{Geometry, GeometryError, HASHES_MAX, Layout, Refresh, Window};

/// Returns the definition of a filter. The function `cells` determines its cells from the sizes.
pub(super) fn resolve(
    spec: &FilterSpec,
    cells: fn(&Sizing<'_>) -> Result<CellDefinition, SpecError>,
) -> Result<FilterDefinition, SpecError> {
    check(spec)?;
    if spec.kind.properties().block_lines == 0 && !matches!(spec.layout, None | Some(Layout::Classic)) {
        return no(spec, "such layout", "its layout is classic; leave the layout out");
    }
    let cell_bits = cell_bits(spec)?;
    let units = units(spec, cell_bits)?;
    let capacity = capacity(spec, &units, cell_bits)?;
    let sizing = Sizing { spec, units: &units, cell_bits, capacity };
    let cells = cells(&sizing)?;
    Ok(FilterDefinition {
        window: spec.window.clone(),
        unit: units.unit,
        rule: units.rule,
        future_max_ms: spec.future_max_ms,
        cells,
        rate: spec.rate,
        capacity_events: capacity,
    })
}

/// Rejects options that are invalid for every kind, and options that the given kind does not support.
pub(super) fn check(spec: &FilterSpec) -> Result<(), SpecError> {
    if !(spec.rate > 0.0 && spec.rate < 1.0) {
        return Err(SpecError::Rate(spec.rate));
    }
    if spec.capacity_events == Some(0) {
        return Err(SpecError::Capacity);
    }
    use Window::{Duration, Events, LandmarkDuration, LandmarkEvents};
    if let Duration(0) | Events(0) | LandmarkDuration(0) | LandmarkEvents(0) = spec.window {
        return Err(SpecError::WindowEmpty(spec.window.clone()));
    }
    if let Some(hashes) = spec.hashes.filter(|hashes| !(1..=HASHES_MAX).contains(hashes)) {
        return Err(GeometryError::Hashes(hashes).into());
    }
    let sizes = [spec.capacity_events.is_some(), spec.memory_bytes.is_some(), spec.cells.is_some()];
    if sizes.into_iter().filter(|given| *given).count() > 1 {
        return Err(SpecError::Sizes);
    }
    let kind = spec.kind;
    if spec.refresh == Refresh::Refresh && !kind.can(Ability::Refresh) {
        return no(spec, "refresh rule", "use kind timing or cuckoo");
    }
    if spec.equal_timers > 0 && !kind.can(Ability::EqualTimers) {
        return no(spec, "equal timers", "use kind timing");
    }
    if spec.growth.is_some() && !kind.can(Ability::Grow) {
        return no(spec, "growth", "use kind bloom or timing, or give a larger capacity");
    }
    if spec.memory_bytes.is_some() && spec.growth.is_some_and(|growth| growth.generations_max > 1) {
        return no(spec, "growth within a given memory", "give a capacity instead of memory, or no growth");
    }
    if spec.jumps.is_some() && !kind.can(Ability::Jumps) {
        return no(spec, "sub-windows", "use kind generations or counting");
    }
    if spec.ticks.is_some() && !kind.can(Ability::Ticks) {
        return no(spec, "choice of ticks", "use kind cuckoo");
    }
    if spec.stable_max.is_some() && kind != Kind::Stable {
        return no(spec, "Max", "use kind stable");
    }
    if spec.stable_decrements.is_some() && kind != Kind::Stable {
        return no(spec, "decrements (P)", "use kind stable");
    }
    Ok(())
}

fn cell_bits(spec: &FilterSpec) -> Result<u32, SpecError> {
    match (spec.kind.properties().cell_bits, spec.cell_bits) {
        ([], None) => Ok(1),
        ([], Some(_)) => no(spec, "choice of cell width", "leave it out, or use kind timing or generations"),
        ([default, ..], None) => Ok(*default),
        (widths, Some(bits)) if widths.contains(&bits) => Ok(bits),
        _ => no(spec, "cells of that width", "choose 8 or 16 bits"),
    }
}

/// Returns the number of events per window, if the specification gives it directly or through a window of a number of
/// events.
pub(super) fn given_capacity(spec: &FilterSpec) -> Option<u64> {
    let counted = match spec.window {
        Window::Events(events) | Window::LandmarkEvents(events) if spec.memory_bytes.is_none() => Some(events),
        _ => None,
    };
    spec.capacity_events.or(counted)
}

/// Returns the number of events per window. This is the number that the specification states, the number of events of a
/// window that counts events, or the number for which the memory suffices. Returns `None` if the specification contains
/// none of these values.
fn capacity(spec: &FilterSpec, units: &Units, cell_bits: u32) -> Result<Option<u64>, SpecError> {
    let counted = given_capacity(spec);
    match (spec.capacity_events, spec.memory_bytes, spec.cells) {
        (Some(events), ..) => Ok(Some(events)),
        (None, Some(memory_bytes), None) => match spec.kind.properties().windows {
            Windows::Fading | Windows::Epochs => Ok(None),
            Windows::JumpingOrCounted => {
                capacity_within(memory_bytes, |events| Ok(counting::bytes(spec, units, events))).map(Some)
            }
            Windows::Landmark | Windows::Sliding | Windows::Jumping => capacity_within(memory_bytes, |events| {
                let load = load(spec, units, events, spec.rate);
                geometry(layout_of(spec), cell_bits, load, spec.hashes).map(|geometry| geometry.bytes())
            })
            .map(Some),
        },
        (None, _, Some(_)) => Ok(None),
        (None, None, None) if counted.is_some() || spec.kind.can(Ability::StartSmall) => Ok(counted),
        (None, None, None) => Err(SpecError::CapacityNeeded(spec.kind)),
    }
}

/// Returns whether the jumps of a window share the cells.
fn has_jumps(spec: &FilterSpec) -> bool {
    spec.kind.properties().windows == Windows::Jumping
}

fn load(spec: &FilterSpec, units: &Units, capacity: u64, rate: f64) -> Load {
    let jumps = if has_jumps(spec) { units.window_units as u32 } else { 0 };
    Load { events: live_events(spec, units, capacity), jumps, rate }
}

/// Returns the bits of a Bloom filter.
pub(super) fn bloom(sizing: &Sizing<'_>) -> Result<CellDefinition, SpecError> {
    let Generations { geometry, growth } = generations(sizing)?;
    Ok(CellDefinition::Bloom(BloomCells { geometry, growth }))
}

/// Returns the timers of a timing filter.
pub(super) fn timers(sizing: &Sizing<'_>) -> Result<CellDefinition, SpecError> {
    let Generations { geometry, growth } = generations(sizing)?;
    let FilterSpec { refresh, equal_timers, .. } = *sizing.spec;
    if equal_timers > geometry.hashes() {
        return Err(SpecError::EqualTimers { equal_timers, hashes: geometry.hashes() });
    }
    Ok(CellDefinition::Timing(TimingCells { geometry, refresh, equal_timers, growth, asked: Asked::default() }))
}

/// Returns the words of a filter with generation bits.
pub(super) fn words(sizing: &Sizing<'_>) -> Result<CellDefinition, SpecError> {
    let Generations { geometry, growth } = generations(sizing)?;
    Ok(CellDefinition::Generations(GenerationCells { geometry, growth, asked: Asked::default() }))
}

/// Growth of a filter of unknown capacity: each generation doubles the one before, starting with
/// [`FIRST_CAPACITY_EVENTS`].
const UNKNOWN_CAPACITY: GrowthSpec =
    GrowthSpec { limit: Limit::Cardinality, generations_max: GENERATIONS_MAX, ratio: 2.0 };
/// Growth of a filter of known capacity: none. The filter rejects new events beyond its capacity.
const KNOWN_CAPACITY: GrowthSpec = GrowthSpec { limit: Limit::Cardinality, generations_max: 1, ratio: 1.0 };

/// Returns how the filter grows: as the specification says, or by default depending on whether its capacity is known.
pub(super) fn growth_of(spec: &FilterSpec, capacity: Option<u64>) -> Result<GrowthSpec, SpecError> {
    let rule = spec.growth.unwrap_or(match (capacity, spec.refresh) {
        (Some(_), _) => KNOWN_CAPACITY,
        (None, Refresh::Fixed) => UNKNOWN_CAPACITY,
        (None, Refresh::Refresh) => GrowthSpec { limit: Limit::Density, ..UNKNOWN_CAPACITY },
    });
    let GrowthSpec { generations_max, ratio, .. } = rule;
    if !(1..=GENERATIONS_MAX).contains(&generations_max) || !(1.0..=16.0).contains(&ratio) {
        return Err(SpecError::Growth { generations_max, ratio });
    }
    Ok(rule)
}

/// Generations of cells: the geometry of the first one, and the limits at which further ones open.
pub(super) struct Generations {
    pub(super) geometry: Geometry,
    pub(super) growth: Option<Growth>,
}

/// Returns the generations of a kind that consists of generations of cells (a [`crate::CellSlice`]).
pub(super) fn generations(sizing: &Sizing<'_>) -> Result<Generations, SpecError> {
    let Sizing { spec, units, cell_bits, capacity } = *sizing;
    if let Some(cells) = spec.cells {
        let geometry = Geometry::new(cells, spec.hashes.unwrap_or(4), cell_bits, layout_of(spec))?;
        return Ok(Generations { geometry, growth: None });
    }
    let GrowthSpec { limit, generations_max, ratio } = growth_of(spec, capacity)?;
    if spec.refresh == Refresh::Refresh && generations_max > 1 && limit == Limit::Cardinality {
        let instead = "refreshed events live on without being counted; use growth by density";
        return no(spec, "growth by cardinality under refresh", instead);
    }
    let generation_rate = match generations_max {
        1 => spec.rate,
        _ if ratio > 1.0 => growth_rates::tightened(spec.rate, 1.0 / ratio, 0),
        generations => growth_rates::generation_rate(spec.rate, f64::from(generations)),
    };
    let capacity = capacity.unwrap_or(FIRST_CAPACITY_EVENTS);
    let load = load(spec, units, capacity, generation_rate);
    let geometry = geometry(layout_of(spec), cell_bits, load, spec.hashes)?;
    let jumps = has_jumps(spec).then(|| jump_limit(&geometry, units, load.events));
    let capacity_events = match jumps {
        Some(JumpLimit { events, jumps, .. }) => events * jumps,
        None => load.events,
    };
    let capacity_events = capacity_events.ceil() as u64;
    let growth = Growth { limit, generations_max, ratio, capacity_events, generation_rate, jumps };
    Ok(Generations { geometry, growth: Some(growth) })
}

/// Returns the load of one jump, and how steeply the rate rises at this load.
fn jump_limit(geometry: &Geometry, units: &Units, window_events: f64) -> JumpLimit {
    const STEP: f64 = 0.98;
    let events = window_events / units.window_units as f64;
    let cells = geometry.cells() as f64;
    let hashes = geometry.hashes();
    let mut rate: Box<dyn FnMut(f64) -> f64> = match geometry.layout() {
        Layout::Blocked { .. } => {
            let mut rates = BlockRates::new(geometry.block_cells(), hashes);
            Box::new(move |events| rates.rate(cells, events))
        }
        Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => {
            Box::new(move |events| plain::rate(cells, hashes, events))
        }
    };
    let slope = (rate(events) / rate(STEP * events)).ln() / -STEP.ln();
    let exponent = if slope.is_finite() { slope.max(1.0) } else { f64::from(hashes) };
    JumpLimit { events, jumps: units.rule.span_units as f64, exponent }
}
