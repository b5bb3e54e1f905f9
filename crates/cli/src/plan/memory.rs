//! Memory of a definition, and of the alternatives to a filter.
//!
//! Promises: the bytes that a filter built from the definition takes, but for rounding to cache lines. Must not know:
//! what the cells mean.

use firstseen_filter::{CellDefinition, FilterDefinition};
use serde::Serialize;

/// The bits that one cell takes, and those that one event of the window takes beside the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    pub(super) cell_bits: u64,
    pub(super) queue_bits: u64,
}

/// As the kinds document it (`firstseen_filter::JumpingCounting`, `SlidingCounting`, `StableShape`).
pub(super) fn widths(definition: &FilterDefinition) -> Widths {
    let cells_of = |cell_bits| Widths { cell_bits, queue_bits: 0 };
    match &definition.cells {
        CellDefinition::Bloom { geometry, .. }
        | CellDefinition::Timing { geometry, .. }
        | CellDefinition::Generations { geometry, .. }
        | CellDefinition::Cuckoo { geometry, .. } => cells_of(u64::from(geometry.cell_bits())),
        CellDefinition::JumpingCounting { .. } => {
            let sub_windows = definition.rule.span_units;
            cells_of(sub_windows + if sub_windows < 16 { 4 } else { 8 })
        }
        CellDefinition::SlidingCounting { .. } => Widths { cell_bits: 4, queue_bits: 129 },
        CellDefinition::Stable { shape, .. } => cells_of(u64::from(shape.cell_bits())),
        CellDefinition::Decaying { shape } => cells_of(shape.cell_bits()),
    }
}

/// Cells (m) and positions (k).
pub(super) fn shape(cells: &CellDefinition) -> (u64, u32) {
    match cells {
        CellDefinition::Bloom { geometry, .. }
        | CellDefinition::Timing { geometry, .. }
        | CellDefinition::Generations { geometry, .. }
        | CellDefinition::Cuckoo { geometry, .. } => (geometry.cells(), geometry.hashes()),
        CellDefinition::JumpingCounting { cells, hashes, .. }
        | CellDefinition::SlidingCounting { cells, hashes, .. } => (*cells, *hashes),
        CellDefinition::Stable { shape, .. } => (shape.cells, shape.hashes),
        CellDefinition::Decaying { shape } => (shape.cells, shape.hashes),
    }
}

/// Bytes of a filter (of its first generation, where it grows).
pub(super) fn bytes(definition: &FilterDefinition) -> u64 {
    if let CellDefinition::Cuckoo { geometry, .. } = &definition.cells {
        return geometry.bytes();
    }
    let Widths { cell_bits, queue_bits } = widths(definition);
    let queued = match definition.cells {
        CellDefinition::SlidingCounting { window_events, .. } => window_events,
        _ => 0,
    };
    let (cells, _) = shape(&definition.cells);
    let bits = u128::from(cells) * u128::from(cell_bits) + u128::from(queued) * u128::from(queue_bits);
    u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
}

/// Another way to keep the events of a window, without a filter.
#[derive(Debug, Serialize)]
pub(super) struct Reference {
    /// Its name.
    pub(super) name: &'static str,
    /// About how much an event takes, in bytes.
    pub(super) bytes_per_event: u64,
    /// About how much a window takes, in bytes.
    pub(super) memory_bytes: u64,
}

/// A digest of 16 bytes, a time of 8 and a control byte, in a table that is on average two thirds full.
const EXACT_MAP_BYTES: u64 = 38;
/// A key of its own with a time to live: both tables' entries, a short key, the value, allocations.
const REDIS_SET_BYTES: u64 = 130;

/// The usual ones, for `events`.
pub(super) fn references(events: u64) -> Vec<Reference> {
    let of = |name, bytes_per_event| {
        let memory_bytes = events.saturating_mul(bytes_per_event);
        Reference { name, bytes_per_event, memory_bytes }
    };
    vec![of("exact map of digests", EXACT_MAP_BYTES), of("Redis SET key EX", REDIS_SET_BYTES)]
}
