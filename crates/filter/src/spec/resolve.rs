//! The resolver: units first, then sizes, then growth.

use super::size::{Load, capacity_within, geometry, layout_of, live_events};
use super::units::{Units, units};
use super::{FIRST_CAPACITY_EVENTS, FilterSpec, GrowthSpec, MEMORY_MIN_BYTES, SpecError};
use crate::counting::WINDOW_EVENTS_MAX;
use crate::definition::{Asked, CellDefinition, FilterDefinition};
use crate::growth::{GENERATIONS_MAX, Growth, JumpLimit, Limit};
use crate::kind_name::Kind;
use crate::rates::blocked::BlockRates;
use crate::rates::{growth as growth_rates, plain};
use crate::stable::StableShape;
use crate::{Geometry, GeometryError, HASHES_MAX, Layout, Refresh, Unit, Window};

pub(super) fn resolve(spec: &FilterSpec) -> Result<FilterDefinition, SpecError> {
    check(spec)?;
    let cell_bits = cell_bits(spec)?;
    let units = units(spec, cell_bits)?;
    let capacity = capacity(spec, &units, cell_bits)?;
    let cells = match spec.kind {
        Kind::Counting => counting(spec, &units, capacity)?,
        Kind::Stable => stable(spec)?,
        _ => growing(spec, &units, cell_bits, capacity)?,
    };
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

/// What no kind has, and what this one has not.
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
    let no = |option, instead| Err(SpecError::Option { kind: spec.kind, option, instead });
    match spec.kind {
        Kind::Timing => {}
        Kind::Cuckoo if spec.equal_timers == 0 => {}
        _ if spec.refresh == Refresh::Refresh => return no("refresh rule", "use kind timing or cuckoo"),
        _ if spec.equal_timers > 0 => return no("equal timers", "use kind timing"),
        _ => {}
    }
    if spec.growth.is_some() && !spec.kind.takes_growth() {
        return no("growth", "use kind bloom or timing, or give a larger capacity");
    }
    if spec.memory_bytes.is_some() && spec.growth.is_some_and(|growth| growth.generations_max > 1) {
        return no("growth within a given memory", "give a capacity, from which it grows, or no growth");
    }
    if spec.jumps.is_some() && !spec.kind.takes_jumps() {
        return no("sub-windows", "use kind generations or counting");
    }
    if spec.kind != Kind::Cuckoo && spec.ticks.is_some() {
        return no("choice of ticks", "use kind cuckoo");
    }
    match spec.kind {
        Kind::Stable => {}
        _ if spec.stable_max.is_some() => return no("Max", "use kind stable"),
        _ if spec.stable_decrements.is_some() => return no("decrements (P)", "use kind stable"),
        _ => {}
    }
    match spec.kind {
        Kind::Counting | Kind::Stable if !matches!(spec.layout, None | Some(Layout::Classic)) => {
            no("such layout", "it is classic; leave the layout out")
        }
        _ => Ok(()),
    }
}

fn cell_bits(spec: &FilterSpec) -> Result<u32, SpecError> {
    match (spec.kind, spec.cell_bits) {
        (Kind::Timing | Kind::Generations, bits @ (None | Some(8 | 16))) => Ok(bits.unwrap_or(8)),
        (Kind::Timing | Kind::Generations, Some(_)) => {
            Err(SpecError::Option { kind: spec.kind, option: "cells of that width", instead: "choose 8 or 16 bits" })
        }
        (_, None) => Ok(1),
        (_, Some(_)) => Err(SpecError::Option {
            kind: spec.kind,
            option: "choice of cell width",
            instead: "leave it out, or use kind timing or generations",
        }),
    }
}

/// Events of a window: as given, or as the window says.
pub(super) fn given_capacity(spec: &FilterSpec) -> Option<u64> {
    let counted = match spec.window {
        Window::Events(events) | Window::LandmarkEvents(events) if spec.memory_bytes.is_none() => Some(events),
        _ => None,
    };
    spec.capacity_events.or(counted)
}

