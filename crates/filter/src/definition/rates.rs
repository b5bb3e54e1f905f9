//! Rates of cells that are described by a [`Geometry`].

use crate::growth::Growth;
use crate::rates::blocked::BlockRates;
use crate::rates::plain;
use crate::{Geometry, Layout};

/// Expected rates of false positives over first tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// At the worst moment of a window: a full filter, just before a jump or a landmark.
    pub worst: f64,
    /// The mean over a window.
    pub mean: f64,
}

impl Rates {
    /// A rate that does not change over a window.
    pub(super) fn steady(rate: f64) -> Self {
        Self { worst: rate, mean: rate }
    }
}

/// Events alive at once, as a multiple of a window's events: the filter is sized also for those that wait for the end
/// of a tick.
pub(super) fn live_share(growth: Option<&Growth>, capacity_events: Option<u64>) -> f64 {
    match (growth, capacity_events) {
        (Some(growth), Some(capacity_events)) => growth.capacity_events as f64 / capacity_events as f64,
        _ => 1.0,
    }
}

pub(super) fn block_rates(geometry: &Geometry) -> BlockRates {
    BlockRates::new(geometry.block_cells(), geometry.hashes())
}

/// The rate of cells that hold `events`.
pub(super) fn rate(geometry: &Geometry, events: f64) -> f64 {
    let cells = geometry.cells() as f64;
    match geometry.layout() {
        Layout::Blocked { .. } => block_rates(geometry).rate(cells, events),
        Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => plain::rate(cells, geometry.hashes(), events),
    }
}

/// The mean rate while cells fill up with `events`.
pub(super) fn stream_mean(geometry: &Geometry, events: f64) -> f64 {
    let cells = geometry.cells() as f64;
    match geometry.layout() {
        Layout::Blocked { .. } => block_rates(geometry).stream_mean(cells, events),
        Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => {
            plain::stream_mean(cells, geometry.hashes(), events)
        }
    }
}
