//! Maintains the disk space that is reserved for the database. The reserved space is released when the disk is full.
//! This task checks periodically whether there is enough free space again, and then reserves the space again.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::database::Database;

/// Pause between two attempts to reserve space.
const AGAIN: Duration = Duration::from_secs(1);

/// Reserves space next to `database` whenever there is enough, until `stop` is cancelled.
pub(crate) async fn tend(database: Database, stop: CancellationToken) {
    let mut short = database.watch_short();
    loop {
        let is_kept = database.keep_reserve().await;
        let is_short = *short.borrow_and_update();
        let change = async {
            if is_kept && !is_short {
                _ = short.wait_for(|is_short| *is_short).await;
            } else {
                tokio::time::sleep(AGAIN).await;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = change => {}
        }
    }
}
