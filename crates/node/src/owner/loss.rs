//! Detects owner threads that end before their node stops, for example because of a panic. The loss of an owner is
//! reported with the name of its thread, and only then its queue is closed. Code that finds the queue closed can
//! therefore always find out why.

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
    /// Runs `owner` and reports a panic.
    pub(crate) async fn watch(self: Arc<Self>, name: String, owner: impl Future<Output = ()>) {
        let owner = pin!(owner);
        // The watch was created after the owner, so Rust drops it before the owner and its queue.
        let mut watch = Watch { loss: self, name, ended: false };
        owner.await;
        watch.ended = true;
    }

    /// Returns the message about the lost owner. `None` means that no owner was lost.
    pub(crate) fn reason(&self) -> Option<String> {
        self.owner.get().map(|owner| sentence(owner))
    }

    /// Waits until an owner is lost, and returns the message about it.
    pub(crate) async fn happened(&self) -> String {
        self.happened.cancelled().await;
        // The name is set before any waiting task is woken.
        self.reason().unwrap_or_else(|| sentence("?"))
    }

    fn report(&self, owner: &str) {
        // A second loss is ignored because the node must be restarted anyway.
        let _ = self.owner.set(owner.to_owned());
        self.happened.cancel();
    }
}

fn sentence(owner: &str) -> String {
    format!(
        "owner thread `{owner}` has panicked, and the state of its slices is lost: start the node again, and report \
         the panic message in its log"
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
        // A runtime that shuts down also drops its tasks. In that case no task remains that could receive the report.
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
