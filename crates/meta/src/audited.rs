//! Notifications about changes that a principal requested, for the audit log of each node.
//!
//! # Guarantees
//! - Every change, including a rejected one, is reported once by each node that applies it.
//! - A node that restarts reports the changes since its newest snapshot again, with the same indexes.
//! - A node that received a snapshot did not see the changes in it, and reports which entries it has skipped.

use firstseen_routing::ClusterId;
use tokio::sync::mpsc;

use crate::asked_by::AskedBy;

/// Maximum number of notifications that wait to be written. Further notifications are lost.
pub const AUDITED_WAITING_MAX: usize = 1024;

/// An event in the consensus log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audited {
    /// A principal requested a change.
    Change {
        /// The cluster.
        cluster: ClusterId,
        /// Index of the log entry.
        index: u64,
        /// The principal.
        asked_by: AskedBy,
        /// Name of the change.
        change: &'static str,
        /// Subject of the change.
        subject: String,
        /// Reason for the rejection. `None` means that the change was executed.
        refused: Option<String>,
    },
    /// This node received a snapshot, so only other nodes saw the changes in these entries.
    Skipped {
        /// The cluster.
        cluster: ClusterId,
        /// Index of the newest entry before the snapshot.
        from_index: u64,
        /// Index of the newest entry in the snapshot.
        to_index: u64,
    },
}

/// Channel for the notifications.
pub(crate) type AuditSender = mpsc::Sender<Audited>;
