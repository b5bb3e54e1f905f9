//! Tells the cluster which groups of slices this node should hold and cannot: the others go on without them.
//!
//! Promises: what is told is of this start of the node, and told again until the map says so. Must not know: why they cannot
//! be held.

use std::sync::Arc;

use firstseen_meta::{Change, Command};
use firstseen_routing::FilterId;

use crate::doubt::AGAIN;
use crate::shared::Shared;
use crate::view::{Me, View};

/// Tells what changes.
pub(crate) async fn tell(shared: Arc<Shared>) {
    let mut views = shared.views.clone();
    loop {
        let view = views.borrow_and_update().clone();
        let Some((me, (filter, group))) = view.me.zip(untold(&view)) else {
            match views.changed().await {
                Ok(()) => continue,
                Err(_) => return,
            }
        };
        let Me { identity, incarnation } = me;
        let change = Change::SlicesMissing { filter, group, node: identity.node, incarnation };
        match shared.meta.propose(Command { id: shared.ids.next(), change }).await {
            Ok(_) => drop(views.changed().await),
            Err(error) => {
                tracing::debug!(%filter, group, %error, "the cluster does not know that slices are missing here");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// A group that cannot be held here, though the map does not say so.
fn untold(view: &View) -> Option<(FilterId, u32)> {
    let node = view.node()?;
    let is_untold = |(filter, group): &(FilterId, u32)| {
        let record = view.map.filters.get(filter);
        record.is_some_and(|record| record.is_on(node) && !view.map.is_gone_from(record, *group, node))
    };
    view.faults.iter().map(|fault| (fault.filter, fault.group)).find(is_untold)
}
