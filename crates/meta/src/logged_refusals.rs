//! Logs why other members reject the messages of this node. Only reasons that require an action by an operator are
//! logged. A reason is logged once, and not for each message.
//!
//! This module replaces the log messages of openraft, which reports every message that fails. In a cluster without a
//! majority, openraft would log about a hundred lines in 20 seconds, and most of these lines would only state that a
//! node does not answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstseen_wire::limits::NODES_MAX;
use tonic::{Code, Status};

/// The last reason of each member that rejects messages. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct LoggedRefusals(Arc<Mutex<BTreeMap<u64, String>>>);

impl LoggedRefusals {
    /// Logs the reply of a member if the reply is a rejection that requires an action by an operator. If the member
    /// rejected the previous message for the same reason, nothing is logged.
    pub(crate) fn note(&self, member: u64, status: &Status) {
        if !matches!(status.code(), Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated) {
            return;
        }
        let mut reasons = self.lock();
        if reasons.get(&member).is_some_and(|reason| reason == status.message()) || reasons.len() >= NODES_MAX {
            return;
        }
        reasons.insert(member, status.message().to_owned());
        drop(reasons);
        tracing::warn!(member, reason = status.message(), "another node rejects the consensus messages of this node");
    }

    /// Notes that a member has accepted a message, so that its next rejection is logged again.
    pub(crate) fn end(&self, member: u64) {
        self.lock().remove(&member);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_kept_until_another_one_or_a_reply_comes() {
        let refusals = LoggedRefusals::default();
        let reasons = || refusals.lock().values().cloned().collect::<Vec<_>>();
        refusals.note(2, &Status::unavailable("its disk hangs"));
        assert_eq!(reasons(), [""; 0], "it ends by itself");
        refusals.note(2, &Status::invalid_argument("the message is of another cluster"));
        refusals.note(2, &Status::permission_denied("no certificate of a node"));
        assert_eq!(reasons(), ["no certificate of a node"]);
        refusals.end(2);
        assert_eq!(reasons(), [""; 0]);
    }
}
