//! Messages to operators that explain why a node cannot hold a slice group, and what they can do about it. For example,
//! the disk of the journal may be full, or the journal may contain records that cannot be read.

use crate::journal_writer::DiskState;

/// Advice for an operator if the journal cannot be read.
pub(super) const REPAIR: &str = "discard the unreadable records with `firstseen node repair`";

/// Returns the reason why slice groups with a journal are not served, according to the current state of the disk.
pub(super) fn abandoned(disk: DiskState) -> &'static str {
    match disk {
        DiskState::Hangs => {
            "the disk of the journal hangs, and the other nodes continue without this node; the node continues on its \
             own when the disk answers again"
        }
        DiskState::StaysFull => {
            "the disk of the journal is full, and other copies answer; make room, and the node continues on its own"
        }
        // Even when the disk works again, the groups are not served until the node has counted as restarted.
        DiskState::Works => {
            "the disk of the journal works again, and the missed data is fetched when the node counts as restarted. If \
             only this node has some data of a filter whose other nodes are down, that happens when those nodes are \
             back"
        }
    }
}
