//! Tells the cluster whom this node cannot reach, and whom it can again.
//!
//! Promises: what is told is of the starts that this node sees, and told again until the cluster has it. Must not know:
//! what follows from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use firstseen_meta::{Change, Command};
use firstseen_routing::{Incarnation, NodeId};

use crate::shared::Shared;
use crate::view::View;

/// A start of another node, seen by a start of this one.
type Seen = (NodeId, Incarnation, Incarnation);

/// Tells what changes.
pub(crate) async fn tell(shared: Arc<Shared>) {
    let mut views = shared.views.clone();
    // Whom the cluster knows to be doubted by this node.
    let mut told: BTreeMap<Seen, bool> = BTreeMap::new();
    loop {
        let view = views.borrow_and_update().clone();
        let seen = seen(&view);
        told.retain(|peer, _| seen.contains_key(peer));
        let news = seen.iter().find(|(peer, is_doubted)| told.get(*peer).copied().unwrap_or(false) != **is_doubted);
        let Some((peer, is_doubted)) = news else {
            match views.changed().await {
                Ok(()) => continue,
                Err(_) => return,
            }
        };
        if say(&shared, &view, *peer, !is_doubted).await {
            told.insert(*peer, *is_doubted);
        } else {
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Before the cluster is told again what it could not agree on.
pub(crate) const AGAIN: std::time::Duration = std::time::Duration::from_millis(100);

/// The other nodes that are not down, and whether they cannot be reached.
fn seen(view: &View) -> BTreeMap<Seen, bool> {
    let Some(me) = view.me else { return BTreeMap::new() };
    let others = view.links.keys().filter_map(|peer| Some((peer, view.map.nodes.get(peer)?)));
    let up = others.filter(|(_, record)| !record.is_down);
    up.map(|(peer, record)| ((*peer, record.incarnation, me.incarnation), view.unreachable.contains(peer))).collect()
}

/// Whether the cluster has it.
async fn say(shared: &Shared, view: &View, (peer, peer_incarnation, by_incarnation): Seen, is_reached: bool) -> bool {
    let Some(by) = view.node() else { return false };
    let change = Change::PeerReached { by, by_incarnation, peer, peer_incarnation, is_reached };
    match shared.meta.propose(Command { id: shared.ids.next(), change }).await {
        Ok(_) => true,
        Err(error) => {
            tracing::debug!(%peer, is_reached, %error, "the cluster does not know whom this node can reach");
            false
        }
    }
}
