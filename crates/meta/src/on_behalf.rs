//! Requests that a node makes to the cluster on behalf of a principal, such as creating a filter. The caller must have
//! checked that the principal may make the request. The command names the principal for the audit log, if the format of
//! the cluster supports this.
//!
//! The guarantees of [`Meta::propose`] hold.

use firstseen_routing::NodeId;

use crate::asked::Asked;
use crate::asked_by::{AskedBy, FORMAT_OF_WHO_ASKS};
use crate::change::Change;
use crate::command::{Command, CommandId, Outcome};
use crate::error::MetaError;
use crate::meta::Meta;

/// Lets the node at `address` join the cluster. Any member can be used.
///
/// # Errors
/// Returns a [`MetaError`]. After [`MetaError::Unknown`], the caller can repeat the request with the same id.
pub async fn join(meta: &Meta, asked_by: AskedBy, id: CommandId, address: String) -> Result<NodeId, MetaError> {
    let asked = if names_sender(meta) { Asked::JoinBy { asked_by, id, address } } else { Asked::Join { id, address } };
    match meta.request(asked).await? {
        Outcome::NodeAdded(node) => Ok(node),
        other => Err(MetaError::Stopped { reason: format!("a join ended with the unexpected outcome {other:?}") }),
    }
}

/// Removes a node from the cluster for good. Any member can be used.
///
/// # Errors
/// Returns a [`MetaError`]. After [`MetaError::Unknown`], the caller can repeat the request with the same id.
pub async fn leave(meta: &Meta, asked_by: AskedBy, id: CommandId, node: NodeId) -> Result<(), MetaError> {
    let asked = if names_sender(meta) { Asked::LeaveBy { asked_by, id, node } } else { Asked::Leave { id, node } };
    meta.request(asked).await.map(drop)
}

/// Proposes a change. Any member can be used.
///
/// # Errors
/// [`MetaError::FormatStays`] if the format of the cluster cannot express the change. Other errors are those of
/// [`Meta::propose`].
pub async fn propose_for(meta: &Meta, asked_by: AskedBy, id: CommandId, change: Change) -> Result<Outcome, MetaError> {
    let needed = change.format();
    let format = meta.map().borrow().format;
    if needed > format {
        let what = change.name();
        let reason = format!(
            "{what} requires format {needed}, but the cluster writes format {format}: when every node runs a version \
             that reads it, raise the format with firstseen cluster upgrade finalize"
        );
        return Err(MetaError::FormatStays { reason });
    }
    let asked_by = names_sender(meta).then_some(asked_by);
    meta.propose(Command { id, asked_by, change }).await
}

fn names_sender(meta: &Meta) -> bool {
    meta.map().borrow().format >= FORMAT_OF_WHO_ASKS
}
