//! Commands that change the cluster map, and their outcomes. A command consists of an id and a change. If the outcome
//! of a command is unknown, for example because a reply was lost, the command can be proposed again with the same id.
//! It is then executed only once.

use std::fmt;

use firstseen_routing::{FilterId, Format, Incarnation, NodeId};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::asked_by::{AskedBy, FORMAT_OF_WHO_ASKS};
use crate::change::{Change, Requester};

/// Maximum size of an encoded command, in bytes. A follower receives many commands in one message, so each command must
/// be small enough that the message does not exceed the maximum message size.
pub const COMMAND_BYTES_MAX: usize = 96 << 10;

/// Identifier of a command. The proposer draws it at random, and uses the same identifier when it proposes the command
/// again.
pub type CommandId = [u8; 16];

/// A proposed change of the cluster map.
///
/// An encoded command consists of its id and its change. If a principal has requested the change, a [`Change::By`] with
/// the principal is written between the id and the change. Only format 11 and newer formats support this.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Identifier of the command. A command that is proposed twice with the same id is executed once, and both
    /// proposals receive the same answer.
    pub id: CommandId,
    /// Principal that requested the change. `None` if the cluster itself proposes the change, or if its format cannot
    /// express the principal.
    pub asked_by: Option<AskedBy>,
    /// The proposed change.
    pub change: Change,
}

impl Command {
    /// Creates a command that no principal has requested.
    pub fn new(id: CommandId, change: Change) -> Self {
        Self { id, asked_by: None, change }
    }

    /// Returns the first format that can express the command.
    pub(crate) fn format(&self) -> Format {
        let of_change = self.change.format();
        if self.asked_by.is_some() { of_change.max(FORMAT_OF_WHO_ASKS) } else { of_change }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.change.name())
    }
}

impl Serialize for Command {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.asked_by {
            Some(asked_by) => (&self.id, Change::By(Requester(asked_by.clone())), &self.change).serialize(serializer),
            None => (&self.id, &self.change).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A command has at most three parts. Reading ends after the change.
        deserializer.deserialize_tuple(3, CommandVisitor)
    }
}

struct CommandVisitor;

impl<'de> Visitor<'de> for CommandVisitor {
    type Value = Command;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a command")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Command, A::Error> {
        let id = next_part(&mut parts)?;
        let first = next_part(&mut parts)?;
        let Change::By(Requester(asked_by)) = first else { return Ok(Command::new(id, first)) };
        match next_part(&mut parts)? {
            Change::By(_) => Err(A::Error::custom("a change names two principals that requested it")),
            change => Ok(Command { id, asked_by: Some(asked_by), change }),
        }
    }
}

fn next_part<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(parts: &mut A) -> Result<T, A::Error> {
    parts.next_element()?.ok_or_else(|| A::Error::custom("the command is cut short"))
}

/// Outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The command was executed.
    Done,
    /// The node was added and has this number.
    NodeAdded(NodeId),
    /// The process of the node counts as this start.
    NodeStarted(Incarnation),
    /// The filter exists and has this number.
    FilterCreated {
        /// Number of the filter.
        filter: FilterId,
        /// Whether the filter existed before.
        existed: bool,
    },
    /// The answer to the question whether a start of a node counts as up. Nothing was changed.
    Confirmed {
        /// Whether the start counts as up.
        is_up: bool,
    },
}
