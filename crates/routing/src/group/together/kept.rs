//! The state of a slice that outlives its process, and its restoration.
//!
//! Promises: the entries, in the order in which they were recorded, give a slice that knows what this one knew. Must
//! not know: bytes, disks.

use firstseen_filter::{LiveEvents, PartError};

use super::TogetherGroup;
use crate::group::parts::TakesParts;
use crate::group::persisting::{checkpoint, restore_names};
use crate::protocol::{Entry, Moment};

impl TogetherGroup {
    /// Restores an entry that an earlier process of this node has persisted.
    pub(crate) fn restore(&mut self, entry: Entry, now: Moment) -> Result<(), PartError> {
        self.present.begin(now);
        self.put(entry)
    }

    /// Puts in an entry that was recorded here or by another copy.
    pub(super) fn put(&mut self, entry: Entry) -> Result<(), PartError> {
        let Some(entry) = restore_names(entry, &mut self.guard, &mut self.present) else { return Ok(()) };
        match entry {
            Entry::Events { generation, probes, stamps } => self.slice.put_probes(generation, &probes, &stamps),
            Entry::Checkpoint { clock, .. } => {
                self.present.clock_mut().restore(clock);
                Ok(())
            }
            Entry::Replied { .. } | Entry::Marks { .. } | Entry::CheckpointEnd => Ok(()),
            Entry::Slice { .. } | Entry::Cells { .. } => self.slice.put_part(&entry),
            Entry::Headed { .. } | Entry::Taken { .. } | Entry::Set { .. } => {
                Err(PartError::Misfit("an entry of a group of several slices"))
            }
        }
    }

    /// All entries have been restored.
    pub(crate) fn end_restore(&mut self, is_whole: bool) {
        self.holding.restore(is_whole);
        if self.mirrors.has_others() {
            self.forget_names();
        }
        self.slice.recount();
    }

    /// Begins a checkpoint: everything but the cells.
    pub(crate) fn checkpoint(&self, is_complete: bool) -> Vec<Entry> {
        let (clock, counted) = (self.present.clock().reading(), LiveEvents::default());
        let newest = self.slice.newest_generation();
        let begin = Entry::Checkpoint { is_complete, clock, newest, counted };
        checkpoint(vec![begin], &self.guard, self.present.clock(), &self.slices())
    }
}
