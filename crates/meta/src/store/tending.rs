//! Keeping room back on the disk of a database that other programs write to as well.
//!
//! Promises: room that was given up is kept back again as soon as there is as much. Must not know: where the room is.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::database::Database;

/// Between two tries to keep room back.
const AGAIN: Duration = Duration::from_secs(1);

/// Keeps room back beside `database` whenever there is as much, until `stop`.
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
