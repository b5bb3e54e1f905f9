//! Computes the memory of one filter and its error rate. The formulas are those of [`firstseen_filter::rates`], and the
//! load is the load for which the filter is planned.

use firstseen_filter::{FilterSpec, Geometry, Kind, Layout, Rates, SpecError, Unit, Window};
use serde::Serialize;

use super::load::{Load, loads};
use super::retention::{Retention, retention};
use super::traits::{Speed, WhenFull, places, speed, when_full};

/// Costs and error rates of one filter.
#[derive(Debug, Serialize)]
pub(super) struct Costs {
    pub(super) kind: Kind,
    pub(super) window: Window,
    pub(super) events_per_window: u64,
    /// How the positions of an event are distributed over the cells.
    pub(super) layout: Layout,
    /// Number of cells (m).
    pub(super) cells: u64,
    /// Number of positions per event (k).
    pub(super) hashes: u32,
    pub(super) cell_bits: u64,
    pub(super) memory_bytes: u64,
    pub(super) bits_per_event: f64,
    /// False-positive rate at the worst moment of a window.
    pub(super) rate_worst: f64,
    /// Mean false-positive rate over a window.
    pub(super) rate_mean: f64,
    /// Number of new events per window that are wrongly reported as duplicates, and therefore lost, if all events of a
    /// window are new.
    pub(super) false_positives_per_window: f64,
    pub(super) retention: Retention,
    /// How late an event may come and still be judged exactly, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lateness_ms: Option<u64>,
    pub(super) when_full: WhenFull,
    /// Maximum number of distant memory locations that a new event reads or writes.
    pub(super) places_per_event: u32,
    pub(super) speed: Speed,
    /// Results at the planned load and at multiples of it. The list is empty if the window itself bounds the load.
    pub(super) loads: Vec<Load>,
}

impl Costs {
    /// Computes the costs of the filter that `spec` defines. The capacity of the filter must be known.
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
