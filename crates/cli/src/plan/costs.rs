//! The costs of one filter, and its rate of errors.
//!
//! Promises: the formulas of [`firstseen_filter::rates`], at the load that the definition is sized for. Must not know:
//! nodes, how it is printed.

use firstseen_filter::{FilterSpec, Kind, Layout, SpecError, Window};
use serde::Serialize;

use super::load::{Load, loads};
use super::memory::{self, Widths, widths};
use super::rates::{Rates, layout, rates};
use super::retention::{Retention, retention};

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
    /// The same at once and more times the load; none where the window itself bounds the load.
    pub(super) loads: Vec<Load>,
}

impl Costs {
    /// The costs of the filter that `spec` gives; its capacity must be known.
    pub(super) fn of(spec: &FilterSpec) -> Result<Self, SpecError> {
        let definition = spec.resolve()?;
        let events_per_window = spec.capacity_events.ok_or(SpecError::CapacityNeeded(spec.kind))?;
        let events = events_per_window as f64;
        let (cells, hashes) = memory::shape(&definition.cells);
        let Widths { cell_bits, .. } = widths(&definition);
        let memory_bytes = memory::bytes(&definition);
        let Rates { worst, mean } = rates(&definition, events);
        Ok(Self {
            kind: spec.kind,
            window: spec.window.clone(),
            events_per_window,
            layout: layout(&definition.cells),
            cells,
            hashes,
            cell_bits,
            memory_bytes,
            bits_per_event: memory_bytes as f64 * 8.0 / events,
            rate_worst: worst,
            rate_mean: mean,
            false_positives_per_window: mean * events,
            retention: retention(&definition),
            loads: loads(spec, &definition, events)?,
        })
    }
}
