//! The rate of errors at a load of so many events.
//!
//! Promises: the formulas of [`firstseen_filter::rates`]. Must not know: nodes, memory, how it is printed.

use firstseen_filter::rates::generations::{self, JumpingLoad};
use firstseen_filter::rates::{blocked::BlockRates, cuckoo, plain};
use firstseen_filter::{BucketShape, CellDefinition, FilterDefinition, Geometry, Growth, Layout};

/// The layout of the cells; counting and stable filters are classic.
pub(super) fn layout(cells: &CellDefinition) -> Layout {
    cells.geometry().map_or(Layout::Classic, Geometry::layout)
}

/// Expected rates of false positives over first tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    /// At the worst moment of a window: a full filter, just before a jump or a landmark.
    pub(super) worst: f64,
    /// The mean over a window.
    pub(super) mean: f64,
}

/// The rates if one window brings `events` and all of them are recorded.
pub(super) fn rates(definition: &FilterDefinition, events: f64) -> Rates {
    // Q full sub-windows, and the current one.
    let jumps = (definition.rule.span_units - 1) as f64;
    match &definition.cells {
        CellDefinition::Bloom { geometry, .. } => {
            Rates { worst: rate(geometry, events), mean: stream_mean(geometry, events) }
        }
        CellDefinition::Timing { geometry, growth, .. } => {
            let steady = rate(geometry, events * live_share(growth.as_ref(), definition.capacity_events));
            Rates { worst: steady, mean: steady }
        }
        CellDefinition::Generations { geometry, .. } => {
            let load = JumpingLoad { events, jumps: jumps as u32 };
            let cells = geometry.cells() as f64;
            let steady = match geometry.layout() {
                Layout::Blocked { .. } => generations::steady_blocked(&mut block_rates(geometry), cells, load),
                _ => generations::steady_classic(cells, geometry.hashes(), load),
            };
            Rates { worst: steady.worst, mean: steady.mean }
        }
        CellDefinition::Cuckoo { geometry, growth, .. } => {
            let live = events * live_share(Some(growth), definition.capacity_events);
            let steady = cuckoo_rate(geometry, live);
            Rates { worst: steady, mean: steady }
        }
        CellDefinition::JumpingCounting { cells, hashes, .. } => {
            let (cells, most) = (*cells as f64, events * (jumps + 1.0) / jumps);
            let mean = plain::mean_between(cells, *hashes, events, most);
            Rates { worst: plain::rate(cells, *hashes, most), mean }
        }
        CellDefinition::SlidingCounting { cells, hashes, window_events } => {
            let steady = plain::rate(*cells as f64, *hashes, *window_events as f64);
            Rates { worst: steady, mean: steady }
        }
        CellDefinition::Stable { shape, .. } => {
            let stable = shape.stable_rate();
            Rates { worst: stable, mean: stable }
        }
        CellDefinition::Decaying { shape } => {
            let steady = plain::rate(shape.cells as f64, shape.hashes, events);
            Rates { worst: steady, mean: steady }
        }
    }
}

/// Events alive at once, as a multiple of a window's events: the filter is sized also for those that wait for the end
/// of a tick.
fn live_share(growth: Option<&Growth>, capacity_events: Option<u64>) -> f64 {
    match (growth, capacity_events) {
        (Some(growth), Some(capacity_events)) => growth.capacity_events as f64 / capacity_events as f64,
        _ => 1.0,
    }
}

fn cuckoo_rate(geometry: &Geometry, events: f64) -> f64 {
    match geometry.layout() {
        Layout::Buckets { time_bits } => {
            let fill = (events / geometry.cells() as f64).min(1.0);
            cuckoo::rate(BucketShape::new(geometry.cell_bits(), time_bits), fill)
        }
        _ => rate(geometry, events),
    }
}

fn block_rates(geometry: &Geometry) -> BlockRates {
    BlockRates::new(geometry.block_cells(), geometry.hashes())
}

fn rate(geometry: &Geometry, events: f64) -> f64 {
    let cells = geometry.cells() as f64;
    match geometry.layout() {
        Layout::Blocked { .. } => block_rates(geometry).rate(cells, events),
        Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => plain::rate(cells, geometry.hashes(), events),
    }
}

fn stream_mean(geometry: &Geometry, events: f64) -> f64 {
    let cells = geometry.cells() as f64;
    match geometry.layout() {
        Layout::Blocked { .. } => block_rates(geometry).stream_mean(cells, events),
        Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => {
            plain::stream_mean(cells, geometry.hashes(), events)
        }
    }
}