/// Events of a window: as given, as the window says, or as the memory allows; `None` where none of these says it.
fn capacity(spec: &FilterSpec, units: &Units, cell_bits: u32) -> Result<Option<u64>, SpecError> {
    let counted = given_capacity(spec);
    match (spec.capacity_events, spec.memory_bytes, spec.cells) {
        (Some(events), ..) => Ok(Some(events)),
        (None, Some(_), None) if spec.kind == Kind::Stable => Ok(None),
        (None, Some(memory_bytes), None) if spec.kind == Kind::Counting => {
            capacity_within(memory_bytes, |events| Ok(counting_bytes(spec, units, events))).map(Some)
        }
        (None, Some(memory_bytes), None) => {
            let bytes_of = |events| {
                let load = load(spec, units, events, spec.rate);
                geometry(layout_of(spec), cell_bits, load, spec.hashes).map(|geometry| geometry.bytes())
            };
            capacity_within(memory_bytes, bytes_of).map(Some)
        }
        (None, _, Some(_)) => Ok(None),
        (None, None, None) if counted.is_some() => Ok(counted),
        (None, None, None) => match spec.kind {
            Kind::Bloom | Kind::Timing => Ok(None),
            _ => Err(SpecError::CapacityNeeded(spec.kind)),
        },
    }
}

fn load(spec: &FilterSpec, units: &Units, capacity: u64, rate: f64) -> Load {
    let jumps = if spec.kind == Kind::Generations { units.window_units as u32 } else { 0 };
    Load { events: live_events(spec, units, capacity), jumps, rate }
}

/// The kinds that live in a [`crate::CellSlice`].
fn growing(
    spec: &FilterSpec,
    units: &Units,
    cell_bits: u32,
    capacity: Option<u64>,
) -> Result<CellDefinition, SpecError> {
    let (geometry, growth) = match spec.cells {
        Some(cells) => (Geometry::new(cells, spec.hashes.unwrap_or(4), cell_bits, layout_of(spec))?, None),
        None => grown(spec, units, cell_bits, capacity)?,
    };
    if spec.equal_timers > geometry.hashes() {
        return Err(SpecError::EqualTimers { equal_timers: spec.equal_timers, hashes: geometry.hashes() });
    }
    Ok(match spec.kind {
        Kind::Timing => {
            let (refresh, equal_timers) = (spec.refresh, spec.equal_timers);
            CellDefinition::Timing { geometry, refresh, equal_timers, growth, asked: Asked::default() }
        }
        Kind::Generations => CellDefinition::Generations { geometry, growth, asked: Asked::default() },
        _ => CellDefinition::Bloom { geometry, growth },
    })
}

/// Of a filter of unknown capacity: doubling from [`FIRST_CAPACITY_EVENTS`].
const UNKNOWN_CAPACITY: GrowthSpec =
    GrowthSpec { limit: Limit::Cardinality, generations_max: GENERATIONS_MAX, ratio: 2.0 };
/// Of a filter whose capacity is known: none; beyond it inserts are refused.
const KNOWN_CAPACITY: GrowthSpec = GrowthSpec { limit: Limit::Cardinality, generations_max: 1, ratio: 1.0 };

/// How the filter grows: as asked for, or by what is known of its size.
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

fn grown(
    spec: &FilterSpec,
    units: &Units,
    cell_bits: u32,
    capacity: Option<u64>,
) -> Result<(Geometry, Option<Growth>), SpecError> {
    let GrowthSpec { limit, generations_max, ratio } = growth_of(spec, capacity)?;
    if spec.refresh == Refresh::Refresh && generations_max > 1 && limit == Limit::Cardinality {
        let instead = "with it events live on without being counted; let density tell when the filter is full";
        return Err(SpecError::Option { kind: spec.kind, option: "growth by cardinality under refresh", instead });
    }
    let generation_rate = match generations_max {
        1 => spec.rate,
        _ if ratio > 1.0 => growth_rates::tightened(spec.rate, 1.0 / ratio, 0),
        generations => growth_rates::generation_rate(spec.rate, f64::from(generations)),
    };
    let capacity = capacity.unwrap_or(FIRST_CAPACITY_EVENTS);
    let load = load(spec, units, capacity, generation_rate);
    let geometry = geometry(layout_of(spec), cell_bits, load, spec.hashes)?;
    let jumps = (spec.kind == Kind::Generations).then(|| jump_limit(&geometry, units, load.events));
    let capacity_events = match jumps {
        Some(JumpLimit { events, jumps, .. }) => events * jumps,
        None => load.events,
    };
    let capacity_events = capacity_events.ceil() as u64;
    Ok((geometry, Some(Growth { limit, generations_max, ratio, capacity_events, generation_rate, jumps })))
}

