//! Machines that stand still with all their clocks and then go on as if no time had passed, like virtual machines that are paused.
//!
//! Promises: the faults follow from the seed, and no clock is wrong in the end. It must not depend on the verdicts of producers.

use std::time::Duration;

use firstseen_checker::history::Outage;
use firstseen_routing::{ClockSource, Durability};

use crate::clock::now_us;
use crate::cluster::node_name;
use crate::dice::Dice;
use crate::principals::producer_name;
use crate::scenario::{Nemesis, Scenario};
use crate::shared_history::{SharedHistory, lock};
use crate::torment::Torment;

/// The dice of this family, independent of the other dice of a seed.
const OF_STANDSTILLS: u64 = 0x57_1115 << 32;
/// Calls of a producer.
const CALLS: u32 = 400;
/// Most milliseconds between two calls of a producer.
const PAUSE_MAX_MS: u64 = 100;
/// The shortest and the longest standstill. The others go on without the node after about two seconds.
const STILL_MS: std::ops::Range<u64> = 800..6_000;
/// The time of day is set right at most this long after the machine has gone on.
const BEHIND_MS_MAX: u64 = 4_000;

/// The scenario of `seed` in which machines stand still; slicing, clock and durability differ from those of [`Scenario::wrong_clocks`].
pub(crate) fn scenario(seed: u64) -> Scenario {
    let mut dice = Dice::new(seed ^ OF_STANDSTILLS);
    Scenario {
        nemesis: Nemesis::Standstill,
        clock: dice.pick(&[ClockSource::Wall, ClockSource::Wall, ClockSource::Event]),
        slicing: dice.pick(&["none", "horizontal:5", "vertical:3", "vertical:7", "horizontal-vertical:2x4"]),
        kind: dice.pick(&["timing", "generations"]),
        window_ms: dice.pick(&[3_600_000, 8_000]),
        durability: dice.pick(&[Durability::Durable, Durability::Memory]),
        copies: dice.pick(&[0, 0, 1]),
        calls: CALLS,
        pause_max_ms: PAUSE_MAX_MS,
        ..Scenario::wrong_clocks(seed)
    }
}

impl Torment {
    /// Lets a machine stand still until the others may have gone on without it. Its time of day is set right some time after it has
    /// gone on.
    pub(crate) async fn stand_still(&self, node: usize, dice: &mut Dice, history: &SharedHistory) {
        let clock = &self.machines[node].clock;
        let others = (0..self.scenario.nodes).filter(|other| *other != node).map(node_name);
        let others: Vec<String> = others.chain((0..self.scenario.producers).map(producer_name)).collect();
        let from_us = now_us();
        clock.stop();
        others.iter().for_each(|other| turmoil::hold(node_name(node), other.as_str()));
        tokio::time::sleep(Duration::from_millis(STILL_MS.start + dice.below(STILL_MS.end - STILL_MS.start))).await;
        clock.go_on_behind();
        others.iter().for_each(|other| turmoil::release(node_name(node), other.as_str()));
        lock(history).standstills.push((from_us, now_us()));
        lock(history).outages.push(Outage { site: node, from_us, until_us: now_us(), is_silent: true });
        tokio::time::sleep(Duration::from_millis(dice.below(BEHIND_MS_MAX))).await;
        clock.catch_up();
        lock(history).wrong_clocks.push((from_us, now_us()));
        tokio::time::sleep(Duration::from_millis(1_500 + dice.below(2_000))).await;
    }
}
