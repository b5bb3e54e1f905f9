//! Metrics of what the node takes of its machine: memory and disk, against what it may take.
//!
//! Promises: figures of a disk are absent where nobody can tell them, and where the disk hangs: no scrape waits for it. Must not
//! know: where the folder of data is.

use std::sync::atomic::AtomicU64;

use firstseen_journal::DiskRoom;
use firstseen_meta::used_bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};

use super::show_bytes;
use crate::health::Health;
use crate::owner::GroupLook;

/// Shows memory, disk, and what the cluster's agreement costs.
pub(super) fn show(registry: &mut Registry, health: &Health, memory_max_bytes: u64, looks: &[GroupLook]) {
    let view = health.views.newest();
    let used = looks.iter().map(used_bytes_of).sum();
    let reserved = view.node().and_then(|node| used_bytes(&view.map).get(&node).copied()).unwrap_or(0);
    let mut bytes = vec![
        ("memory_limit", "Memory that slices may take here by the node's configuration", memory_max_bytes),
        ("memory_reserved", "Memory that the slices which the map has here take at most", reserved),
        ("memory_used", "Memory of cells, of what is remembered for retries, and of claims", used),
    ];
    let hangs = health.keeper.hangs() || *health.meta.disk_hangs().borrow();
    if let Some(DiskRoom { free_bytes, total_bytes }) = if hangs { None } else { health.keeper.disk_room() } {
        bytes.push(("data_disk_free", "Room that is left on the disk of the data folder", free_bytes));
        bytes.push(("data_disk_size", "Room of the disk of the data folder, used or not", total_bytes));
    }
    for (name, help, value) in bytes {
        show_bytes(registry, name, help, value);
    }
    let help = "How long each write and sync of waiting records took the disk of the journal";
    registry.register_with_unit("journal_sync", help, Unit::Seconds, health.keeper.sync_seconds());
    let elections = Counter::<u64, AtomicU64>::default();
    elections.inc_by(health.meta.status().term);
    let help = "Elections in the cluster's agreement since it was founded: each change of its leader begins with one";
    registry.register("raft_elections", help, elections);
}

/// Memory of a group: its cells, what is remembered for retries, and its claims.
fn used_bytes_of(look: &GroupLook) -> u64 {
    let cells: u64 = look.state.slices.iter().map(|slice| slice.bytes).sum();
    let claims = look.state.claims.map_or(0, |claims| claims.bytes);
    cells + look.state.guard_bytes + claims
}
