//! Looks after the disks of a node: that of its journal, and that of what the cluster agrees on.
//!
//! Promises: a disk hangs from the moment at which one write or sync is under way for [`PERIODS`] times as long as a node may
//! be out of reach, and answers again when none has been for twice as long. Must not know: what is written, what follows.

use std::sync::Arc;
use std::time::Duration;

use firstseen_journal::{LOOKS, Looks};

use super::Keeper;

/// One write or sync may take so many times as long as a node may be out of reach (`unreachable_after_ms`).
const PERIODS: u32 = 3;

/// A disk has so long at least: disks pause for longer than networks do.
const PATIENCE_MIN: Duration = Duration::from_secs(3);

/// How long a disk may take for one write or sync, in a node that calls others unreachable after `unreachable_after`.
pub(crate) fn patience(unreachable_after: Duration) -> Duration {
    (unreachable_after * PERIODS).max(PATIENCE_MIN)
}

/// Looks after the disk of `keeper`, which may take that long.
pub(crate) async fn look_after(keeper: Arc<Keeper>, patience: Duration) {
    let mut looks = Looks::default();
    loop {
        tokio::time::sleep(patience / LOOKS).await;
        let hangs = looks.look(keeper.steps.under_way());
        if keeper.hangs() != hangs {
            tell(hangs, patience);
            keeper.hangs.send(hangs);
        }
    }
}

fn tell(hangs: bool, patience: Duration) {
    if hangs {
        tracing::error!(
            ?patience,
            "the disk of the journal hangs: a write or sync does not end. What the node keeps there is given up, and the \
             others go on without it"
        )
    } else {
        tracing::warn!("the disk of the journal answers again: the node counts as started anew")
    }
}
