//! Why a node cannot be started, or cannot go on.
//!
//! Promises: a sentence that says what to mend. Must not know: where the error was noticed.

use firstseen_meta::MetaError;
use thiserror::Error;

use crate::config::ConfigError;

/// Why a node cannot be started, or cannot go on.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The node's database cannot be opened.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// The machine gives no threads.
    #[error("the threads of owners cannot be started: {0}")]
    Threads(#[from] std::io::Error),
    /// The services cannot be offered.
    #[error("the node cannot serve: {0}")]
    Serve(String),
    /// An owner has panicked while the node ran.
    #[error("{0}")]
    OwnerLost(String),
    /// The last records of the journal may or may not be on the disk.
    #[error(
        "the journal cannot be written ({0}): what replies since then rest on may be missing there; look after the disk, and start the node again"
    )]
    Journal(String),
    /// The node's part of the agreement has stopped.
    #[error(
        "the node has no part in the cluster's agreement any more (see the log; does the disk of its data folder fail?): \
         mend that, and start it again"
    )]
    AgreementStopped,
}
