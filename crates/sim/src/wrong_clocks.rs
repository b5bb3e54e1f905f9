//! Clocks of nodes that are set by far more than clocks may differ, under filters whose events nodes stamp.
//!
//! Promises: the faults follow from the seed, and no clock is wrong in the end. Must not know: the verdicts of
//! producers.

use std::time::Duration;

use firstseen_routing::{ClockSource, Durability, OwnerLimits, WhenLost};

use crate::clock::{CLOCK_SKEW_MS_MAX, now_us};
use crate::dice::Dice;
use crate::scenario::{Nemesis, Scenario};
use crate::shared_history::{SharedHistory, lock};
use crate::torment::{Order, Torment};

/// The dice of clocks fall independently of the other dice of a seed.
const OF_CLOCKS: u64 = 0xC1_0C5 << 32;
/// Calls of a producer, most milliseconds between two of them, and how long one call waits.
const CALLS: u32 = 80;
const PAUSE_MAX_MS: u64 = 600;
const DEADLINE_MS: u64 = 1_000;

/// How far a clock is set: by hours, by a day, and by little more than clocks may differ.
const MISSET_MS: [i64; 6] = [7_200_000, 90_000_000, -7_200_000, 5_000, -5_000, 3_000_000];

impl Scenario {
    /// The scenario of `seed` in which the clocks of nodes that stamp events are set by hours; the slicing differs.
    /// What a process forgets is on copies or on disk.
    pub fn wrong_clocks(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ OF_CLOCKS);
        Self {
            nemesis: Nemesis::WrongClock,
            clock: ClockSource::Wall,
            slicing: dice.pick(&["none", "horizontal:5", "vertical:7", "vertical:3", "horizontal-vertical:2x4"]),
            kind: dice.pick(&["timing", "generations"]),
            window_ms: dice.pick(&[3_600_000, 3_600_000, 2_000]),
            durability: dice.pick(&[Durability::Durable, Durability::Memory]),
            copies: dice.pick(&[0, 0, 1]),
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

/// The dice of lone nodes.
const OF_LONE_NODES: u64 = 0x10_4E << 32;

/// The scenario of `seed` for a cluster of one node with a durable filter. The node's clock is set wrong while it runs or before it
/// starts, and there is no other node whose clock could show that.
pub(crate) fn lone(seed: u64) -> Scenario {
    let mut dice = Dice::new(seed ^ OF_LONE_NODES);
    Scenario {
        nodes: 1,
        slicing: dice.pick(&["none", "horizontal:5", "vertical:3"]),
        durability: Durability::Durable,
        copies: 0,
        // A clock that is ahead by less than a minute at a start looks like a node that was down for that long.
        window_ms: 3_600_000,
        ..Scenario::wrong_clocks(seed)
    }
}

impl Torment {
    /// Sets a node's clock wrong, and right again. The process of a node with a durable filter may be started again
    /// meanwhile, or when the clock is right again.
    pub(crate) async fn misset(&self, node: usize, dice: &mut Dice, history: &SharedHistory) {
        let restarts = self.scenario.durability != Durability::Memory && dice.below(3) == 0;
        let clock = &self.machines[node].clock;
        let from_us = now_us();
        if restarts {
            self.order(Order::Kill(node));
        }
        clock.set_ahead_ms(dice.pick(&MISSET_MS));
        tokio::time::sleep(Duration::from_millis(dice.below(1_500))).await;
        if restarts && dice.below(3) > 0 {
            self.order(Order::Start(node));
        }
        tokio::time::sleep(Duration::from_millis(500 + dice.below(4_000))).await;
        clock.set_ahead_ms(0);
        if restarts {
            self.order(Order::Start(node));
        }
        lock(history).wrong_clocks.push((from_us, now_us()));
        tokio::time::sleep(Duration::from_millis(1_500 + dice.below(2_000))).await;
    }
}
