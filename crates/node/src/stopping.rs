//! What a node that is told to stop does before it takes no more events: where it alone has what slices remember, and another
//! copy is about to have it, too, it goes on until that is so.
//!
//! Promises: nobody waits for a copy that cannot come; what is lost with the process, the log says. Must not know: how copies
//! are fetched.

use std::time::Duration;

use firstseen_routing::stopping::{Loss, Obstacle, losses, ranges};

use crate::shared::Shared;
use crate::view::View;

/// Filters that are named in the log.
const TOLD_MAX: usize = 64;

/// What would be lost with this process now.
fn lost_with(view: &View) -> Vec<Obstacle> {
    view.node().map_or_else(Vec::new, |node| losses(&view.map, node, |other| !view.unreachable.contains(&other)))
}

/// Waits until no other copy is about to have what only this node has, for at most `patience`.
pub(crate) async fn wait_for_copies(shared: &Shared, patience: Duration) {
    let mut views = shared.views.clone();
    let is_awaited = |found: &Obstacle| matches!(found, Obstacle::Loss { why: Loss::Fetching(_), .. });
    let nothing_awaited = |view: &std::sync::Arc<View>| !lost_with(view).iter().any(is_awaited);
    if nothing_awaited(&shared.view()) {
        return;
    }
    tracing::info!(?patience, "waiting until other nodes have fetched what only this one has; it still serves");
    if tokio::time::timeout(patience, views.wait_for(nothing_awaited)).await.is_err() {
        tracing::warn!(?patience, "the node stops before other nodes have fetched what only it has");
    }
}

/// Says what is lost with this process.
pub(crate) fn tell_losses(shared: &Shared) {
    let view = shared.view();
    let losses = lost_with(&view);
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
