//! The filter and group that a machine is for, and its node; the same for all groups.
//!
//! Promises: a command or message about the group names it, with the start of the node or the map's epoch. Must not
//! know: slices, what messages say.

use crate::ids::{Epoch, FilterId, Incarnation, NodeId};
use crate::protocol::{Command, Entry, PeerBody, PeerMessage, Proposal, Record};

/// The lower 40 bits of a number count; the 8 bits above them are of the incarnation, as a ticket has no room for more. So a
/// late answer to a number of an earlier process is not mistaken for one to the same number now.
pub(crate) const NUMBER_BITS: u32 = 40;

/// A group of a filter, and the start of the node that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) filter: FilterId,
    pub(crate) group: u32,
    pub(crate) me: NodeId,
    pub(crate) incarnation: Incarnation,
}

impl Site {
    /// The first number for the records, or tickets, of this start of the node.
    pub(crate) fn first_number(&self) -> u64 {
        (self.incarnation.0 & 0xFF) << NUMBER_BITS
    }

    /// Persists entries of the group.
    pub(crate) fn persist(&self, entries: Vec<Entry>) -> Command {
        Command::Persist(Record { filter: self.filter, group: self.group, entries })
    }

    /// Proposes that slices of the group are complete here.
    pub(crate) fn complete(&self, slices: Vec<u32>, epoch: Epoch) -> Command {
        let Self { filter, group, incarnation, .. } = *self;
        Command::Propose(Proposal::SlicesComplete { filter, group, slices, epoch, incarnation })
    }
}

/// The group that sends messages, and the epoch of the map by which it sends them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) filter: FilterId,
    pub(crate) epoch: Epoch,
    pub(crate) group: u32,
}

impl Sender {
    /// A message about the group.
    pub(crate) fn send(self, to: NodeId, body: PeerBody) -> Command {
        let Self { filter, epoch, group } = self;
        Command::Send { to, message: PeerMessage { filter, epoch, group, body } }
    }
}
