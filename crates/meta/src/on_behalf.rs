//! What somebody has a node ask of its cluster: the change says who, where the format of the cluster can express that.
//!
//! Promises: what [`Meta::propose`] promises. Must not know: whether they may.

use firstseen_routing::NodeId;

use crate::asked::Asked;
use crate::asked_by::{AskedBy, FORMAT_OF_WHO_ASKS};
use crate::change::Change;
use crate::command::{Command, CommandId, Outcome};
use crate::error::MetaError;
use crate::meta::Meta;

/// Lets the node at `address` join, whichever member is asked.
///
/// # Errors
/// [`MetaError`]; after [`MetaError::Unknown`], ask again under the same id.
pub async fn join(meta: &Meta, asked_by: AskedBy, id: CommandId, address: String) -> Result<NodeId, MetaError> {
    let asked = if says_who(meta) { Asked::JoinBy { asked_by, id, address } } else { Asked::Join { id, address } };
    match meta.request(asked).await? {
        Outcome::NodeAdded(node) => Ok(node),
        other => Err(MetaError::Stopped { reason: format!("a join ended with {other:?}") }),
    }
}

/// Takes a node out for good, whichever member is asked.
///
/// # Errors
/// [`MetaError`]; after [`MetaError::Unknown`], ask again under the same id.
pub async fn leave(meta: &Meta, asked_by: AskedBy, id: CommandId, node: NodeId) -> Result<(), MetaError> {
    let asked = if says_who(meta) { Asked::LeaveBy { asked_by, id, node } } else { Asked::Leave { id, node } };
    meta.request(asked).await.map(drop)
}

/// Proposes a change, whichever member is asked.
///
/// # Errors
/// [`MetaError::FormatStays`] where the format of the cluster cannot express the change; others as of [`Meta::propose`].
pub async fn propose_for(meta: &Meta, asked_by: AskedBy, id: CommandId, change: Change) -> Result<Outcome, MetaError> {
    let needed = change.format();
    let format = meta.map().borrow().format;
    if needed > format {
        let what = change.name();
        let reason = format!(
            "{what} takes format {needed} of the cluster, which writes {format}: once every node runs a version that reads it, \
             firstseen cluster upgrade finalize raises it"
        );
        return Err(MetaError::FormatStays { reason });
    }
    let asked_by = says_who(meta).then_some(asked_by);
    meta.propose(Command { id, asked_by, change }).await
}

fn says_who(meta: &Meta) -> bool {
    meta.map().borrow().format >= FORMAT_OF_WHO_ASKS
}
