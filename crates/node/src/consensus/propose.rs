//! Proposes changes of the cluster map to the consensus group on behalf of the slice groups of this node. For example,
//! a slice group proposes to open a new generation. The proposals wait until the cluster map contains the current
//! incarnation of this node. If a proposal is lost, the slice group notices that the change is missing and proposes it
//! again.

use std::sync::Arc;

use firstseen_meta::{Change, Command, Meta, MetaError};
use firstseen_routing::Proposal;
use tokio::sync::mpsc;

use crate::ids::Ids;
use crate::view::{Me, Views};

/// Proposes changes that this node initiates.
#[derive(Clone)]
pub(crate) struct Proposer {
    pub(crate) meta: Meta,
    pub(crate) ids: Arc<Ids>,
}

impl Proposer {
    /// Proposes a change, and returns when the cluster has agreed on it.
    pub(super) async fn propose(&self, change: Change) -> Result<(), MetaError> {
        self.meta.propose(Command::new(self.ids.next(), change)).await.map(|_| ())
    }
}

/// Proposes the changes that slice groups ask for.
pub(crate) async fn propose(proposer: Proposer, mut views: Views, mut proposals: mpsc::Receiver<Proposal>) {
    while let Some(proposal) = proposals.recv().await {
        // An owner acts on a view shortly before the view is published.
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
        // A slice group repeats the proposal as long as it needs the change.
        if let Err(error) = proposer.propose(change).await {
            tracing::warn!(what, %error, "the cluster did not agree to a change that a slice group proposed");
        }
    }
}
