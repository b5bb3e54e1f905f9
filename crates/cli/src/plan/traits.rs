//! Compares kinds of filters by two properties: what happens when a filter is full, and how fast lookups and recordings
//! are. A user who compares kinds only by their memory and their error rate would miss these properties. The comparison
//! repeats what the documentation of each kind states.

use firstseen_filter::{CellDefinition, Layout};
use serde::Serialize;

/// What happens when more events come than were planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhenFull {
    /// The filter replies `undecided` and records no further events.
    Refuses,
    /// The filter forgets events sooner.
    Forgets,
    /// The filter has room for any number of events in a window.
    Never,
}

/// How fast events are looked up and recorded, measured by the number of distant memory locations that an event needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Speed {
    /// One location.
    Fast,
    /// Two to four locations.
    Medium,
    /// More than four locations.
    Slow,
}

pub(super) fn when_full(cells: &CellDefinition) -> WhenFull {
    if cells.kind().forgets_early() {
        WhenFull::Forgets
    } else if cells.refuses() {
        WhenFull::Refuses
    } else {
        WhenFull::Never
    }
}

/// Returns the maximum number of distant memory locations that a new event reads or writes.
pub(super) fn places(cells: &CellDefinition) -> u32 {
    match cells.geometry().map(|geometry| geometry.layout()) {
        Some(Layout::Blocked { .. }) => 1,
        Some(Layout::Buckets { .. }) => 2,
        Some(Layout::Classic | Layout::Partitioned) | None => cells.hashes(),
    }
}

pub(super) fn speed(places: u32) -> Speed {
    match places {
        ..=1 => Speed::Fast,
        2..=4 => Speed::Medium,
        _ => Speed::Slow,
    }
}
