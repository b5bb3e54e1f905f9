//! The disk of what this node agrees on with others: whether it has room, and whether it answers.
//!
//! Promises: what is said is of this moment, or a look ago. Must not know: what is on the disk.

use std::time::Duration;

use firstseen_wire::watch;

use crate::meta::Meta;

impl Meta {
    /// Whether the disk has no room but that kept back for the agreement, or not even that: no other part of the node
    /// may take any. Watchers know before that room can be used.
    pub fn short_of_room(&self) -> watch::Receiver<bool> {
        self.database().watch_short()
    }

    pub(crate) fn is_short_of_room(&self) -> bool {
        *self.short_of_room().borrow()
    }

    /// Whether the disk of the agreement hangs: this node gets no newer map, and has no say, until the disk answers.
    pub fn disk_hangs(&self) -> watch::Receiver<bool> {
        self.database().watch_hangs()
    }

    pub(crate) fn has_hung_disk(&self) -> bool {
        self.database().hangs()
    }

    /// Looks whether that disk hangs, for ever: one change may take as long as `patience`.
    pub async fn look_after_disk(&self, patience: Duration) {
        self.database().look_after(patience).await;
    }
}
