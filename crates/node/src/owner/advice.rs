//! Why a node cannot hold its slices, in words for operators.
//!
//! Promises: each reason says what helps. Must not know: how groups are given up.

use crate::keeper::DiskState;

/// Where a journal cannot be read.
pub(super) const REPAIR: &str = "give up what cannot be read, with `firstseen node repair`";

/// Why groups with a journal are given up, by what the disk does now.
pub(super) fn given_up(disk: DiskState) -> &'static str {
    match disk {
        DiskState::Hangs => {
            "the disk of the journal hangs, and the other nodes go on without this one; it goes on by itself when the disk \
             answers again"
        }
        DiskState::StaysFull => {
            "the disk of the journal is full, and other copies answer; make room, and the node goes on by itself"
        }
        // They stay given up until the start that follows.
        DiskState::Works => {
            "the disk of the journal works again, and what it has missed is fetched when the node counts as started anew: \
             where it alone has something of a filter whose other nodes are down, when these are back"
        }
    }
}
