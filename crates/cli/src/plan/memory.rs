//! Memory of the alternatives to a filter.

use firstseen_filter::figures::ALTERNATIVES;
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

/// The usual ones, for `events`.
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
