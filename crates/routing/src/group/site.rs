//! Identity of a slice group on a node. The identity consists of the filter, the number of the group, the node, and the
//! incarnation of the node, which increases with each restart. Commands and messages of the group are created from this
//! identity. The incarnation, or the epoch of the cluster map, tells the receiver whether a message is outdated.

use crate::ids::{Epoch, FilterId, Incarnation, NodeId};
use crate::protocol::{Command, Entry, PeerBody, PeerMessage, Proposal, Record};

/// Number of low bits of a record number or ticket that form a counter. The 8 bits above the counter contain the lowest
/// bits of the node's incarnation, because there is no room for the whole incarnation. After a restart, these bits
/// differ. A late reply to the earlier process can therefore not be confused with a reply to the new process.
pub(crate) const NUMBER_BITS: u32 = 40;

/// A slice group of a filter on one start of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    pub(crate) filter: FilterId,
    pub(crate) group: u32,
    pub(crate) me: NodeId,
    pub(crate) incarnation: Incarnation,
}

impl Site {
    /// Returns the first number for records or tickets of this start of the node.
    pub(crate) fn first_number(&self) -> u64 {
        (self.incarnation.0 & 0xFF) << NUMBER_BITS
    }

    /// Returns a command that persists entries of the group.
    pub(crate) fn persist(&self, entries: Vec<Entry>) -> Command {
        Command::Persist(Record { filter: self.filter, group: self.group, entries })
    }

    /// Returns a command that proposes to the cluster map that these slices of the group are complete on this node.
    pub(crate) fn complete(&self, slices: Vec<u32>, epoch: Epoch) -> Command {
        let Self { filter, group, incarnation, .. } = *self;
        Command::Propose(Proposal::SlicesComplete { filter, group, slices, epoch, incarnation })
    }
}

/// The group that sends messages, and the epoch of the cluster map by which it sends them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) filter: FilterId,
    pub(crate) epoch: Epoch,
    pub(crate) group: u32,
}

impl Sender {
    /// Returns a command that sends a message about the group.
    pub(crate) fn send(self, to: NodeId, body: PeerBody) -> Command {
        let Self { filter, epoch, group } = self;
        Command::Send { to, message: PeerMessage { filter, epoch, group, body } }
    }
}
