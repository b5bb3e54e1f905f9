//! What a slice does not forget when its process ends, and how it takes it up again.
//!
//! Promises: entries in the order in which they were told give a slice that knows what this one knew. Must not know: bytes,
//! disks.

use firstseen_filter::{LiveEvents, PartError};

use super::TogetherGroup;
use crate::group::persisting::{checkpoint, restore_names};
use crate::protocol::{CheckpointCursor, Entry, Moment};

impl TogetherGroup {
    /// Takes up what a process of this node before has kept.
    pub(crate) fn restore(&mut self, entry: Entry, now: Moment) -> Result<(), PartError> {
        let Self { guard, clock, limits, .. } = self;
        let Some(entry) = restore_names(entry, guard, clock, limits.rules, now.monotonic_ms) else { return Ok(()) };
        match entry {
            Entry::Events { generation, probes, stamps } => self.slice.put_probes(generation, &probes, &stamps)?,
            Entry::Checkpoint { clock, .. } => self.clock.restore(clock),
            Entry::Slice { slice: 0, outline } => self.slice.put_outline(&outline)?,
            Entry::Cells { slice: 0, run } => self.slice.put_cells(&run)?,
            Entry::Told { .. } | Entry::Marks { .. } | Entry::CheckpointEnd => {}
            Entry::Headed { .. }
            | Entry::Taken { .. }
            | Entry::Set { .. }
            | Entry::Slice { .. }
            | Entry::Cells { .. } => {
                return Err(PartError::Misfit("an entry of a group of several slices"));
            }
        }
        Ok(())
    }

    /// All has been taken up.
    pub(crate) fn end_restore(&mut self, is_whole: bool) {
        self.holding.restore(is_whole);
        if self.mirrors.has_others() {
            self.forget_names();
        }
        self.slice.recount();
    }

    /// Begins a checkpoint: all but the cells.
    pub(crate) fn checkpoint(&self, is_complete: bool) -> Vec<Entry> {
        let (clock, counted) = (self.clock.reading(), LiveEvents::default());
        let newest = self.slice.newest_generation();
        let begin = Entry::Checkpoint { is_complete, clock, newest, counted };
        checkpoint(vec![begin], &self.guard, &self.clock, std::iter::once(Some(&self.slice)))
    }

    /// The next cells of a checkpoint; none when it has all.
    pub(crate) fn checkpoint_cells(&self, cursor: &mut CheckpointCursor, bytes_max: usize) -> Option<Vec<Entry>> {
        cursor.next(&[Some(&self.slice)], bytes_max)
    }
}
