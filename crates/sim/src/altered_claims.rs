//! Scenarios in which a filter changes while consumers hold claims of its events. There are two such changes: an
//! alteration, or a reset of the filter's clock, which removes all events of the filter. The seed determines the
//! scenario.

use firstseen_routing::{ClockSource, Durability, WhenLost};

use crate::alteration::{Alteration, CAPACITY_EVENTS};
use crate::scenario::{Nemesis, Scenario};
use crate::seeded_rng::SeededRng;

/// Seed of the random numbers of this family, which are independent of the other random numbers of a run.
const OF_ALTERED_CLAIMS: u64 = 0xA1_C1A1 << 32;
/// Maximum lease. It is long so that many claims are open when the filter is altered.
const LEASE_MS_MAX: u32 = 8_000;
/// Number of calls of a producer, and maximum pause in milliseconds between two calls of one caller.
const CALLS: u32 = 160;
const PAUSE_MAX_MS: u64 = 400;

/// Returns the scenario of `seed` in which a filter with claims is altered.
pub(crate) fn scenario(seed: u64) -> Scenario {
    let mut rng = SeededRng::new(seed ^ OF_ALTERED_CLAIMS);
    let slicing = rng.pick(&["none", "horizontal:5", "vertical:3", "horizontal-vertical:2x4"]);
    let plain = Alteration::forgetting(slicing);
    let alteration = match rng.below(2) {
        0 => plain,
        _ => Alteration {
            slicing: rng.pick(&["none", "horizontal:5", "vertical:3"]),
            capacity_events: 2 * CAPACITY_EVENTS,
            has_new_secret: rng.below(2) == 0,
            forgets: false,
            ..plain
        },
    };
    Scenario {
        alteration: Some(alteration),
        lease_max_ms: Some(LEASE_MS_MAX),
        nemesis: rng.pick(&[Nemesis::Delay, Nemesis::Delay, Nemesis::Reset, Nemesis::Hold]),
        clock: rng.pick(&[ClockSource::Event, ClockSource::Wall]),
        slicing,
        kind: rng.pick(&["timing", "generations"]),
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
