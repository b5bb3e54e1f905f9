//! False-positive rates of cells that a [`Geometry`] describes.

use crate::growth::Growth;
use crate::rates::blocked::BlockRates;
use crate::rates::plain;
use crate::{Geometry, Layout};

/// Expected false-positive rates. They refer to the first test of each event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Rate at the worst moment of a window, when the filter is full just before a jump or a landmark.
    pub worst: f64,
    /// Mean rate over a window.
    pub mean: f64,
}

impl Rates {
    /// Returns rates for a filter whose rate does not change over a window.
    pub(super) fn steady(rate: f64) -> Self {
        Self { worst: rate, mean: rate }
    }
}

/// Returns the ratio of the events that the filter must hold at the same time to the events of one window. The ratio is
/// above 1 if the filter keeps events until the end of a tick although their window has already ended. The filter is
/// sized for these additional events as well.
pub(super) fn live_share(growth: Option<&Growth>, capacity_events: Option<u64>) -> f64 {
    match (growth, capacity_events) {
        (Some(growth), Some(capacity_events)) => growth.capacity_events as f64 / capacity_events as f64,
        _ => 1.0,
    }
}

pub(super) fn block_rates(geometry: &Geometry) -> BlockRates {
    BlockRates::new(geometry.block_cells(), geometry.hashes())
}

/// Returns the rate of cells that hold `events` events, each at `k` positions. The formula does not apply to buckets of
/// fingerprints, so kind `cuckoo` uses [`crate::rates::cuckoo`] instead. The arm for buckets is only a fallback: a
/// definition read from outside can combine a kind with a layout that the kind does not have.
pub(super) fn rate(geometry: &Geometry, events: f64) -> f64 {
    let cells = geometry.cells() as f64;
    match geometry.layout() {
        Layout::Blocked { .. } => block_rates(geometry).rate(cells, events),
        Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => plain::rate(cells, geometry.hashes(), events),
    }
}

/// Returns the mean rate while the cells fill up with `events` events. As in [`rate`], the arm for buckets is only a
/// fallback.
pub(super) fn stream_mean(geometry: &Geometry, events: f64) -> f64 {
    let cells = geometry.cells() as f64;
    match geometry.layout() {
        Layout::Blocked { .. } => block_rates(geometry).stream_mean(cells, events),
        Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => {
            plain::stream_mean(cells, geometry.hashes(), events)
        }
    }
}
