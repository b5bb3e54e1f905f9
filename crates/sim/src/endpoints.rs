//! Scenarios in which Redis clients send commands to the Redis endpoints of nodes, instead of producers. The seed
//! determines the scenario.

use firstseen_routing::{ClockSource, Durability, WhenLost};

use crate::alteration::{Alteration, CAPACITY_EVENTS};
use crate::endpoint_use::EndpointUse;
use crate::rights::with_rights;
use crate::scenario::{Nemesis, Scenario};
use crate::seeded_rng::SeededRng;

/// Seeds of the random numbers for scenarios with Redis endpoints. `OF_ENDPOINTS` is used for all properties except
/// one: `OF_CLOCKS` is used to choose the clock that decides when a key with its own time to live expires. Seeds of
/// their own keep these random numbers independent of all others, so all other scenarios stay unchanged.
const OF_ENDPOINTS: u64 = 0xD0_0125 << 32;
const OF_CLOCKS: u64 = 0xD0_C10C << 32;
/// Lateness of the events of a filter whose nodes count the times of keys.
const LATENESS_MS: u64 = 5_000;
/// Number of calls of a client, and maximum pause in milliseconds between two calls of one caller.
const CALLS: u32 = 200;
const PAUSE_MAX_MS: u64 = 400;
/// Number of different events. Runs whose endpoints confirm claims need more, so that clients still find new ones at
/// the end.
const EVENTS: u64 = 60;
const EVENTS_CONFIRMED: u64 = 300;
/// Window of the filter whose keys have their own times to live.
const WINDOW_MS: u64 = 60_000;
/// Factors by which an alteration multiplies the window. They must be small so that keys still expire during the run.
///
/// The reason is that a filter measures time in ticks, and a longer window has longer ticks. A key may outlive its time
/// to live by two ticks. With a much longer window, a key could outlive the whole run, and the test could not check
/// that it expires.
const WINDOW_TIMES: [u64; 3] = [1, 2, 4];
/// Maximum lease if the endpoint confirms claims.
const LEASE_MS_MAX: u32 = 3_000;

/// Returns the scenario of `seed` with Redis endpoints.
pub(crate) fn scenario(seed: u64) -> Scenario {
    let mut rng = SeededRng::new(seed ^ OF_ENDPOINTS);
    let endpoint_use =
        rng.pick(&[EndpointUse::OwnTimes, EndpointUse::OwnTimes, EndpointUse::Confirms, EndpointUse::Revocations]);
    let nemesis = match endpoint_use {
        EndpointUse::OwnTimes => rng.pick(&[Nemesis::WrongClock, Nemesis::WrongClock, Nemesis::Delay, Nemesis::Stop]),
        EndpointUse::Confirms => Nemesis::Stop,
        EndpointUse::Revocations => Nemesis::Delay,
    };
    let is_altered = endpoint_use == EndpointUse::OwnTimes && nemesis == Nemesis::Delay;
    let claims = endpoint_use != EndpointUse::OwnTimes;
    let expiry_clock = if claims { ExpiryClock::Events } else { SeededRng::new(seed ^ OF_CLOCKS).pick(&EXPIRY_CLOCKS) };
    let scenario = Scenario {
        endpoints: Some(endpoint_use),
        nemesis,
        alteration: if is_altered { Some(alteration(&mut rng)) } else { None },
        lease_max_ms: claims.then_some(LEASE_MS_MAX),
        clock: expiry_clock.source(),
        lateness_ms: expiry_clock.lateness_ms(),
        slicing: rng.pick(&["none", "horizontal:5", "vertical:3", "horizontal-vertical:2x4"]),
        kind: "timing",
        window_ms: if claims { 3_600_000 } else { WINDOW_MS },
        durability: Durability::Durable,
        when_lost: WhenLost::Undecided,
        safe: true,
        named: false,
        sync_ms: 1,
        producers: 3,
        events: if endpoint_use == EndpointUse::Confirms { EVENTS_CONFIRMED } else { EVENTS },
        calls: CALLS,
        pause_max_ms: PAUSE_MAX_MS,
        latency_max_ms: rng.pick(&[2, 20]),
        deadline_ms: 3_000,
        ..Scenario::wrong_clocks(seed)
    };
    if endpoint_use == EndpointUse::Revocations { with_rights(scenario) } else { scenario }
}

/// The clock by which keys expire.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpiryClock {
    /// The clock of the events, which are never late.
    Events,
    /// The clock of the events, which may be late.
    LateEvents,
    /// The clock of the nodes.
    Nodes,
}

const EXPIRY_CLOCKS: [ExpiryClock; 3] = [ExpiryClock::Events, ExpiryClock::LateEvents, ExpiryClock::Nodes];

impl ExpiryClock {
    fn source(self) -> ClockSource {
        if self == Self::Nodes { ClockSource::Wall } else { ClockSource::Event }
    }

    fn lateness_ms(self) -> u64 {
        if self == Self::LateEvents { LATENESS_MS } else { 0 }
    }
}

fn alteration(rng: &mut SeededRng) -> Alteration {
    Alteration {
        kind: None,
        slicing: rng.pick(&["none", "horizontal:5", "vertical:3"]),
        capacity_events: 2 * CAPACITY_EVENTS,
        window_ms: Some(WINDOW_MS * rng.pick(&WINDOW_TIMES)),
        has_new_secret: rng.below(2) == 0,
        forgets: false,
    }
}
