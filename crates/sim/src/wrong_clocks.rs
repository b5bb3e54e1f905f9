//! Scenarios in which nodes stamp the events while their clocks are wrong by far more than clocks are allowed to
//! differ. The seed determines the faults. All clocks are right again at the end of the run.

use std::time::Duration;

use firstseen_routing::{ClockSource, Durability, OwnerLimits, WhenLost};

use crate::clock::{CLOCK_SKEW_MS_MAX, now_us};
use crate::fault_injector::{FaultInjector, Order};
use crate::scenario::{Nemesis, Scenario};
use crate::seeded_rng::SeededRng;
use crate::shared_history::{SharedHistory, lock};

/// Seed of the random numbers for clocks, which are independent of the other random numbers of a run.
const OF_CLOCKS: u64 = 0xC1_0C5 << 32;
/// Number of calls of a producer, maximum pause in milliseconds between two of them, and time that one call waits.
const CALLS: u32 = 80;
const PAUSE_MAX_MS: u64 = 600;
const DEADLINE_MS: u64 = 1_000;

/// How far a clock is set wrong: by hours, by a day, or by little more than clocks may differ.
const MISSET_MS: [i64; 6] = [7_200_000, 90_000_000, -7_200_000, 5_000, -5_000, 3_000_000];

impl Scenario {
    /// Returns the scenario of `seed` in which nodes stamp the events while their clocks are wrong by up to 25 hours.
    /// Some properties, such as the slicing, are chosen with separate random numbers. All other properties are those
    /// that [`Self::new`] returns for the same seed.
    ///
    /// A process may be restarted while its node's clock is wrong. This happens only if the filter is durable, because
    /// the recorded events must survive the restart.
    pub fn wrong_clocks(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed ^ OF_CLOCKS);
        Self {
            nemesis: Nemesis::WrongClock,
            clock: ClockSource::Wall,
            slicing: rng.pick(&["none", "horizontal:5", "vertical:7", "vertical:3", "horizontal-vertical:2x4"]),
            kind: rng.pick(&["timing", "generations"]),
            window_ms: rng.pick(&[3_600_000, 3_600_000, 2_000]),
            durability: rng.pick(&[Durability::Durable, Durability::Memory]),
            copies: rng.pick(&[0, 0, 1]),
            when_lost: WhenLost::Undecided,
            safe: true,
            sync_ms: 1,
            producers: 3,
            calls: CALLS,
            pause_max_ms: PAUSE_MAX_MS,
            deadline_ms: DEADLINE_MS,
            owner_limits: OwnerLimits { clock_skew_max_ms: CLOCK_SKEW_MS_MAX, ..OwnerLimits::default() },
            ..Self::new(seed)
        }
    }
}

/// Seed of the random numbers for single nodes.
const OF_LONE_NODES: u64 = 0x10_4E << 32;

/// Returns the scenario of `seed` for a cluster that consists of a single node with a durable filter. The node's clock
/// is set wrong while the node runs or before it starts. The node cannot notice this by comparing its clock with the
/// clocks of other nodes, because there are none.
pub(crate) fn lone(seed: u64) -> Scenario {
    let mut rng = SeededRng::new(seed ^ OF_LONE_NODES);
    Scenario {
        nodes: 1,
        slicing: rng.pick(&["none", "horizontal:5", "vertical:3"]),
        durability: Durability::Durable,
        copies: 0,
        // A clock that is ahead by less than a minute at a start looks like a node that was down for that time.
        window_ms: 3_600_000,
        ..Scenario::wrong_clocks(seed)
    }
}

impl FaultInjector {
    /// Sets a node's clock wrong, and sets it right again later. If the node's filter is durable, the node's process
    /// may also be restarted, either while the clock is wrong or when it is right again.
    pub(crate) async fn misset(&self, node: usize, rng: &mut SeededRng, history: &SharedHistory) {
        let restarts = self.scenario.durability != Durability::Memory && rng.below(3) == 0;
        let clock = &self.machines[node].clock;
        let from_us = now_us();
        if restarts {
            self.order(Order::Kill(node));
        }
        clock.set_ahead_ms(rng.pick(&MISSET_MS));
        tokio::time::sleep(Duration::from_millis(rng.below(1_500))).await;
        if restarts && rng.below(3) > 0 {
            self.order(Order::Start(node));
        }
        tokio::time::sleep(Duration::from_millis(500 + rng.below(4_000))).await;
        clock.set_ahead_ms(0);
        if restarts {
            self.order(Order::Start(node));
        }
        lock(history).periods.wrong_clocks.push((from_us, now_us()));
        tokio::time::sleep(Duration::from_millis(1_500 + rng.below(2_000))).await;
    }
}
