//! Errors that end a pipe.

use firstseen_embedded::{LockError, StateError};
use firstseen_records::ConfigError;
use firstseen_routing::SlicedBuildError;

use crate::message::PartitionId;

/// Why a pipe cannot start or cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipeError {
    /// The settings are wrong, or do not fit the topics.
    #[error("{0}")]
    Settings(String),
    /// A message cannot be delivered or must not be skipped.
    #[error("{partition} at offset {offset}: {reason}")]
    Message {
        /// Partition of the message.
        partition: PartitionId,
        /// Position of the message.
        offset: i64,
        /// What is wrong, and what to do about it.
        reason: String,
    },
    /// The log cannot be used.
    #[error("{what}: {reason}")]
    Log {
        /// What failed, and on what.
        what: String,
        /// Why it failed, and what to do about it.
        reason: String,
    },
    /// A checkpoint cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The folder of checkpoints cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A filter cannot be built.
    #[error("cannot build a filter")]
    Filter(#[from] SlicedBuildError),
    /// The fields of the key or of the time cannot be read.
    #[error(transparent)]
    Fields(#[from] ConfigError),
}

impl PipeError {
    /// Creates an error about the log. `what` says what failed and on what.
    pub fn log(what: impl Into<String>, reason: impl ToString) -> Self {
        Self::Log { what: what.into(), reason: reason.to_string() }
    }

    /// Returns whether the user must change the settings or the topics before another start.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Settings(_) | Self::Fields(_))
    }
}
