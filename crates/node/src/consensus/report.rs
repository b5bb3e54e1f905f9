//! Sends this node's reports about itself to the consensus group. There are several kinds of reports, and reports of
//! the same kind are sent one after the other. If a report cannot be accepted at the moment, for example because the
//! consensus group has no leader, it is sent again after a pause.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use firstseen_meta::{Change, MetaError};
use firstseen_wire::watch;

use super::Proposer;
use crate::view::{View, Views};

/// Pause before a failed report is sent again.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A source of reports that a node makes about itself.
pub(crate) trait Report: Send {
    /// Returns the next step of a round, which examines one view.
    fn next(&mut self, view: &View) -> impl Future<Output = RoundStep> + Send;

    /// Receives the result of a proposal. Returns `Some` if the result ends the round.
    fn proposed(&mut self, change: &Change, error: Option<&MetaError>) -> Option<Wait>;
}

/// The next step of a round.
pub(crate) enum RoundStep {
    /// Propose this change to the consensus group.
    Propose(Box<Change>),
    /// The round has ended.
    Rest(Wait),
}

/// Condition for the beginning of the next round.
pub(crate) enum Wait {
    /// The next round begins at once.
    Not,
    /// The next round begins when the view changes.
    View,
    /// The next round begins after this time.
    For(Duration),
    /// The next round begins when the view changes, or after this time.
    ViewFor(Duration),
}

/// Sends reports in rounds until the node stops.
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
            tracing::debug!(
                what = change.name(),
                %error,
                "the cluster did not accept a report of this node: it is sent again"
            );
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
