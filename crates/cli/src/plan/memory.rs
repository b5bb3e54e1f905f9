//! Computes the memory that alternatives to a filter need.

use firstseen_filter::figures::ALTERNATIVES;
use serde::Serialize;

/// Another way to remember the events of a window, without a filter.
#[derive(Debug, Serialize)]
pub(super) struct Reference {
    /// Name of the alternative.
    pub(super) name: &'static str,
    /// Approximate memory per event in bytes.
    pub(super) bytes_per_event: u64,
    /// Approximate memory for a window in bytes.
    pub(super) memory_bytes: u64,
}

/// Returns the common alternatives for `events` events.
pub(super) fn references(events: u64) -> Vec<Reference> {
    ALTERNATIVES
        .into_iter()
        .map(|alternative| Reference {
            name: alternative.name,
            bytes_per_event: alternative.bytes_per_event,
            memory_bytes: events.saturating_mul(alternative.bytes_per_event),
        })
        .collect()
}
