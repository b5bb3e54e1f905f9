//! Errors of requests to the cluster, distinguished by what the caller does next. Every error says what happened and
//! what the caller can do.

use firstseen_filter::duration;
use firstseen_routing::NodeId;
use thiserror::Error;

use crate::refusal::Refusal;
use crate::store::StoreError;

/// Reason why the cluster did not execute a request.
#[derive(Clone, Debug, Error)]
pub enum MetaError {
    /// The command was rejected, and nothing has changed. The caller must change the command.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The node does not belong to a cluster. It must found one or join one.
    #[error("this node belongs to no cluster yet: make one with `init`, or let it `join` one")]
    NoCluster,
    /// The node already belongs to a cluster.
    #[error("this node is already node {node} of a cluster: to use it in another cluster, remove its data first")]
    HasCluster {
        /// Number of the node.
        node: NodeId,
    },
    /// Another request of the same kind is in progress. The caller can try again.
    #[error("this node is currently joining a cluster: try again in a moment")]
    Busy,
    /// The command may have been executed, or may be executed later. The caller can repeat it with the same command id.
    #[error(
        "{what}: no answer within {} ({last}); it may have been done: ask again under the same id",
        duration(*.waited_ms)
    )]
    Unknown {
        /// Description of the request.
        what: String,
        /// Time that the request waited, in milliseconds.
        waited_ms: u64,
        /// The last error.
        last: String,
    },
    /// The disk of a node is nearly full, so a change that is not urgent was rejected. Nothing has changed. The caller
    /// can try again when disk space has been freed.
    #[error("{reason}")]
    NoRoom {
        /// The node, and what to do.
        reason: String,
    },
    /// The format of the cluster cannot be raised yet. Nothing has changed. The reason says what to do.
    #[error("{reason}")]
    FormatStays {
        /// The node that prevents the change, and what to do.
        reason: String,
    },
    /// The disk fails and must be checked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The consensus has stopped on this node. The node must be restarted, and its log contains the cause.
    #[error("the consensus of this node has stopped: {reason}")]
    Stopped {
        /// Error message of the consensus.
        reason: String,
    },
}
