//! Logs why other members refuse messages of this node.
//!
//! Openraft logs every message that fails: about a hundred in 20 seconds without a majority. Most only say that a node does not
//! answer. So that log is off, and what an operator has to act on is logged here: each reason once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstseen_wire::limits::NODES_MAX;
use tonic::{Code, Status};

/// The last reason of each member that refuses messages. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct LoggedRefusals(Arc<Mutex<BTreeMap<u64, String>>>);

impl LoggedRefusals {
    /// Logs the answer of a member if it is a refusal that does not end by itself, unless the last answer was the same.
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
        tracing::warn!(
            member,
            reason = status.message(),
            "another node refuses what this one sends for the cluster's agreement"
        );
    }

    /// A member has accepted a message: the next refusal is logged again.
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
