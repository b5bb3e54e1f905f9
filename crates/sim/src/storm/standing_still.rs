//! Faults in which a machine is suspended together with all of its clocks. They happen in addition to all other faults
//! of a storm, and the cluster must give the same guarantees. When the storm has ended, every clock is right.

use super::pause;
use crate::clock::now_us;
use crate::fault_injector::FaultInjector;
use crate::faults::{Fault, Fired};
use crate::seeded_rng::SeededRng;
use crate::shared_history::SharedHistory;

/// Seed of the random numbers for suspensions. They are independent of those for machines, so that storms without
/// suspensions stay unchanged.
const DICE_OF_STANDSTILLS: u64 = 0x57_1116 << 32;
/// One in this many storms has suspensions.
const STORMS_WITH: u64 = 11;

/// Suspends one machine after the other until `until_us`.
pub(super) async fn on_standstills(torment: &FaultInjector, fired: &Fired, history: &SharedHistory, until_us: u64) {
    let scenario = &torment.scenario;
    let mut rng = SeededRng::new(scenario.seed ^ DICE_OF_STANDSTILLS);
    let has_standstills = scenario.seed % STORMS_WITH == STORMS_WITH - 1;
    while has_standstills && now_us() < until_us {
        pause(500, 4_000, &mut rng).await;
        let node = rng.below(scenario.nodes as u64) as usize;
        if torment.machines[node].clock.is_stopped() {
            // Another fault has stopped the clock for a moment.
            continue;
        }
        torment.suspend_machine(node, &mut rng, history).await;
        fired.note(Fault::Standstill, Some(node));
    }
}
