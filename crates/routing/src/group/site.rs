//! Which group of which filter a machine is, and whose; once for all groups.
//!
//! Promises: what is said of the group names it, and the start of the node or the map by which that is said. Must not know:
//! slices, what is said.

use crate::ids::{FilterId, Incarnation, NodeId};
use crate::protocol::{Command, Entry, PeerBody, PeerMessage, Record};

/// Bits of a number that count. The eight above, all that a ticket has room for, are of the incarnation: late answers
/// to numbers of an earlier process are not taken for answers to these.
pub(crate) const NUMBER_BITS: u32 = 40;

/// Which group of which filter, and the start of the node that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) filter: FilterId,
    pub(crate) group: u32,
    pub(crate) me: NodeId,
    pub(crate) incarnation: Incarnation,
}

impl Site {
    /// The first number of what this start of the node counts.
    pub(crate) fn first_number(&self) -> u64 {
        (self.incarnation.0 & 0xFF) << NUMBER_BITS
    }

    /// Has something of the group persisted.
    pub(crate) fn record(&self, entries: Vec<Entry>) -> Command {
        Command::Record(Record { filter: self.filter, group: self.group, entries })
    }

    /// Has the map say that slices of the group are complete here.
    pub(crate) fn complete(&self, slices: Vec<u32>, epoch: u64) -> Command {
        let Self { filter, group, incarnation, .. } = *self;
        Command::SlicesComplete { filter, group, slices, epoch, incarnation }
    }
}

/// The group and node that send the messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) filter: FilterId,
    pub(crate) epoch: u64,
    pub(crate) group: u32,
}

impl Sender {
    /// A message about the group.
    pub(crate) fn send(self, to: NodeId, body: PeerBody) -> Command {
        let Self { filter, epoch, group } = self;
        Command::Send { to, message: PeerMessage { filter, epoch, group, body } }
    }
}
