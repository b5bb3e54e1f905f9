//! Errors that prevent a node from starting, or that force a running node to stop. Every message is a complete sentence
//! that tells the operator what has failed and what must be repaired.

use firstseen_meta::MetaError;
use thiserror::Error;

use crate::config::ConfigError;

/// Reason why a node cannot start, or cannot continue to run.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The node's database cannot be opened.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// The operating system cannot start a thread.
    #[error("the owner threads cannot be started: {0}")]
    Threads(#[from] std::io::Error),
    /// The node cannot offer its services.
    #[error("the node cannot serve: {0}")]
    Serve(String),
    /// An owner thread panicked while the node was running.
    #[error("{0}")]
    OwnerLost(String),
    /// Writing the journal failed. The most recent records may or may not be on the disk.
    #[error(
        "the journal cannot be written ({0}): records that recent replies depend on may be missing; check the disk, \
         and start the node again"
    )]
    Journal(String),
    /// The consensus has stopped on this node.
    #[error(
        "the node can no longer take part in the cluster's consensus (see the log; does the disk of its data folder \
         fail?): solve the problem, and start the node again"
    )]
    AgreementStopped,
}
