//! Parts of copies, which slices take in; the same for all groups.
//!
//! Promises: a part that is put in is persisted. Must not know: where parts come from, which slices there are.

use firstseen_filter::{CellRun, FilterSlice, PartError, UnitNumber};

use super::present::Present;
use super::rescan::IsPut;
use crate::protocol::Entry;

const NOT_HERE: PartError = PartError::Misfit("a slice that is not here");

/// The slices of a group, by number.
pub(crate) trait TakesParts {
    /// The slice, where it is here.
    fn part_owner(&mut self, slice: u32) -> Option<&mut FilterSlice>;

    /// The greatest unit that the slices have seen.
    fn greatest_unit(&self, present: &Present) -> UnitNumber {
        present.clock().now_unit()
    }

    /// Moves the slices on to this unit at least.
    fn catch_up(&mut self, _unit: UnitNumber) {}

    /// Puts in a part of another copy of a slice.
    fn put_part(&mut self, part: &Entry) -> Result<(), PartError> {
        match part {
            Entry::Slice { slice, outline } => self.part_owner(*slice).ok_or(NOT_HERE)?.put_outline(outline),
            Entry::Cells { slice, run } => self.part_owner(*slice).ok_or(NOT_HERE)?.put_cells(run),
            _ => Err(NOT_HERE),
        }
    }

    /// The same as [`Self::put_part`], and persists the part by `keep`.
    fn take_part(&mut self, part: Entry, keep: impl FnOnce(Entry)) -> Result<(), PartError> {
        self.put_part(&part)?;
        keep(part);
        Ok(())
    }

    /// Whether a slice lacks any of a run of cells.
    fn lacks(&mut self, slice: u32, run: &CellRun) -> Result<bool, PartError> {
        // No slice here is ahead of the others: an event that is late in one is late in all.
        self.catch_up(run.unit);
        self.part_owner(slice).ok_or(NOT_HERE)?.lacks_cells(run)
    }

    /// The same as [`Self::lacks`]; cells that are missing are put in, where `is_put` wants that, and persisted.
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

/// A group that is one slice.
impl TakesParts for FilterSlice {
    fn part_owner(&mut self, slice: u32) -> Option<&mut FilterSlice> {
        (slice == 0).then_some(self)
    }
}
