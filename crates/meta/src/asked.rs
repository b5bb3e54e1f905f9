//! Questions of members to their leader.
//!
//! Promises: the bytes of a question never change within a version of the codec. Must not know: how it is answered.

use firstseen_routing::{Incarnation, NodeId};
use serde::{Deserialize, Serialize};

use crate::asked_by::AskedBy;
use crate::command::{Command, CommandId};

/// A question to the leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "requests are few and soon forgotten")]
pub(crate) enum Asked {
    Command(Command),
    Join { id: CommandId, address: String },
    Leave { id: CommandId, node: NodeId },
    Confirm { node: NodeId, incarnation: Incarnation },
    JoinBy { asked_by: AskedBy, id: CommandId, address: String },
    LeaveBy { asked_by: AskedBy, id: CommandId, node: NodeId },
}

impl Asked {
    pub(crate) fn what(&self) -> String {
        match self {
            Self::Command(command) => command.to_string(),
            Self::Join { address, .. } | Self::JoinBy { address, .. } => format!("join of the node at {address}"),
            Self::Leave { node, .. } | Self::LeaveBy { node, .. } => format!("leave of node {node}"),
            Self::Confirm { node, .. } => format!("whether node {node} counts as up"),
        }
    }

    pub(crate) fn can_wait(&self) -> bool {
        match self {
            Self::Command(command) => command.change.can_wait(),
            Self::Join { .. } | Self::JoinBy { .. } => true,
            Self::Leave { .. } | Self::LeaveBy { .. } | Self::Confirm { .. } => false,
        }
    }

    /// Whether members come or go, which takes longer than a command.
    pub(crate) fn is_of_members(&self) -> bool {
        match self {
            Self::Join { .. } | Self::JoinBy { .. } | Self::Leave { .. } | Self::LeaveBy { .. } => true,
            Self::Command(_) | Self::Confirm { .. } => false,
        }
    }
}
