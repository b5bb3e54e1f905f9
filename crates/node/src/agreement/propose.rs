//! Proposes to the agreement the changes that groups want.
//!
//! Promises: a node proposes only once the map shows its start; a proposal that is lost is made again by its group.
//! Must not know: why a group wants a change.

use std::sync::Arc;

use firstseen_meta::{Change, Command};
use firstseen_routing::Proposal;
use tokio::sync::mpsc;

use crate::shared::Shared;
use crate::view::Me;

/// Proposes to the agreement the changes that groups want.
pub(crate) async fn propose(shared: Arc<Shared>, mut proposals: mpsc::Receiver<Proposal>) {
    let mut views = shared.views.clone();
    while let Some(proposal) = proposals.recv().await {
        // An owner acts on a view a little before it is published.
        if views.wait_for(|view| view.me.is_some()).await.is_err() {
            return;
        }
        let change = match proposal {
            Proposal::OpenGeneration { filter, group, number } => Change::OpenGeneration { filter, group, number },
            Proposal::SlicesComplete { filter, group, slices, epoch, incarnation } => {
                let Some(Me { identity, .. }) = shared.view().me else { continue };
                Change::SlicesComplete { filter, group, slices, epoch, node: identity.node, incarnation }
            }
        };
        let what = change.name();
        // A group asks again while it needs it.
        if let Err(error) = shared.meta.propose(Command { id: shared.ids.next(), change }).await {
            tracing::warn!(what, %error, "the map is not changed");
        }
    }
}
