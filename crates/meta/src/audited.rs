//! What each node is told of changes that somebody asked for.
//!
//! Promises: every change is told once by a node that applies it, also one that was refused; a node that starts again tells the
//! changes since its newest snapshot again, under the same index. A node that was sent a snapshot did not see the changes in it,
//! and says so. Must not know: what becomes of it.

use firstseen_routing::ClusterId;
use tokio::sync::mpsc;

use crate::asked_by::AskedBy;

/// What waits to be written at most: then it is lost.
pub const AUDITED_WAITING_MAX: usize = 1024;

/// Something that was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audited {
    /// Somebody has asked for a change.
    Change {
        /// The cluster.
        cluster: ClusterId,
        /// The entry of the log.
        index: u64,
        /// Who.
        asked_by: AskedBy,
        /// The name of the change.
        change: &'static str,
        /// What it is about.
        subject: String,
        /// Why it was refused; none where it was done.
        refused: Option<String>,
    },
    /// This node was sent a snapshot: changes of these entries are on the other nodes only.
    Skipped {
        /// The cluster.
        cluster: ClusterId,
        /// The newest entry before.
        from_index: u64,
        /// The newest entry in the snapshot.
        to_index: u64,
    },
}

/// Where it is sent.
pub(crate) type AuditSender = mpsc::Sender<Audited>;
