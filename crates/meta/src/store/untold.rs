//! What is to be told of a command, from before it is applied to its outcome.
//!
//! Promises: a change that nobody asked for is not told. Must not know: who is told.

use firstseen_routing::ClusterId;

use crate::asked_by::AskedBy;
use crate::audited::Audited;
use crate::command::Command;

/// What is to be told of a command before it is applied: nothing where nobody has asked for it.
pub(crate) struct Untold {
    index: u64,
    asked_by: AskedBy,
    change: &'static str,
    subject: String,
}

impl Untold {
    pub(crate) fn of(index: u64, command: &Command) -> Option<Self> {
        let asked_by = command.asked_by.clone()?;
        Some(Self { index, asked_by, change: command.change.name(), subject: command.change.subject() })
    }

    /// Told, with what has become of it.
    pub(crate) fn told(self, cluster: ClusterId, refused: Option<String>) -> Audited {
        let Self { index, asked_by, change, subject } = self;
        Audited::Change { cluster, index, asked_by, change, subject, refused }
    }
}
