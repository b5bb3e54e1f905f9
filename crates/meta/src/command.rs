//! Commands, each with an id and a change of the cluster's map, and their outcomes.
//!
//! A command that is proposed twice under one id is done once. This module does not know how commands are agreed on and
//! where they are applied.

use std::fmt;

use firstseen_routing::{FilterId, Format, Incarnation, NodeId};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::asked_by::{AskedBy, FORMAT_OF_WHO_ASKS};
use crate::change::{Change, Requester};

/// Most bytes of an encoded command: many in one message to a follower must not exceed the message's limit.
pub const COMMAND_BYTES_MAX: usize = 96 << 10;

/// The id of a command; drawn at random by the proposer, and the same when it proposes again.
pub type CommandId = [u8; 16];

/// A change of the map that is proposed.
///
/// Its bytes are those of the id and the change. From format 11 on, [`Change::By`] stands between the two if somebody has
/// asked for the change.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// A command that is proposed twice under one id is done once, and answered the same.
    pub id: CommandId,
    /// Who has asked for the change. `None` if the cluster itself proposes it, or its format cannot express this.
    pub asked_by: Option<AskedBy>,
    /// The change that is proposed.
    pub change: Change,
}

impl Command {
    /// Returns a command that nobody has asked for.
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
        // Three parts at most; reading ends after the change.
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
            Change::By(_) => Err(A::Error::custom("a change names two that have asked for it")),
            change => Ok(Command { id, asked_by: Some(asked_by), change }),
        }
    }
}

fn next_part<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(parts: &mut A) -> Result<T, A::Error> {
    parts.next_element()?.ok_or_else(|| A::Error::custom("the command is cut short"))
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The command is done.
    Done,
    /// The node has this number.
    NodeAdded(NodeId),
    /// The node's process counts as this start.
    NodeStarted(Incarnation),
    /// The filter has this number.
    FilterCreated {
        /// The filter.
        filter: FilterId,
        /// Whether it was there before.
        existed: bool,
    },
    /// The start of a node that was asked about counts as up, or not: nothing was changed.
    Confirmed {
        /// Whether it counts as up.
        is_up: bool,
    },
}
