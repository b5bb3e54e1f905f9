//! What a group persists, and how its next process takes that up again.
//!
//! Entries are of two sorts: events of the log (cells were set, a batch got its reply), and parts of a checkpoint,
//! after which entries from before the checkpoint need not be kept. A checkpoint is taken while the group goes on: its
//! parts and the entries between them, put in again in the same order, give a group that knows at least what this one
//! knew.
//!
//! Promises: plain data; an entry that is put in twice changes nothing. Must not know: bytes, disks.

use firstseen_filter::{CellRun, FilterSlice, GenerationNumber, LiveEvents, Probes, SliceOutline, Stamp, UnitNumber};

use super::cells::{CellPlace, PositionLists};
use super::names::{BatchName, NamedEvent};
use crate::ids::{Epoch, FilterId};
use crate::verdict::Decision;

/// An entry that a group persists.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Events recorded in a group that is one slice.
    Events {
        /// The number of the generation.
        generation: GenerationNumber,
        /// The events.
        probes: Probes,
        /// One an event.
        stamps: Vec<Stamp>,
    },
    /// Cells that were set here, of events whose cells lie in several slices.
    Set {
        /// The number of the generation.
        generation: GenerationNumber,
        /// Positions in the group, of those that lie here, one list an event.
        cells: PositionLists,
        /// One an event.
        stamps: Vec<Stamp>,
        /// How many of the events count as recorded by this node.
        counted: u64,
    },
    /// A batch was taken up, and has no verdicts yet. Where no `Replied` entry follows, the batch may have been
    /// recorded.
    Taken {
        /// Names the batch.
        name: BatchName,
        /// One an event where the caller named its submissions.
        names: Vec<NamedEvent>,
        /// Its events.
        events: u32,
    },
    /// The replies to a batch.
    Replied {
        /// Names the batch.
        name: BatchName,
        /// One an event where the caller named its submissions.
        names: Vec<NamedEvent>,
        /// One an event.
        decisions: Vec<Decision>,
        /// The clock's reading after the batch.
        clock: ClockReading,
    },
    /// A checkpoint begins.
    Checkpoint {
        /// The group has all that was ever recorded in it.
        is_complete: bool,
        /// The clock's reading.
        clock: ClockReading,
        /// The number of the newest generation.
        newest: GenerationNumber,
        /// Events of that generation that count as recorded by this node.
        counted: LiveEvents,
    },
    /// Low-water marks of a checkpoint.
    Marks {
        /// Of producers.
        producers: Vec<(u128, u64)>,
        /// Of sources of names.
        sources: Vec<(u128, u64)>,
    },
    /// By the map of this epoch, no other node has headed events of the group that may come again, and the heads have
    /// not changed since.
    Headed {
        /// The epoch.
        epoch: Epoch,
    },
    /// A slice of the checkpoint, by its number in the group.
    Slice {
        /// The number.
        slice: u32,
        /// The slice's state beside its cells.
        outline: SliceOutline,
    },
    /// Cells of the checkpoint.
    Cells {
        /// The number of the slice in the group.
        slice: u32,
        /// The cells.
        run: CellRun,
    },
    /// The checkpoint is whole.
    CheckpointEnd,
}

/// Entries of one group that are persisted together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The filter.
    pub filter: FilterId,
    /// The group.
    pub group: u32,
    /// The entries.
    pub entries: Vec<Entry>,
}

/// The reading of a group's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// The greatest unit.
    pub unit: UnitNumber,
    /// The greatest time, in milliseconds since 1970, if any.
    pub time_ms: Option<u64>,
    /// Events counted, where they make the window.
    pub events: u64,
}

/// How far a checkpoint has come.
#[derive(Clone, Debug, Default)]
pub struct CheckpointCursor {
    slice: usize,
    /// None before the first cells of the slice.
    generation: Option<GenerationNumber>,
    start_bytes: u64,
}

impl CheckpointCursor {
    /// In the cells of one slice.
    pub(crate) fn at(place: Option<CellPlace>) -> Self {
        let (generation, start_bytes) = place.map_or((None, 0), |place| (Some(place.generation), place.start_bytes));
        Self { slice: 0, generation, start_bytes }
    }

    /// Where the next cells of one slice begin; none where it has no more.
    pub(crate) fn place(&self) -> Option<CellPlace> {
        let Self { slice, generation, start_bytes } = *self;
        generation.filter(|_| slice == 0).map(|generation| CellPlace { generation, start_bytes })
    }

    /// The next cells of `slices`, about `bytes_max` bytes of memory; empty cells are left out. None when all have been
    /// given.
    pub(crate) fn next(&mut self, slices: &[Option<&FilterSlice>], bytes_max: usize) -> Option<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut left_bytes = bytes_max;
        while left_bytes > 0 {
            let Some(slice) = slices.get(self.slice) else { break };
            let Some(slice) = slice else {
                self.slice += 1;
                continue;
            };
            let oldest = slice.newest_generation().after(1).before(slice.generations() as u64);
            // A generation that was dropped meanwhile is empty, and one that was opened meanwhile has entries of its
            // own.
            let generation = self.generation.map_or(oldest, |generation| generation.max(oldest));
            if self.generation != Some(generation) {
                (self.generation, self.start_bytes) = (Some(generation), 0);
            }
            match slice.cell_run(generation, self.start_bytes, left_bytes.min(RUN_BYTES)) {
                Some(run) => {
                    self.start_bytes += run.cells.len() as u64;
                    left_bytes = left_bytes.saturating_sub(run.cells.len());
                    if run.cells.iter().any(|byte| *byte != 0) {
                        entries.push(Entry::Cells { slice: self.slice as u32, run });
                    }
                }
                None if generation < slice.newest_generation() => {
                    (self.generation, self.start_bytes) = (Some(generation.after(1)), 0);
                }
                None => *self = Self { slice: self.slice + 1, ..Self::default() },
            }
        }
        (self.slice < slices.len() || !entries.is_empty()).then_some(entries)
    }
}

/// Cells of one entry.
const RUN_BYTES: usize = 64 << 10;
