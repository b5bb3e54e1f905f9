//! The events that producers submit in a storm. There are four sorts of events:
//!
//! - events that many producers submit at the same time,
//! - events that are submitted again shortly before their window ends,
//! - one event that all producers submit during the whole storm,
//! - new events.
//!
//! The time and the random numbers determine an event, so producers submit the same events.

use crate::seeded_rng::SeededRng;

/// Time in milliseconds for which many producers submit the same event.
const SLOT_MS: u64 = 60;
/// The event that all producers submit all the time.
const HOT: u64 = 0;
/// First number of the events that only one producer submits.
const OWN: u64 = 1 << 40;
/// Distance in milliseconds from the end of its window at which an event is submitted again.
const EDGE_MS: u64 = 400;
/// A longer window does not end in a storm. Events of this age in milliseconds are submitted again instead.
const WINDOW_MS_MAX: u64 = 6_000;
/// Maximum lateness of an event, in milliseconds.
const LATE_MS_MAX: u64 = 1_000;

/// Returns an event and the time at which it occurred, which is `now_ms` or slightly before.
pub(crate) fn draw(rng: &mut SeededRng, now_ms: u64, window_ms: u64) -> (u64, u64) {
    let window_ms = window_ms.min(WINDOW_MS_MAX);
    let event = match rng.below(20) {
        0..9 => event_at(now_ms),
        9..11 => HOT,
        11..15 => event_at((now_ms + EDGE_MS).saturating_sub(window_ms + rng.below(3 * EDGE_MS))),
        15..18 => event_at(now_ms.saturating_sub(rng.below(2 * window_ms))),
        _ => OWN + rng.below(OWN),
    };
    let late_ms = if rng.below(10) == 0 { rng.below(LATE_MS_MAX) } else { 0 };
    (event, now_ms.saturating_sub(late_ms))
}

/// Returns the event that many producers submit at this time.
fn event_at(time_ms: u64) -> u64 {
    1 + time_ms / SLOT_MS
}
