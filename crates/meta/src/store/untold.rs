//! Notification for the audit log about a change that a principal has requested. The notification is prepared before
//! the command is applied, and completed with the outcome afterwards. A change that the cluster makes on its own has no
//! principal, so it causes no notification.

use firstseen_routing::ClusterId;

use crate::asked_by::AskedBy;
use crate::audited::Audited;
use crate::command::Command;

/// A prepared notification about a command that a principal requested.
pub(crate) struct PendingAudit {
    index: u64,
    asked_by: AskedBy,
    change: &'static str,
    subject: String,
}

impl PendingAudit {
    pub(crate) fn of(index: u64, command: &Command) -> Option<Self> {
        let asked_by = command.asked_by.clone()?;
        Some(Self { index, asked_by, change: command.change.name(), subject: command.change.subject() })
    }

    /// Completes the notification with the outcome of the command.
    pub(crate) fn told(self, cluster: ClusterId, refused: Option<String>) -> Audited {
        let Self { index, asked_by, change, subject } = self;
        Audited::Change { cluster, index, asked_by, change, subject, refused }
    }
}
