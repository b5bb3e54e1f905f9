//! What tells kinds apart beside memory and rate: what becomes of a full filter, and how fast one is.
//!
//! Promises: as the kinds document it. Must not know: sizes, how it is printed.

use firstseen_filter::{CellDefinition, Layout};
use serde::Serialize;

/// What happens when more events come than were planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhenFull {
    /// It answers `undecided` and records nothing more.
    Refuses,
    /// It forgets sooner.
    Forgets,
    /// It has room for whatever a window brings.
    Never,
}

/// How fast events are looked up and recorded, by the places of memory that each of them takes from afar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Speed {
    /// One place.
    Fast,
    /// Two to four.
    Medium,
    /// More.
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

/// Places of memory, far from each other, that a new event reads or writes at most.
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
