//! The size of a counting filter: counters for the events of a window, and a queue if the window slides by the number
//! of events.

use super::units::{Sizing, Units};
use super::{FilterSpec, SpecError, no};
use crate::counting::WINDOW_EVENTS_MAX;
use crate::definition::{CellDefinition, JumpingCells, KindCells, LINE_CELLS, SlidingCells, bytes_of};
use crate::rates::plain;
use crate::{Geometry, HASHES_MAX, Layout, Unit, Window};

/// Returns the number of events that a counting filter must hold at once. In a jumping window, these are the events of
/// a whole window and those of the current sub-window.
fn live_events(units: &Units, capacity: u64) -> f64 {
    let span_windows = units.rule.span_units as f64 / units.window_units.max(1) as f64;
    if slides_by_count(units) { capacity as f64 } else { capacity as f64 * span_windows }
}

fn slides_by_count(units: &Units) -> bool {
    matches!(units.unit, Unit::Events(1))
}

fn cells(spec: &FilterSpec, units: &Units, capacity: u64) -> u64 {
    plain::cells(live_events(units, capacity), spec.rate, hashes(spec)).ceil() as u64
}

/// Returns the size in bytes of a filter whose window has `capacity` events.
pub(super) fn bytes(spec: &FilterSpec, units: &Units, capacity: u64) -> u64 {
    let cells = cells(spec, units, capacity);
    let hashes = hashes(spec);
    let bits = if slides_by_count(units) {
        SlidingCells { cells, hashes, window_events: units.window_units }.bits(&units.rule, LINE_CELLS)
    } else {
        JumpingCells { cells, hashes, events_max: None }.bits(&units.rule, LINE_CELLS)
    };
    bytes_of(bits)
}

/// Returns the number of positions per event. By default this is the best number, for which `2^-k = P`.
fn hashes(spec: &FilterSpec) -> u32 {
    spec.hashes.unwrap_or_else(|| (-spec.rate.log2()).round().clamp(1.0, f64::from(HASHES_MAX)) as u32)
}

/// Returns the counters of a counting filter.
pub(super) fn counters(sizing: &Sizing<'_>) -> Result<CellDefinition, SpecError> {
    let Sizing { spec, units, capacity, .. } = *sizing;
    let hashes = hashes(spec);
    let counted = match spec.window {
        Window::Events(window_events) if spec.jumps.is_none() => Some(window_events),
        _ => None,
    };
    if let Some(window_events) = counted {
        check_sliding(spec, window_events, capacity)?;
    }
    let cells = match (spec.cells, capacity) {
        (Some(cells), _) => cells,
        (None, Some(capacity)) => cells(spec, units, capacity),
        (None, None) => return Err(SpecError::CapacityNeeded(spec.kind)),
    };
    Geometry::new(cells, hashes, 1, Layout::Classic)?;
    if let Some(window_events) = counted {
        return Ok(CellDefinition::SlidingCounting(SlidingCells { cells, hashes, window_events }));
    }
    let events_max = capacity.map(|capacity| live_events(units, capacity).ceil() as u64);
    Ok(CellDefinition::JumpingCounting(JumpingCells { cells, hashes, events_max }))
}

/// Checks the specification of a window of N arrivals. The capacity must be at least N, because all N arrivals may be
/// different events. N must also not be greater than the queue allows.
fn check_sliding(spec: &FilterSpec, window_events: u64, capacity: Option<u64>) -> Result<(), SpecError> {
    if window_events > WINDOW_EVENTS_MAX {
        let what = format!("a queue of more than {WINDOW_EVENTS_MAX} events");
        let instead = "choose a shorter window, or a jumping one (sub-windows)";
        return Err(SpecError::Reach { window: spec.window.clone(), what, instead });
    }
    if spec.memory_bytes.is_none() && capacity.is_some_and(|capacity| capacity < window_events) {
        let instead = "a window of N events may bring N different ones; leave the capacity out";
        return no(spec, "capacity below its window", instead);
    }
    Ok(())
}
