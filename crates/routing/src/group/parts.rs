//! Parts of copies, as slices take them; once for all groups.
//!
//! Promises: what is put in is kept. Must not know: where parts come from, which slices there are.

use firstseen_filter::{CellRun, FilterSlice, PartError};

use super::rescan::IsPut;
use crate::protocol::Entry;

const NOT_HERE: PartError = PartError::Misfit("a slice that is not here");

/// Slices of a group, by number.
pub(crate) trait TakesParts {
    /// The slice, where it is here.
    fn part_owner(&mut self, slice: u32) -> Option<&mut FilterSlice>;

    /// It is this unit at least.
    fn catch_up(&mut self, _unit: u64) {}

    /// Puts in what another copy has of a slice.
    fn put_part(&mut self, part: &Entry) -> Result<(), PartError> {
        match part {
            Entry::Slice { slice, outline } => self.part_owner(*slice).ok_or(NOT_HERE)?.put_outline(outline),
            Entry::Cells { slice, run } => self.part_owner(*slice).ok_or(NOT_HERE)?.put_cells(run),
            _ => Err(NOT_HERE),
        }
    }

    /// The same, and has it kept.
    fn take_part(&mut self, part: Entry, keep: impl FnOnce(Entry)) -> Result<(), PartError> {
        self.put_part(&part)?;
        keep(part);
        Ok(())
    }

    /// Whether a slice lacks anything of a run of cells.
    fn lacks(&mut self, slice: u32, run: &CellRun) -> Result<bool, PartError> {
        // A slice is never ahead of the others here: an event that is late is late in all.
        self.catch_up(run.unit);
        self.part_owner(slice).ok_or(NOT_HERE)?.lacks_cells(run)
    }

    /// The same; what is missing is put in, where it is to be, and kept.
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
