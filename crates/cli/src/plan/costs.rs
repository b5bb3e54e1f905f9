//! The costs of one filter, and its rate of errors.
//!
//! Promises: the formulas of [`firstseen_filter::rates`], at the load that the definition is sized for. Must not know:
//! nodes, how it is printed.

use firstseen_filter::{FilterSpec, Geometry, Kind, Layout, Rates, SpecError, Unit, Window};
use serde::Serialize;

use super::load::{Load, loads};
use super::retention::{Retention, retention};
use super::traits::{Speed, WhenFull, places, speed, when_full};

/// What one filter costs.
#[derive(Debug, Serialize)]
pub(super) struct Costs {
    pub(super) kind: Kind,
    pub(super) window: Window,
    pub(super) events_per_window: u64,
    /// Where the positions of an event may lie.
    pub(super) layout: Layout,
    /// Cells (m).
    pub(super) cells: u64,
    /// Positions an event (k).
    pub(super) hashes: u32,
    pub(super) cell_bits: u64,
    pub(super) memory_bytes: u64,
    pub(super) bits_per_event: f64,
    /// Rate of false positives at the worst moment of a window.
    pub(super) rate_worst: f64,
    /// Rate of false positives over a window.
    pub(super) rate_mean: f64,
    /// New events called duplicates, so lost, if all events of a window are new.
    pub(super) false_positives_per_window: f64,
    pub(super) retention: Retention,
    /// How late an event may come and still be judged exactly, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lateness_ms: Option<u64>,
    pub(super) when_full: WhenFull,
    /// Places of memory, far from each other, that a new event reads or writes at most.
    pub(super) places_per_event: u32,
    pub(super) speed: Speed,
    /// The same at once and more times the load; none where the window itself bounds the load.
    pub(super) loads: Vec<Load>,
}

impl Costs {
    /// The costs of the filter that `spec` gives; its capacity must be known.
    pub(super) fn of(spec: &FilterSpec) -> Result<Self, SpecError> {
        let definition = spec.resolve()?;
        let events_per_window = spec.capacity_events.ok_or(SpecError::CapacityNeeded(spec.kind))?;
        let events = events_per_window as f64;
        let cells = &definition.cells;
        let memory_bytes = definition.bytes();
        let places = places(cells);
        let Rates { worst, mean } = definition.rates(events);
        Ok(Self {
            kind: spec.kind,
            window: spec.window.clone(),
            events_per_window,
            layout: cells.geometry().map_or(Layout::Classic, Geometry::layout),
            cells: cells.cells(),
            hashes: cells.hashes(),
            cell_bits: cells.cell_bits(&definition.rule),
            memory_bytes,
            bits_per_event: memory_bytes as f64 * 8.0 / events,
            rate_worst: worst,
            rate_mean: mean,
            false_positives_per_window: mean * events,
            retention: retention(&definition),
            lateness_ms: match (&definition.window, &definition.unit) {
                (Window::Duration(_), Unit::Milliseconds(unit_ms)) => {
                    Some(definition.rule.lateness_units.saturating_mul(*unit_ms))
                }
                _ => None,
            },
            when_full: when_full(cells),
            places_per_event: places,
            speed: speed(places),
            loads: loads(spec, &definition, events)?,
        })
    }
}
