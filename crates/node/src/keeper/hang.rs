//! Watches the disks of a node: that of its journal, and that of its part of the agreement.
//!
//! Promises: a disk hangs once one write or sync has been under way for [`PERIODS`] times as long as a node may be out
//! of reach, and answers again once none has been for twice as long; a disk stays full, and has room again, after the
//! same times. Must not know: what is written, what follows from a hang.

use std::sync::Arc;
use std::time::Duration;

use firstseen_journal::{LOOKS, Looks};

use super::Keeper;

/// One write or sync may take so many times the time for which a node may be out of reach (`unreachable_after_ms`).
const PERIODS: u32 = 3;

/// A write or sync may take at least so long: disks pause for longer than networks do.
const PATIENCE_MIN: Duration = Duration::from_secs(3);

/// The state of a journal's disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DiskState {
    /// It takes records.
    #[default]
    Works,
    /// It has had no room for a while.
    StaysFull,
    /// A write or sync does not end.
    Hangs,
}

/// How long a disk may take for one write or sync, in a node that calls others unreachable after `unreachable_after`.
pub(crate) fn patience(unreachable_after: Duration) -> Duration {
    (unreachable_after * PERIODS).max(PATIENCE_MIN)
}

/// Watches the disk of `keeper`, whose writes may take as long as `patience`.
pub(crate) async fn look_after(keeper: Arc<Keeper>, patience: Duration) {
    let mut looks = Looks::default();
    let mut full_looks = Looks::default();
    loop {
        tokio::time::sleep(patience / LOOKS).await;
        let hangs = looks.look(keeper.steps.under_way());
        // A full disk counts as one piece of work that does not end.
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
            "the disk of the journal hangs: a write or sync does not end. What the node keeps there is given up, and the \
             others go on without it"
        ),
        DiskState::StaysFull => tracing::error!(
            ?patience,
            "the disk of the journal stays full: where other copies have everything, the others go on without those here"
        ),
        DiskState::Works => {
            tracing::warn!("the disk of the journal works again: what was given up there is fetched anew")
        }
    }
}
