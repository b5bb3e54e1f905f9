//! Metrics of the memory and the disk space that a node uses, and of the limits for both. A scrape never waits for a
//! disk. If a disk hangs, or if its values are not known yet, the metrics of this disk are omitted from the scrape.

use std::sync::atomic::AtomicU64;

use firstseen_journal::DiskRoom;
use firstseen_meta::used_bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};

use super::show_bytes;
use crate::health::Health;
use crate::owner::GroupLook;

/// Adds memory, disk space, and the number of elections.
pub(super) fn show(registry: &mut Registry, health: &Health, memory_max_bytes: u64, looks: &[GroupLook]) {
    let view = health.views.newest();
    let used = looks.iter().map(used_bytes_of).sum();
    let reserved = view.node().and_then(|node| used_bytes(&view.map).get(&node).copied()).unwrap_or(0);
    let mut bytes = vec![
        ("memory_limit", "Configured memory limit of the slices on this node", memory_max_bytes),
        ("memory_reserved", "Maximum memory of the slices that the cluster map assigns to this node", reserved),
        ("memory_used", "Memory of cells, replay guards and claims", used),
    ];
    let hangs = health.keeper.hangs() || *health.meta.disk_hangs().borrow();
    if let Some(DiskRoom { free_bytes, total_bytes }) = if hangs { None } else { health.keeper.disk_room() } {
        bytes.push(("data_disk_free", "Free space on the disk of the data folder", free_bytes));
        bytes.push(("data_disk_size", "Size of the disk of the data folder", total_bytes));
    }
    for (name, help, value) in bytes {
        show_bytes(registry, name, help, value);
    }
    let help = "Time that each write and sync of waiting records took on the disk of the journal";
    registry.register_with_unit("journal_sync", help, Unit::Seconds, health.keeper.sync_seconds());
    let elections = Counter::<u64, AtomicU64>::default();
    elections.inc_by(health.meta.status().term);
    let help =
        "Elections in the consensus group since the cluster was founded; each change of the leader begins with one";
    registry.register("raft_elections", help, elections);
}

/// Returns the memory of a slice group in bytes: its cells, its replay guard, and its claims.
fn used_bytes_of(look: &GroupLook) -> u64 {
    let cells: u64 = look.state.slices.iter().map(|slice| slice.bytes).sum();
    let claims = look.state.claims.map_or(0, |claims| claims.bytes);
    cells + look.state.guard_bytes + claims
}
