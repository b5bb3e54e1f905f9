//! Requests that members of the cluster send to their leader, such as a command or the removal of a node. During an
//! upgrade, the members run different versions of the program and must understand each other's requests. The encoding
//! of a request therefore never changes within a version of the codec.

use firstseen_routing::{Incarnation, NodeId};
use serde::{Deserialize, Serialize};

use crate::asked_by::AskedBy;
use crate::command::{Command, CommandId};

/// A request to the leader.
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
            Self::Confirm { node, .. } => format!("question whether node {node} counts as up"),
        }
    }

    pub(crate) fn can_wait(&self) -> bool {
        match self {
            Self::Command(command) => command.change.can_wait(),
            Self::Join { .. } | Self::JoinBy { .. } => true,
            Self::Leave { .. } | Self::LeaveBy { .. } | Self::Confirm { .. } => false,
        }
    }

    /// Returns whether the request changes the members, which takes longer than a command.
    pub(crate) fn is_of_members(&self) -> bool {
        match self {
            Self::Join { .. } | Self::JoinBy { .. } | Self::Leave { .. } | Self::LeaveBy { .. } => true,
            Self::Command(_) | Self::Confirm { .. } => false,
        }
    }
}
