//! The faults of disks in a storm. The guarantees are those of the storm.

use std::time::Duration;

use firstseen_journal::{Disk, MemoryDisk};
use firstseen_routing::{Incarnation, SliceOwner};

use super::{LOOK, Storm, pause};
use crate::clock::now_us;
use crate::cluster;
use crate::fault_injector::{Order, dice_of_reserves};
use crate::faults::Fault;
use crate::map_checks::{index_of, start_of};
use crate::seeded_rng::SeededRng;

/// Time within which a node that reads damage in its journal reports it.
const FINDS_DAMAGE: Duration = Duration::from_secs(3);
/// Maximum time that a fault waits for a write or a sync. After that, the fault does not happen.
const WRITTEN_MAX: Duration = Duration::from_secs(2);
/// Upper bounds in milliseconds, one of which is chosen for each hang of a disk. A hang takes one second plus a random
/// time below the chosen bound. Three of the four bounds are small, so most hangs are so short that the node keeps its
/// slices.
const HANGS_MS_BELOW: [u64; 4] = [3_000, 6_000, 6_000, 59_000];
/// Duration of a hang in milliseconds after which another fault happens as well.
const HANGS_ALONE_MS_MAX: u64 = 4_000;
/// Upper bound of the number of writes of a commit to the consensus log, approximately.
const WRITES_BELOW: u64 = 24;

impl Storm<'_> {
    pub(super) async fn fill_disk(&self, node: usize, rng: &mut SeededRng) {
        let disk = &self.torment.machines[node];
        if disk.is_full() {
            return;
        }
        let takes_reserve = dice_of_reserves(self.scenario()).below(2) == 0;
        disk.fill(rng.below(2_000), takes_reserve);
        self.fired.note(if takes_reserve { Fault::ReserveTaken } else { Fault::DiskFull }, Some(node));
        pause(100, 2_000, rng).await;
        if rng.below(2) == 0 {
            self.end(&[Order::CutPower(node, rng.below(u64::MAX))], Fault::PowerCut, rng).await;
        }
        disk.make_room();
    }

    /// Causes the next sync of the node's journal to hang, and returns the simulated time in microseconds at which the
    /// hang ends.
    ///
    /// Before it returns, the function waits for a random part of the hang, in which no other fault of a machine
    /// happens. The returned time may therefore already have passed.
    pub(super) async fn hang_disk(&self, node: usize, rng: &mut SeededRng) -> u64 {
        let most_ms = rng.pick(&HANGS_MS_BELOW);
        let hang_ms = 1_000 + rng.below(most_ms);
        let alone_ms = rng.below(hang_ms.min(HANGS_ALONE_MS_MAX));
        let disk = &self.torment.machines[node].journal;
        if disk.is_to_hang() {
            return 0;
        }
        disk.hang_next(Some(Duration::from_millis(hang_ms)));
        if !wait_until(|| !disk.is_to_hang()).await {
            // There was no write to hang.
            disk.hang_next(None);
            return 0;
        }
        let until_us = now_us() + hang_ms * 1_000;
        self.fired.note(Fault::DiskHang, Some(node));
        tokio::time::sleep(Duration::from_millis(alone_ms)).await;
        until_us
    }

    /// Cuts a node's power in the middle of a write to the consensus log.
    pub(super) async fn tear_agreement(&self, node: usize, rng: &mut SeededRng) {
        let disk = &self.torment.machines[node].agreement;
        disk.lose_power_after(Some(rng.below(WRITES_BELOW)));
        // The simulation ends the host as soon as its power has failed.
        if !wait_until(|| !disk.is_to_lose_power()).await {
            disk.lose_power_after(None);
            return;
        }
        self.note_loss(node);
        pause(50, 2_000, rng).await;
        self.torment.order(Order::Start(node));
    }

    /// Changes bits while the node is down, and repairs the journal if the node finds damage.
    pub(super) async fn rot(&self, node: usize, rng: &mut SeededRng) -> turmoil::Result {
        let machine = &self.torment.machines[node];
        if machine.is_full() {
            // If a node lacks events because it has no room, that is no sign of damage.
            return Ok(());
        }
        let before = start_of(&cluster::map_now(self.connector, self.nodes()).await?, node);
        self.torment.order(Order::Kill(node));
        pause(50, 500, rng).await;
        machine.expect_damage(true);
        let agreed_on = machine.agreement.copy();
        let mut others = dice_of_reserves(self.scenario());
        if others.below(2) == 0 && flip(&machine.agreement, &mut others) {
            self.fired.note(Fault::AgreementRot, Some(node));
        }
        let flips = 1 + rng.below(4);
        if (0..flips).filter(|_| flip(&machine.journal, rng)).count() > 0 {
            self.fired.note(Fault::BitRot, Some(node));
        }
        self.torment.order(Order::Start(node));
        // Bits that are never read change nothing.
        let is_well = self.is_well(node, before).await?;
        if !is_well || machine.has_refused() {
            self.torment.order(Order::Kill(node));
            tokio::time::sleep(LOOK).await;
            let repaired = MemoryDisk::default();
            firstseen_node::salvage_journal(&machine.journal, std::sync::Arc::new(repaired.clone()))?;
            machine.journal.copy_from(&repaired);
            if machine.has_refused() {
                // Only the disk can repair that, as if from a mirror. A node that has started has written since.
                machine.agreement.copy_from(&agreed_on);
            }
            self.lose(node);
            self.torment.order(Order::Start(node));
        }
        machine.expect_damage(false);
        Ok(())
    }

    /// Returns whether a node that has started since has everything that it had. It reports soon if it cannot read its
    /// journal.
    async fn is_well(&self, node: usize, before: Option<Incarnation>) -> turmoil::Result<bool> {
        let end = tokio::time::Instant::now() + FINDS_DAMAGE;
        while tokio::time::Instant::now() < end {
            tokio::time::sleep(LOOK).await;
            let map = cluster::map_now(self.connector, self.nodes()).await?;
            let copies = cluster::line(&map).flat_map(|(_, record)| record.all_copies());
            let own = copies.filter(|(_, copy)| index_of(&map, copy.node) == Some(node));
            let own: Vec<SliceOwner> = own.map(|(_, copy)| *copy).collect();
            if own.iter().any(|copy| copy.missing_in.is_some()) {
                return Ok(false);
            }
            // A journal that was not read may still be damaged.
            if start_of(&map, node) != before && !own.is_empty() && own.iter().all(|copy| map.is_complete_copy(copy)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Changes a bit somewhere in the written bytes. Returns whether there are any bytes.
fn flip(disk: &MemoryDisk, rng: &mut SeededRng) -> bool {
    let Ok(names) = disk.names() else { return false };
    if names.is_empty() {
        return false;
    }
    let chosen = rng.pick(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut before_bytes = 0;
    for name in &names {
        if name == chosen {
            let bytes = disk.read(name, u64::MAX).unwrap_or_default();
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
            disk.flip(8 * before_bytes + rng.below(8 * used.max(1)));
            return used > 0;
        }
        before_bytes += disk.len_bytes(name).unwrap_or(0);
    }
    false
}

/// Waits a short time until `is_so` returns `true`. Returns whether it did.
pub(super) async fn wait_until(is_so: impl Fn() -> bool) -> bool {
    let end_us = now_us() + WRITTEN_MAX.as_micros() as u64;
    while now_us() < end_us && !is_so() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    is_so()
}
