//! What producers ask in a storm: many about the same event at once, about one whose window ends just now, about one that
//! everybody asks for all the time, and about one that nobody has seen.
//!
//! Promises: which event is asked about follows from the time and the dice, so that producers meet. Must not know: who asks.

use crate::scenario::Dice;

/// For so long one event is the one of the day.
const SLOT_MS: u64 = 60;
/// That everybody asks about all the time.
const HOT: u64 = 0;
/// Events that nobody else asks about.
const OWN: u64 = 1 << 40;
/// How far from the end of its window an event is asked about again.
const EDGE_MS: u64 = 400;
/// Windows that are longer than a storm have no end in it; what was lately seen is asked about.
const WINDOW_MS_MAX: u64 = 6_000;
/// Most milliseconds that an event is late.
const LATE_MS_MAX: u64 = 1_000;

/// An event, and when it occurred: `now_ms`, or a little before.
pub(crate) fn draw(dice: &mut Dice, now_ms: u64, window_ms: u64) -> (u64, u64) {
    let window_ms = window_ms.min(WINDOW_MS_MAX);
    let of_the = |time_ms: u64| 1 + time_ms / SLOT_MS;
    let event = match dice.below(20) {
        0..9 => of_the(now_ms),
        9..11 => HOT,
        11..15 => of_the((now_ms + EDGE_MS).saturating_sub(window_ms + dice.below(3 * EDGE_MS))),
        15..18 => of_the(now_ms.saturating_sub(dice.below(2 * window_ms))),
        _ => OWN + dice.below(OWN),
    };
    let late_ms = if dice.below(10) == 0 { dice.below(LATE_MS_MAX) } else { 0 };
    (event, now_ms.saturating_sub(late_ms))
}
