//! Proposes to the agreement the changes that groups want.
//!
//! Promises: a node proposes only once the map shows its start; a proposal that is lost is made again by its group.
//! Must not know: why a group wants a change.

use std::sync::Arc;

use firstseen_meta::{Change, Command, Meta, MetaError};
use firstseen_routing::Proposal;
use tokio::sync::mpsc;

use crate::ids::Ids;
use crate::view::{Me, Views};

/// Proposes changes of which the node knows by itself.
#[derive(Clone)]
pub(crate) struct Proposer {
    pub(crate) meta: Meta,
    pub(crate) ids: Arc<Ids>,
}

impl Proposer {
    /// Proposes a change; returns when it is agreed on.
    pub(super) async fn propose(&self, change: Change) -> Result<(), MetaError> {
        self.meta.propose(Command::new(self.ids.next(), change)).await.map(|_| ())
    }
}

/// Proposes to the agreement the changes that groups want.
pub(crate) async fn propose(proposer: Proposer, mut views: Views, mut proposals: mpsc::Receiver<Proposal>) {
    while let Some(proposal) = proposals.recv().await {
        // An owner acts on a view a little before it is published.
        if views.wait_for(|view| view.me.is_some()).await.is_err() {
            return;
        }
        let change = match proposal {
            Proposal::OpenGeneration { filter, group, number } => Change::OpenGeneration { filter, group, number },
            Proposal::SlicesComplete { filter, group, slices, epoch, incarnation } => {
                let Some(Me { identity, .. }) = views.borrow().me else { continue };
                Change::SlicesComplete { filter, group, slices, epoch, node: identity.node, incarnation }
            }
        };
        let what = change.name();
        // A group asks again while it needs it.
        if let Err(error) = proposer.propose(change).await {
            tracing::warn!(what, %error, "the map is not changed");
        }
    }
}
