//! The events of producers in a storm: one that many ask about at the same moment, one whose window ends just then, one
//! that all ask about all the time, and one that is new.
//!
//! Promises: an event follows from the time and the dice, so that producers ask about the same ones. Must not know:
//! which producer asks.

use crate::dice::Dice;

/// For so long, many ask about one and the same event.
const SLOT_MS: u64 = 60;
/// The event that all producers ask about all the time.
const HOT: u64 = 0;
/// The numbers of events that only one producer asks about.
const OWN: u64 = 1 << 40;
/// How far from the end of its window an event is asked about again.
const EDGE_MS: u64 = 400;
/// A longer window has no end in a storm; events of so long ago are asked about instead.
const WINDOW_MS_MAX: u64 = 6_000;
/// Most milliseconds that an event is late.
const LATE_MS_MAX: u64 = 1_000;

/// An event, and when it occurred: `now_ms`, or a little before.
pub(crate) fn draw(dice: &mut Dice, now_ms: u64, window_ms: u64) -> (u64, u64) {
    let window_ms = window_ms.min(WINDOW_MS_MAX);
    let event = match dice.below(20) {
        0..9 => event_at(now_ms),
        9..11 => HOT,
        11..15 => event_at((now_ms + EDGE_MS).saturating_sub(window_ms + dice.below(3 * EDGE_MS))),
        15..18 => event_at(now_ms.saturating_sub(dice.below(2 * window_ms))),
        _ => OWN + dice.below(OWN),
    };
    let late_ms = if dice.below(10) == 0 { dice.below(LATE_MS_MAX) } else { 0 };
    (event, now_ms.saturating_sub(late_ms))
}

/// Returns the event that many ask about at this time.
fn event_at(time_ms: u64) -> u64 {
    1 + time_ms / SLOT_MS
}
