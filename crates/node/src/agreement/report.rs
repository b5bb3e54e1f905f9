//! Reports to the cluster, one after the other.
//!
//! Promises: a report that could not be agreed on is made again. Must not know: what is reported.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use firstseen_meta::{Change, MetaError};
use firstseen_wire::watch;

use super::Proposer;
use crate::view::{View, Views};

/// The pause before a report is made again that could not be agreed on.
pub(super) const AGAIN: Duration = Duration::from_millis(100);

/// Something that a node reports of itself.
pub(crate) trait Report: Send {
    /// The next step of a round, which looks at one view.
    fn next(&mut self, view: &View) -> impl Future<Output = RoundStep> + Send;

    /// The cluster has agreed on the proposal, or has not; returns whether that ends the round.
    fn proposed(&mut self, change: &Change, error: Option<&MetaError>) -> Option<Wait>;
}

/// The next step of a round.
pub(crate) enum RoundStep {
    /// Propose this change to the agreement.
    Propose(Box<Change>),
    /// Nothing: the round is over.
    Rest(Wait),
}

/// When the next round begins.
pub(crate) enum Wait {
    /// At once.
    Not,
    /// With another view.
    View,
    /// After so long, with another view or without.
    For(Duration),
    /// With another view, and after so long without one.
    ViewFor(Duration),
}

/// Reports round after round, until the node ends.
pub(crate) async fn report(proposer: Proposer, mut views: Views, mut what: impl Report) {
    loop {
        let view = views.borrow_and_update().clone();
        let wait = round(&proposer, &view, &mut what).await;
        if wait.over(&mut views).await.is_err() {
            return;
        }
    }
}

async fn round(proposer: &Proposer, view: &View, what: &mut impl Report) -> Wait {
    loop {
        let change = match what.next(view).await {
            RoundStep::Propose(change) => change,
            RoundStep::Rest(wait) => return wait,
        };
        let error = proposer.propose(Change::clone(&change)).await.err();
        if let Some(error) = &error {
            tracing::debug!(what = change.name(), %error, "the cluster does not know what this node has reported");
        }
        if let Some(wait) = what.proposed(&change, error.as_ref()) {
            return wait;
        }
    }
}

impl Wait {
    async fn over(self, views: &mut watch::Receiver<Arc<View>>) -> Result<(), watch::Closed> {
        match self {
            Self::Not => Ok(()),
            Self::View => views.changed().await,
            Self::For(pause) => {
                tokio::time::sleep(pause).await;
                Ok(())
            }
            Self::ViewFor(pause) => tokio::time::timeout(pause, views.changed()).await.unwrap_or(Ok(())),
        }
    }
}
