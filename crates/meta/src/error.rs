//! Errors, by what the caller does next.
//!
//! Promises: every error says what happened, to what, and what can be done. Must not know: how it is shown.

use firstseen_filter::duration;
use firstseen_routing::NodeId;
use thiserror::Error;

use crate::refusal::Refusal;
use crate::store::StoreError;

/// Why the cluster did not do what was asked.
#[derive(Clone, Debug, Error)]
pub enum MetaError {
    /// The command was refused, and nothing has changed: change the command.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The node belongs to no cluster: found one, or let the node join one.
    #[error("this node belongs to no cluster yet: make one with `init`, or let it `join` one")]
    NoCluster,
    /// The node belongs to a cluster.
    #[error("this node is node {node} of a cluster already: to make it another, remove its data first")]
    HasCluster {
        /// Its number.
        node: NodeId,
    },
    /// Another request of the same kind is at work: ask again.
    #[error("this node is just about to take part in a cluster: try again in a moment")]
    Busy,
    /// The command may have been done, or may be done later: ask again under the same command id.
    #[error(
        "{what}: no answer within {} ({last}); it may have been done: ask again under the same id",
        duration(*.waited_ms)
    )]
    Unknown {
        /// What was asked for.
        what: String,
        /// How long was waited.
        waited_ms: u64,
        /// What went wrong last.
        last: String,
    },
    /// The disk of a node is nearly full, and the change can wait: nothing has changed; make room, and ask again.
    #[error("{reason}")]
    NoRoom {
        /// The node, and what to do.
        reason: String,
    },
    /// The format of the cluster cannot be raised yet: nothing has changed; do what the reason says.
    #[error("{reason}")]
    FormatStays {
        /// The node that is in the way, and what to do.
        reason: String,
    },
    /// The disk fails: look at it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This node's part of the agreement has stopped: start the node again, and see its log for the cause.
    #[error("the consensus of this node has stopped: {reason}")]
    Stopped {
        /// What it says.
        reason: String,
    },
}
