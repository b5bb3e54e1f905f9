//! Watches the disks of a node and detects when they hang or stay full. The node has one disk with the journal and one
//! with the consensus log, which may be the same disk.
//!
//! A disk counts as hanging when a single write or sync takes longer than a limit. The limit is [`PERIODS`] times the
//! time after which a silent node counts as unreachable, but at least [`PATIENCE_MIN`]. After that, the disk must work
//! for a while before it is trusted again: for twice the limit's duration, no write or sync may exceed the limit.
//!
//! A full disk is handled in a similar way, because space often becomes free again soon. If the disk has free space
//! again within the limit, nothing happens. If the shortage lasts longer than the limit, the disk counts as permanently
//! full.

use std::sync::Arc;
use std::time::Duration;

use firstseen_journal::{LOOKS, Looks};

use super::JournalWriter;

/// Maximum duration of a write or sync, as a multiple of the time after which a node counts as unreachable
/// (`unreachable_after_ms`).
const PERIODS: u32 = 3;

/// Minimum time that a write or sync may take. Disks pause for longer than networks do.
const PATIENCE_MIN: Duration = Duration::from_secs(3);

/// State of the journal's disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DiskState {
    /// The disk accepts records.
    #[default]
    Works,
    /// The disk has been full for a while.
    StaysFull,
    /// A write or sync does not end.
    Hangs,
}

/// Returns the maximum time that a single write or sync may take before the disk counts as hanging. `unreachable_after`
/// is the time after which this node counts other nodes as unreachable.
pub(crate) fn patience(unreachable_after: Duration) -> Duration {
    (unreachable_after * PERIODS).max(PATIENCE_MIN)
}

/// Watches the disk of the journal writer `keeper`. A write or sync counts as hanging if it takes longer than
/// `patience`.
pub(crate) async fn look_after(keeper: Arc<JournalWriter>, patience: Duration) {
    let mut looks = Looks::default();
    let mut full_looks = Looks::default();
    loop {
        tokio::time::sleep(patience / LOOKS).await;
        let hangs = looks.look(keeper.steps.in_progress());
        // A full disk is treated like an operation that does not end.
        let has_room = !keeper.is_full() && keeper.disk.may_grow();
        let is_full = full_looks.look((!has_room).then_some(0));
        let state = match (hangs, is_full) {
            (true, _) => DiskState::Hangs,
            (false, true) => DiskState::StaysFull,
            (false, false) => DiskState::Works,
        };
        if keeper.disk_state() != state {
            log_state(state, patience);
            keeper.disk_state.send(state);
        }
    }
}

fn log_state(state: DiskState, patience: Duration) {
    match state {
        DiskState::Hangs => tracing::error!(
            ?patience,
            "the disk of the journal hangs: a write or sync does not end. The node stops serving the slices with a \
             journal, and the other nodes continue without it"
        ),
        DiskState::StaysFull => tracing::error!(
            ?patience,
            "the disk of the journal stays full: the other nodes continue without the copies here of which they have \
             complete copies"
        ),
        DiskState::Works => {
            tracing::warn!("the disk of the journal works again: the node fetches the data that it has missed")
        }
    }
}
