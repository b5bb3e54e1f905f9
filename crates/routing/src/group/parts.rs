//! Methods with which a slice group takes over parts of a slice from another copy. A part is either the outline of the
//! slice, which describes the slice without its cells, or a run of consecutive cells. Groups of one slice and groups of
//! several slices both use these methods. Each part that a group takes over is also written to the journal.

use firstseen_filter::{CellRun, FilterSlice, PartError, UnitNumber};

use super::group_time::GroupTime;
use super::rescan::IsPut;
use crate::protocol::Entry;

const NOT_HERE: PartError = PartError::Misfit("a slice that this node does not have");

/// The slices of a group on this node, found by number.
pub(crate) trait TakesParts {
    /// Returns the slice, or `None` if it is not on this node.
    fn part_owner(&mut self, slice: u32) -> Option<&mut FilterSlice>;

    /// Returns the greatest unit that the slices have seen.
    fn greatest_unit(&self, present: &GroupTime) -> UnitNumber {
        present.clock().now_unit()
    }

    /// Advances the slices to at least this unit.
    fn catch_up(&mut self, _unit: UnitNumber) {}

    /// Writes a part from another copy into a slice.
    fn put_part(&mut self, part: &Entry) -> Result<(), PartError> {
        match part {
            Entry::Slice { slice, outline } => self.part_owner(*slice).ok_or(NOT_HERE)?.put_outline(outline),
            Entry::Cells { slice, run } => self.part_owner(*slice).ok_or(NOT_HERE)?.put_cells(run),
            _ => Err(NOT_HERE),
        }
    }

    /// Writes a part into a slice like [`Self::put_part`], and passes it to `keep`, which persists it.
    fn take_part(&mut self, part: Entry, keep: impl FnOnce(Entry)) -> Result<(), PartError> {
        self.put_part(&part)?;
        keep(part);
        Ok(())
    }

    /// Returns whether a slice lacks any cell of a run.
    fn lacks(&mut self, slice: u32, run: &CellRun) -> Result<bool, PartError> {
        // All slices of this node advance together, because an event that is late in one slice must be late in all of
        // them.
        self.catch_up(run.unit);
        self.part_owner(slice).ok_or(NOT_HERE)?.lacks_cells(run)
    }

    /// Compares a run of cells from another copy with the slice of this node, and adds the cells that the slice lacks
    /// if `is_put` is [`IsPut::Put`]. If it adds cells, it also calls `keep`, which writes the run to the journal.
    /// Returns whether the slice lacked any cell of the run.
    fn mend(&mut self, slice: u32, run: &CellRun, is_put: IsPut, keep: impl FnOnce(Entry)) -> Result<bool, PartError> {
        if is_put == IsPut::Not {
            return self.lacks(slice, run);
        }
        let lacks = self.part_owner(slice).ok_or(NOT_HERE)?.put_missing_cells(run)?;
        if lacks {
            keep(Entry::Cells { slice, run: run.clone() });
        }
        Ok(lacks)
    }
}

/// A group that consists of one slice.
impl TakesParts for FilterSlice {
    fn part_owner(&mut self, slice: u32) -> Option<&mut FilterSlice> {
        (slice == 0).then_some(self)
    }
}
