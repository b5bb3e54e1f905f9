//! How a node stops. It may be the only node that has the cells of a slice. If another copy is fetching these cells, or
//! is on a node that is away for a moment, the stopping node serves on until that copy has them, and then takes no more
//! events.
//!
//! Promises: the node does not wait for long for a copy that does not come; the log says what is lost with the process.
//! Must not know: how copies are fetched.

use std::time::Duration;

use firstseen_routing::stopping::{Loss, Obstacle, losses, ranges};
use tokio::time::Instant;

use crate::view::{View, Views};

/// Filters that are named in the log.
const TOLD_MAX: usize = 64;

/// Quarters of the stop's time limit spent waiting for copies that are fetching. The rest is for events in flight.
const FETCHING_QUARTERS: u32 = 3;

/// Quarters of the limit spent waiting for unreachable nodes: a node that is restarting is back by then.
const AWAY_QUARTERS: u32 = 1;

/// The interval at which connections to other nodes are checked: a broken link does not change the view.
const LOOK: Duration = Duration::from_millis(20);

/// The slices that would be lost with this process now.
fn lost_with(view: &View) -> Vec<Obstacle> {
    view.node().map_or_else(Vec::new, |node| losses(&view.map, node, |other| view.reaches(other)))
}

/// Waits until no other copy is fetching cells that only this node has, for its part of `limit`.
pub(crate) async fn wait_for_copies(views: &Views, limit: Duration) {
    let begun = Instant::now();
    let mut has_logged = false;
    while let Some(patience) = patience(&lost_with(&views.newest()), limit) {
        if begun.elapsed() >= patience {
            tracing::warn!(?patience, "the node stops before other nodes have fetched what only it has");
            return;
        }
        if !std::mem::replace(&mut has_logged, true) {
            tracing::info!(?patience, "waiting until other nodes have fetched what only this one has; it still serves");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns how long the stop waits to avoid these losses, or `None` if no other copy can get the cells.
fn patience(losses: &[Obstacle], limit: Duration) -> Option<Duration> {
    let quarters = losses.iter().filter_map(|found| match found {
        Obstacle::Loss { why: Loss::Fetching(_), .. } => Some(FETCHING_QUARTERS),
        Obstacle::Loss { why: Loss::Away(_), .. } => Some(AWAY_QUARTERS),
        _ => None,
    });
    Some(limit * quarters.max()? / 4)
}

/// Logs what is lost with this process.
pub(crate) fn log_losses(view: &View) {
    let losses = lost_with(view);
    for loss in losses.iter().take(TOLD_MAX) {
        let Obstacle::Loss { filter, slices, why } = loss else { continue };
        let filter = view.map.filters.get(filter).map_or("", |record| &record.name);
        let why = match why {
            Loss::OnlyCopy => "no other node has copies of them",
            Loss::Fetching(_) => "the other copies have not fetched all of it",
            Loss::Away(_) => "the nodes of the other copies are down, or out of reach",
            Loss::Incomplete => "no copy had everything",
        };
        tracing::warn!(filter, slices = ranges(slices), why, "what these slices remember is lost with this process");
    }
    if losses.len() > TOLD_MAX {
        tracing::warn!(filters = losses.len() - TOLD_MAX, "so it is with further filters");
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
