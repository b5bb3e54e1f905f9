//! Scenarios in which a filter with claims is altered, or forgets everything with its clock, while consumers hold events.
//!
//! The scenario follows from the seed. This module must not depend on what consumers do.

use firstseen_routing::{ClockSource, Durability, WhenLost};

use crate::alteration::{Alteration, CAPACITY_EVENTS};
use crate::dice::Dice;
use crate::scenario::{Nemesis, Scenario};

/// The dice of this family, independent of the other dice of a seed.
const OF_ALTERED_CLAIMS: u64 = 0xA1_C1A1 << 32;
/// The greatest lease: many claims are open when the filter is altered.
const LEASE_MS_MAX: u32 = 8_000;
/// Calls of a producer, and most milliseconds between two of one caller.
const CALLS: u32 = 160;
const PAUSE_MAX_MS: u64 = 400;

/// The scenario of `seed` in which a filter with claims is altered.
pub(crate) fn scenario(seed: u64) -> Scenario {
    let mut dice = Dice::new(seed ^ OF_ALTERED_CLAIMS);
    let slicing = dice.pick(&["none", "horizontal:5", "vertical:3", "horizontal-vertical:2x4"]);
    let plain = Alteration::forgetting(slicing);
    let alteration = match dice.below(2) {
        0 => plain,
        _ => Alteration {
            slicing: dice.pick(&["none", "horizontal:5", "vertical:3"]),
            capacity_events: 2 * CAPACITY_EVENTS,
            has_new_secret: dice.below(2) == 0,
            forgets: false,
            ..plain
        },
    };
    Scenario {
        alteration: Some(alteration),
        lease_max_ms: Some(LEASE_MS_MAX),
        nemesis: dice.pick(&[Nemesis::Delay, Nemesis::Delay, Nemesis::Reset, Nemesis::Hold]),
        clock: dice.pick(&[ClockSource::Event, ClockSource::Wall]),
        slicing,
        kind: dice.pick(&["timing", "generations"]),
        window_ms: 3_600_000,
        durability: Durability::Memory,
        when_lost: WhenLost::Undecided,
        safe: true,
        named: false,
        producers: 3,
        calls: CALLS,
        pause_max_ms: PAUSE_MAX_MS,
        deadline_ms: 3_000,
        ..Scenario::new(seed)
    }
}