/// The load of one jump, and how steeply the rate rises with it there.
fn jump_limit(geometry: &Geometry, units: &Units, window_events: f64) -> JumpLimit {
    const STEP: f64 = 0.98;
    let events = window_events / units.window_units as f64;
    let (cells, hashes) = (geometry.cells() as f64, geometry.hashes());
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

/// Events that a counting filter holds at once: those of a window, and of the current sub-window where it jumps.
fn counting_events(units: &Units, capacity: u64) -> f64 {
    let span_windows = units.rule.span_units as f64 / units.window_units.max(1) as f64;
    if matches!(units.unit, Unit::Events(1)) { capacity as f64 } else { capacity as f64 * span_windows }
}

fn counting_cells(spec: &FilterSpec, units: &Units, capacity: u64) -> u64 {
    let hashes = spec.hashes.unwrap_or_else(|| counting_hashes(spec));
    plain::cells(counting_events(units, capacity), spec.rate, hashes).ceil() as u64
}

/// Bytes of the counters, and of the record of when they go down: a bit in each cell for each sub-window, or a queue of
/// digests.
fn counting_bytes(spec: &FilterSpec, units: &Units, capacity: u64) -> u64 {
    let padded = |count: u64| count.saturating_add(511) / 512 * 512;
    let cells = padded(counting_cells(spec, units, capacity));
    if units.unit == Unit::Events(1) {
        let queue_bytes = units.window_units.saturating_mul(16).saturating_add(padded(units.window_units) / 8);
        return (cells / 2).saturating_add(queue_bytes);
    }
    let counter_bits = if units.rule.span_units < 16 { 4 } else { 8 };
    (cells / 8).saturating_mul(counter_bits + units.rule.span_units)
}

/// The best k has `2^-k = P`.
fn counting_hashes(spec: &FilterSpec) -> u32 {
    (-spec.rate.log2()).round().clamp(1.0, f64::from(HASHES_MAX)) as u32
}

fn counting(spec: &FilterSpec, units: &Units, capacity: Option<u64>) -> Result<CellDefinition, SpecError> {
    let hashes = spec.hashes.unwrap_or_else(|| counting_hashes(spec));
    if let (Window::Events(window_events), None) = (&spec.window, spec.jumps) {
        check_sliding(spec, *window_events, capacity)?;
    }
    let cells = match (spec.cells, capacity) {
        (Some(cells), _) => cells,
        (None, Some(capacity)) => counting_cells(spec, units, capacity),
        (None, None) => return Err(SpecError::CapacityNeeded(spec.kind)),
    };
    Geometry::new(cells, hashes, 1, Layout::Classic)?;
    Ok(match (&spec.window, spec.jumps) {
        (Window::Events(window_events), None) => {
            CellDefinition::SlidingCounting { cells, hashes, window_events: *window_events }
        }
        _ => {
            let events_max = capacity.map(|capacity| counting_events(units, capacity).ceil() as u64);
            CellDefinition::JumpingCounting { cells, hashes, events_max }
        }
    })
}

/// A window of N arrivals may bring N events, and has a queue of as many places.
fn check_sliding(spec: &FilterSpec, window_events: u64, capacity: Option<u64>) -> Result<(), SpecError> {
    if window_events > WINDOW_EVENTS_MAX {
        let what = format!("a queue of more than {WINDOW_EVENTS_MAX} events");
        let instead = "choose a shorter window, or a jumping one (sub-windows)";
        return Err(SpecError::Reach { window: spec.window.clone(), what, instead });
    }
    if spec.memory_bytes.is_none() && capacity.is_some_and(|capacity| capacity < window_events) {
        let instead = "a window of N events may bring N different ones; leave the capacity out";
        return Err(SpecError::Option { kind: spec.kind, option: "capacity below its window", instead });
    }
    Ok(())
}

fn stable(spec: &FilterSpec) -> Result<CellDefinition, SpecError> {
    let max = spec.stable_max.unwrap_or(1);
    let hashes = spec.hashes.unwrap_or(4);
    let cell_bits = (u8::BITS - max.leading_zeros()).next_power_of_two();
    let cells = match (spec.cells, spec.memory_bytes, spec.capacity_events) {
        (Some(cells), ..) => cells,
        // In whole lines of 512 cells, as they are stored.
        (None, Some(memory_bytes), _) => match memory_bytes / (64 * u64::from(cell_bits.max(1))) {
            0 => return Err(SpecError::Memory { bytes: memory_bytes, least: MEMORY_MIN_BYTES }),
            lines => lines.saturating_mul(512),
        },
        // About ten cells for each of the events that should be remembered best.
        (None, None, Some(capacity)) => capacity.saturating_mul(10),
        (None, None, None) => return Err(SpecError::CapacityNeeded(spec.kind)),
    };
    let shape = match spec.stable_decrements {
        Some(decrements) => {
            let shape = StableShape { cells, hashes, max, decrements };
            shape.check()?;
            shape
        }
        None => StableShape::for_rate(cells, hashes, max, spec.rate)?,
    };
    Ok(CellDefinition::Stable { shape, seed: spec.seed })
}
