//! Maintains the disk space that is reserved for the database. The reserved space is released when the disk is full.
//! This task checks periodically whether there is enough free space again, and then reserves the space again.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::database::Database;

/// Pause between two attempts to reserve space.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Reserves space next to `database` whenever there is enough, until `stop` is cancelled.
pub(crate) async fn maintain_reserve(database: Database, stop: CancellationToken) {
    let mut short = database.watch_nearly_full();
    loop {
        let is_kept = database.keep_reserve().await;
        let is_nearly_full = *short.borrow_and_update();
        let change = async {
            if is_kept && !is_nearly_full {
                _ = short.wait_for(|is_nearly_full| *is_nearly_full).await;
            } else {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = change => {}
        }
    }
}
