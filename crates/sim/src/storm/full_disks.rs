//! Faults in which a disk stays full for so long that its node no longer waits for room. They happen in addition to all
//! other faults of a storm, and the cluster must give the same guarantees. When the storm has ended, every disk has
//! room again.

use std::time::Duration;

use super::disks::wait_until;
use super::{Storm, pause};
use crate::clock::now_us;
use crate::cluster::Machine;
use crate::fault_injector::Order;
use crate::faults::Fault;
use crate::seeded_rng::SeededRng;

/// Seeds of the random numbers for full disks. They are independent of those for machines, so that storms without such
/// disks stay unchanged.
const DICE_OF_FULL_DISKS: u64 = 0xF_0115 << 32;
const DICE_OF_QUORUMS: u64 = 0x40_04 << 32;
/// One in this many storms of durable filters has such disks.
const STORMS_WITH: u64 = 2;
/// Minimum time in milliseconds for which a disk stays full, about as long as a node waits, and upper bounds of the
/// additional time.
const FULL_MS_MIN: u64 = 3_000;
const FULL_MS_BELOW: [u64; 4] = [4_000, 8_000, 15_000, 57_000];
/// Upper bound in milliseconds of the additional time of a sync that hangs before, for at least one second.
const HANGS_MS_BELOW: u64 = 8_000;
/// While a disk is full, the quorum is lost in one of this many pauses between two faults of machines.
const QUORUMS_LOST: u64 = 6;

impl Storm<'_> {
    /// Fills one disk after the other until `until_us`, and the last one for up to a minute longer.
    pub(super) async fn on_full_disks(&self, until_us: u64) {
        let mut rng = SeededRng::new(self.scenario().seed ^ DICE_OF_FULL_DISKS);
        while self.has_disks_that_stay_full() && now_us() < until_us {
            pause(500, 4_000, &mut rng).await;
            let node = rng.below(self.nodes() as u64) as usize;
            let hang_ms = (rng.below(3) == 0).then(|| 1_000 + rng.below(HANGS_MS_BELOW));
            let most_ms = rng.pick(&FULL_MS_BELOW);
            let full_ms = FULL_MS_MIN + rng.below(most_ms);
            let room_bytes = rng.below(2_000);
            let takes_reserve = rng.below(4) == 0;
            let fault = match hang_ms {
                Some(hang_ms) if self.hangs(node, hang_ms).await => Fault::HangEndsFull,
                _ => Fault::DiskStaysFull,
            };
            let machine = &self.torment.machines[node];
            if machine.is_full() {
                // Another fault has filled the disk for a moment and will make room then.
                continue;
            }
            machine.fill(room_bytes, takes_reserve);
            self.fired.note(fault, Some(node));
            tokio::time::sleep(Duration::from_millis(hang_ms.unwrap_or_default() + full_ms)).await;
            machine.make_room();
        }
    }

    fn has_disks_that_stay_full(&self) -> bool {
        let scenario = self.scenario();
        scenario.allows(Fault::DiskStaysFull)
            && SeededRng::new(!scenario.seed ^ DICE_OF_FULL_DISKS).below(STORMS_WITH) == 0
    }

    /// Lets the next sync of the node hang. Returns whether a sync does.
    async fn hangs(&self, node: usize, hang_ms: u64) -> bool {
        let disk = &self.torment.machines[node].journal;
        if disk.is_to_hang() {
            return false;
        }
        disk.hang_next(Some(Duration::from_millis(hang_ms)));
        let has_begun = wait_until(|| !disk.is_to_hang()).await;
        if !has_begun {
            disk.hang_next(None);
        }
        has_begun
    }

    /// While the disk of a node is full, occasionally ends so many other nodes that no quorum is left.
    pub(super) async fn lose_quorum_beside_full_disk(&self) {
        let Some(full) = self.torment.machines.iter().position(Machine::is_full) else { return };
        let mut rng = SeededRng::new(self.scenario().seed ^ DICE_OF_QUORUMS ^ now_us());
        if !self.has_disks_that_stay_full() || rng.below(QUORUMS_LOST) > 0 {
            return;
        }
        let nodes = self.nodes();
        let first = rng.below(nodes as u64) as usize;
        let others = (first..first + nodes).map(|node| node % nodes).filter(|node| *node != full);
        let ends: Vec<Order> = others.take(nodes.div_ceil(2)).map(Order::Kill).collect();
        self.end(&ends, Fault::QuorumLoss, &mut rng).await;
    }
}
