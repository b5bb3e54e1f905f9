//! Owners that end before their node does.
//!
//! Promises: an owner whose work panics is reported, by the name of its thread, before its queue closes: a caller that
//! finds the queue closed finds the reason too. Must not know: what owners do, what follows from a loss.

use std::pin::pin;
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// The first owner of a node that was lost.
#[derive(Default)]
pub(crate) struct OwnerLoss {
    owner: OnceLock<String>,
    happened: CancellationToken,
}

impl OwnerLoss {
    /// Runs `owner`, and reports it should it panic.
    pub(crate) async fn watch(self: Arc<Self>, name: String, owner: impl Future<Output = ()>) {
        let owner = pin!(owner);
        // Dropped before the owner and its queue, as it was made after it.
        let mut watch = Watch { loss: self, name, ended: false };
        owner.await;
        watch.ended = true;
    }

    /// The message about the lost owner, where there is one.
    pub(crate) fn reason(&self) -> Option<String> {
        self.owner.get().map(|owner| sentence(owner))
    }

    /// Waits until an owner is lost; returns the message about it.
    pub(crate) async fn happened(&self) -> String {
        self.happened.cancelled().await;
        // The name is there before any waiter is woken.
        self.reason().unwrap_or_else(|| sentence("?"))
    }

    fn report(&self, owner: &str) {
        // A second one changes nothing: the node is to be started again already.
        let _ = self.owner.set(owner.to_owned());
        self.happened.cancel();
    }
}

fn sentence(owner: &str) -> String {
    format!(
        "owner thread `{owner}` has panicked, and what its slices have had is lost: start the node again, and report \
         what its log says of the panic"
    )
}

/// Watches one owner.
struct Watch {
    loss: Arc<OwnerLoss>,
    name: String,
    ended: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // A runtime that ends drops its tasks too: then no one is left who could hear of it.
        if std::thread::panicking() {
            tracing::error!(owner = self.name, "an owner has panicked");
        }
        self.loss.report(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::{Work, queue};

    #[tokio::test]
    async fn an_owner_that_panics_is_told_of_before_its_queue_closes() {
        let loss = Arc::new(OwnerLoss::default());
        let (sender, mut inbox) = queue(1);
        let owner = async move {
            inbox.next().await;
            panic!("provoked");
        };
        let running = tokio::spawn(loss.clone().watch("a-owner-3".to_owned(), owner));
        assert_eq!(loss.reason(), None);
        let (reply, _answer) = tokio::sync::oneshot::channel();
        assert!(sender.hand(Work::asking(reply, |_, _, _| ())).await);
        assert!(loss.happened().await.contains("`a-owner-3`"));
        assert!(running.await.expect_err("it has panicked").is_panic());
        let (reply, _answer) = tokio::sync::oneshot::channel();
        assert!(!sender.hand(Work::asking(reply, |_, _, _| ())).await);
        assert!(loss.reason().is_some_and(|reason| reason.contains("`a-owner-3`")));
    }

    #[tokio::test]
    async fn an_owner_that_ends_is_not_lost() {
        let loss = Arc::new(OwnerLoss::default());
        loss.clone().watch("a-owner-0".to_owned(), async {}).await;
        assert_eq!(loss.reason(), None);
    }
}
