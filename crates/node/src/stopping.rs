//! Delays the shutdown of a node that may be the only node with the cells of some slices. If the node stopped at once,
//! these cells would be lost. There are two reasons to wait:
//!
//! - Another node is fetching the cells. The stopping node continues to serve until that node has received them.
//! - Another node has a copy of the slices but is unreachable. It may only be restarting, so the stopping node waits
//!   for a shorter time.
//!
//! After these waits, the stopping node accepts no more events. It writes to the log which data will be lost.

use std::time::Duration;

use firstseen_routing::stopping::{Loss, Obstacle, losses, ranges};
use tokio::time::Instant;

use crate::view::{View, Views};

/// Maximum number of filters that the log names.
const LOGGED_FILTERS_MAX: usize = 64;

/// Maximum time that the stopping node waits while other nodes fetch its cells, in quarters of the time that is allowed
/// for the shutdown. The remaining quarter is reserved for completing the events in flight.
const FETCHING_QUARTERS: u32 = 3;

/// Maximum time that the stopping node waits for unreachable nodes that have copies of its slices, in quarters of the
/// time that is allowed for the shutdown. If such a node is only restarting, it usually becomes reachable within this
/// time.
const AWAY_QUARTERS: u32 = 1;

/// Interval at which connections to other nodes are checked. The check is periodic because a broken link does not
/// change the view.
const LOOK: Duration = Duration::from_millis(20);

/// Returns the slices whose data would be lost if this process ended now.
fn lost_with(view: &View) -> Vec<Obstacle> {
    view.node().map_or_else(Vec::new, |node| losses(&view.map, node, |other| view.reaches(other)))
}

/// Waits until no other copy is fetching cells that only this node has. The wait takes at most its part of `limit`.
pub(crate) async fn wait_for_copies(views: &Views, limit: Duration) {
    let begun = Instant::now();
    let mut has_logged = false;
    while let Some(patience) = patience(&lost_with(&views.newest()), limit) {
        if begun.elapsed() >= patience {
            tracing::warn!(?patience, "the node stops before other nodes have fetched the cells that only it has");
            return;
        }
        if !std::mem::replace(&mut has_logged, true) {
            tracing::info!(
                ?patience,
                "waiting until other nodes have fetched the cells that only this node has; it still serves"
            );
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns how long the shutdown waits to avoid these losses. Returns `None` if no other copy can get the cells.
fn patience(losses: &[Obstacle], limit: Duration) -> Option<Duration> {
    let quarters = losses.iter().filter_map(|found| match found {
        Obstacle::Loss { why: Loss::Fetching(_), .. } => Some(FETCHING_QUARTERS),
        Obstacle::Loss { why: Loss::Away(_), .. } => Some(AWAY_QUARTERS),
        _ => None,
    });
    Some(limit * quarters.max()? / 4)
}

/// Logs which data is lost with this process.
pub(crate) fn log_losses(view: &View) {
    let losses = lost_with(view);
    for loss in losses.iter().take(LOGGED_FILTERS_MAX) {
        let Obstacle::Loss { filter, slices, why } = loss else { continue };
        let filter = view.map.filters.get(filter).map_or("", |record| &record.name);
        let why = match why {
            Loss::OnlyCopy => "no other node has copies of them",
            Loss::Fetching(_) => "the other copies have not fetched all cells",
            Loss::Away(_) => "the nodes of the other copies are down, or out of reach",
            Loss::Incomplete => "no copy was complete",
        };
        tracing::warn!(filter, slices = ranges(slices), why, "the content of these slices is lost with this process");
    }
    if losses.len() > LOGGED_FILTERS_MAX {
        tracing::warn!(filters = losses.len() - LOGGED_FILTERS_MAX, "the cells of further filters are lost too");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use firstseen_routing::{FilterId, NodeId};

    use super::*;

    #[test]
    fn a_copy_that_fetches_is_waited_for_longer_than_one_that_is_away_and_no_other_at_all() {
        let limit = Duration::from_secs(8);
        let others = || BTreeSet::from([NodeId(2)]);
        let loss = |why| Obstacle::Loss { filter: FilterId(1), slices: vec![0], why };
        let of = |losses: &[Obstacle]| patience(losses, limit).map(|patience| patience.as_secs());
        assert_eq!(of(&[loss(Loss::OnlyCopy), loss(Loss::Incomplete)]), None);
        assert_eq!(of(&[loss(Loss::OnlyCopy), loss(Loss::Away(others()))]), Some(2));
        assert_eq!(of(&[loss(Loss::Away(others())), loss(Loss::Fetching(others()))]), Some(6));
    }
}
