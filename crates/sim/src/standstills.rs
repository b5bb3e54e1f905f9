//! Machines that are suspended together with all of their clocks and then continue as if no time had passed, as a
//! paused virtual machine does. The seed determines when this happens to which machine. All clocks are right again at
//! the end of the run.

use std::time::Duration;

use firstseen_checker::history::Outage;
use firstseen_routing::{ClockSource, Durability};

use crate::clock::now_us;
use crate::cluster::node_name;
use crate::fault_injector::FaultInjector;
use crate::principals::producer_name;
use crate::scenario::{Nemesis, Scenario};
use crate::seeded_rng::SeededRng;
use crate::shared_history::{SharedHistory, lock};

/// Seed of the random numbers of this family, which are independent of the other random numbers of a run.
const OF_STANDSTILLS: u64 = 0x57_1115 << 32;
/// Number of calls of a producer.
const CALLS: u32 = 400;
/// Maximum pause in milliseconds between two calls of a producer.
const PAUSE_MAX_MS: u64 = 100;
/// Range of the duration of a suspension, in milliseconds. The other nodes continue without the node after about two
/// seconds.
const STILL_MS: std::ops::Range<u64> = 800..6_000;
/// Maximum time in milliseconds after the machine continues until its time of day is set right.
const BEHIND_MS_MAX: u64 = 4_000;

/// Returns the scenario of `seed` in which machines are suspended. Its slicing, its clock and its durability differ
/// from those that [`Scenario::wrong_clocks`] returns for the same seed.
pub(crate) fn scenario(seed: u64) -> Scenario {
    let mut rng = SeededRng::new(seed ^ OF_STANDSTILLS);
    Scenario {
        nemesis: Nemesis::Standstill,
        clock: rng.pick(&[ClockSource::Wall, ClockSource::Wall, ClockSource::Event]),
        slicing: rng.pick(&["none", "horizontal:5", "vertical:3", "vertical:7", "horizontal-vertical:2x4"]),
        kind: rng.pick(&["timing", "generations"]),
        window_ms: rng.pick(&[3_600_000, 8_000]),
        durability: rng.pick(&[Durability::Durable, Durability::Memory]),
        copies: rng.pick(&[0, 0, 1]),
        calls: CALLS,
        pause_max_ms: PAUSE_MAX_MS,
        ..Scenario::wrong_clocks(seed)
    }
}

impl FaultInjector {
    /// Suspends a machine until the other nodes may have continued without it. Its time of day is set right some time
    /// after it continues.
    pub(crate) async fn suspend_machine(&self, node: usize, rng: &mut SeededRng, history: &SharedHistory) {
        let clock = &self.machines[node].clock;
        let others = (0..self.scenario.nodes).filter(|other| *other != node).map(node_name);
        let others: Vec<String> = others.chain((0..self.scenario.producers).map(producer_name)).collect();
        let from_us = now_us();
        clock.stop();
        others.iter().for_each(|other| turmoil::hold(node_name(node), other.as_str()));
        tokio::time::sleep(Duration::from_millis(STILL_MS.start + rng.below(STILL_MS.end - STILL_MS.start))).await;
        clock.go_on_behind();
        others.iter().for_each(|other| turmoil::release(node_name(node), other.as_str()));
        lock(history).periods.standstills.push((from_us, now_us()));
        lock(history).outages.push(Outage { site: node, from_us, until_us: now_us(), is_silent: true });
        tokio::time::sleep(Duration::from_millis(rng.below(BEHIND_MS_MAX))).await;
        clock.catch_up();
        lock(history).periods.wrong_clocks.push((from_us, now_us()));
        tokio::time::sleep(Duration::from_millis(1_500 + rng.below(2_000))).await;
    }
}
