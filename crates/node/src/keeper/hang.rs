//! Looks after the disks of a node: that of its journal, and that of what the cluster agrees on.
//!
//! Promises: a disk hangs from the moment at which one write or sync is under way for [`PERIODS`] times as long as a node may
//! be out of reach, and answers again when none has been for twice as long; it stays full, and has room again, after the same
//! times. Must not know: what is written, what follows.

use std::sync::Arc;
use std::time::Duration;

use firstseen_journal::{LOOKS, Looks};

use super::Keeper;

/// One write or sync may take so many times as long as a node may be out of reach (`unreachable_after_ms`).
const PERIODS: u32 = 3;

/// A disk has so long at least: disks pause for longer than networks do.
const PATIENCE_MIN: Duration = Duration::from_secs(3);

/// What the disk of a journal does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DiskState {
    /// It takes what it is given.
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

/// Looks after the disk of `keeper`, which may take that long.
pub(crate) async fn look_after(keeper: Arc<Keeper>, patience: Duration) {
    let (mut looks, mut full_looks) = (Looks::default(), Looks::default());
    loop {
        tokio::time::sleep(patience / LOOKS).await;
        let hangs = looks.look(keeper.steps.under_way());
        // Being full is one piece of work that does not end.
        let has_room = !keeper.is_full() && keeper.disk.may_grow();
        let is_full = full_looks.look((!has_room).then_some(0));
        let state = match (hangs, is_full) {
            (true, _) => DiskState::Hangs,
            (false, true) => DiskState::StaysFull,
            (false, false) => DiskState::Works,
        };
        if keeper.disk_state() != state {
            tell(state, patience);
            keeper.disk_state.send(state);
        }
    }
}

fn tell(state: DiskState, patience: Duration) {
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
