//! Memory of the alternatives to a filter.

use serde::Serialize;

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
