//! Entries that a slice group persists, so that the group can recover its state after a restart of the process.
//!
//! There are two types of entries:
//!
//! - Log entries describe changes of the group, for example that cells were set or that a batch received its reply.
//! - Checkpoint entries contain the state of the group at some time. When a checkpoint is complete, log entries from
//!   before the checkpoint are no longer needed.
//!
//! A slice group keeps working while it writes a checkpoint, so the journal contains log entries between the parts of
//! the checkpoint. To recover the group, all entries since the start of the checkpoint are replayed in the order in
//! which they were written. The recovered group has the same state as the group had when it wrote the last entry.
//!
//! Replaying the same log entry twice has the same effect as replaying it once. Recovery is therefore safe even if a
//! checkpoint already contains the effect of a log entry.

use firstseen_filter::{CellRun, FilterSlice, GenerationNumber, LiveEvents, Probes, SliceOutline, Stamp, UnitNumber};

use super::cells::{CellPlace, PositionLists};
use super::names::{BatchName, NamedEvent};
use crate::ids::{Epoch, FilterId};
use crate::verdict::Decision;

/// Entry that a slice group persists.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Events recorded in a group that consists of one slice.
    Events {
        /// Number of the generation in which the events were recorded.
        generation: GenerationNumber,
        /// The recorded events.
        probes: Probes,
        /// Stamps, one for each event.
        stamps: Vec<Stamp>,
    },
    /// Cells that were set on this node, for events whose cells are spread over several slices.
    Set {
        /// Number of the generation in which the cells were set.
        generation: GenerationNumber,
        /// Positions of these cells within the group, one list for each event. Positions that belong to other nodes are
        /// left out.
        cells: PositionLists,
        /// Stamps, one for each event.
        stamps: Vec<Stamp>,
        /// Number of these events that count as recorded by this node.
        counted: u64,
    },
    /// Start of a batch that has no verdicts yet. If no `Replied` entry follows, the batch may have been recorded or
    /// not.
    Taken {
        /// Name of the batch.
        name: BatchName,
        /// Idempotency keys of the events, one for each event. The list is empty if the caller did not set any.
        names: Vec<NamedEvent>,
        /// Number of events in the batch.
        events: u32,
    },
    /// Replies to the events of a batch.
    Replied {
        /// Name of the batch.
        name: BatchName,
        /// Idempotency keys of the events, one for each event. The list is empty if the caller did not set any.
        names: Vec<NamedEvent>,
        /// Verdicts, one for each event.
        decisions: Vec<Decision>,
        /// Reading of the group's clock after the batch.
        clock: ClockReading,
    },
    /// Events that this level of a filter tree has decided without its parent level, and must report to it.
    Owed {
        /// Numbers of the events, in ascending order. Events that have not been reported have different numbers.
        numbers: Vec<u64>,
        /// Positions of the events at the root of the tree, one list for each event.
        positions: PositionLists,
        /// Stamps, one for each event.
        stamps: Vec<Stamp>,
    },
    /// Owed events that need not be reported any more, because the parent level has answered.
    Reported {
        /// Numbers of the events.
        numbers: Vec<u64>,
    },
    /// Start of a checkpoint.
    Checkpoint {
        /// Whether the group has everything that was ever recorded in it.
        is_complete: bool,
        /// Reading of the group's clock.
        clock: ClockReading,
        /// Number of the newest generation.
        newest: GenerationNumber,
        /// Number of events of that generation that count as recorded by this node.
        counted: LiveEvents,
    },
    /// Low-water marks of a checkpoint, below which batches and names have been answered.
    Marks {
        /// Marks of producers.
        producers: Vec<(u128, u64)>,
        /// Marks of the sources of idempotency keys.
        sources: Vec<(u128, u64)>,
    },
    /// Statement that this node was the head node of all recent events of the group, where an event is recent if a
    /// client may still retry it. The node therefore knows the replies to all possible retries. The statement was made
    /// under the cluster map with the given epoch, and stays valid until the head nodes change.
    Headed {
        /// Epoch of the cluster map.
        epoch: Epoch,
    },
    /// State of a slice in the checkpoint.
    Slice {
        /// Number of the slice in the group.
        slice: u32,
        /// State of the slice without its cells.
        outline: SliceOutline,
    },
    /// Cells of a slice in the checkpoint.
    Cells {
        /// Number of the slice in the group.
        slice: u32,
        /// The cells.
        run: CellRun,
    },
    /// End of a checkpoint, which is complete with this entry.
    CheckpointEnd,
}

/// Entries of one group that are persisted together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Filter that the group belongs to.
    pub filter: FilterId,
    /// Number of the group.
    pub group: u32,
    /// The entries, in the order of their creation.
    pub entries: Vec<Entry>,
}

/// Reading of a group's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Greatest unit of the window that the clock has reached.
    pub unit: UnitNumber,
    /// Greatest time in milliseconds since 1970, or `None` if no event had a time.
    pub time_ms: Option<u64>,
    /// Number of events, for windows that count events.
    pub events: u64,
}

/// Progress of a checkpoint.
#[derive(Clone, Debug, Default)]
pub struct CheckpointCursor {
    slice: usize,
    /// Generation whose cells are written at the moment. `None` means that no cells of the slice have been written yet.
    generation: Option<GenerationNumber>,
    start_bytes: u64,
}

impl CheckpointCursor {
    /// Creates a cursor at a place in the cells of a group with one slice.
    pub(crate) fn at(place: Option<CellPlace>) -> Self {
        let (generation, start_bytes) = place.map_or((None, 0), |place| (Some(place.generation), place.start_bytes));
        Self { slice: 0, generation, start_bytes }
    }

    /// Returns where the next cells begin, for a group with one slice. `None` means that no cells are left.
    pub(crate) fn place(&self) -> Option<CellPlace> {
        let Self { slice, generation, start_bytes } = *self;
        generation.filter(|_| slice == 0).map(|generation| CellPlace { generation, start_bytes })
    }

    /// Returns the next cells of `slices` as entries for a checkpoint. One call returns about `bytes_max` bytes of
    /// cells, and empty cells are left out. Returns `None` when all cells have been returned.
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
            // A generation that was dropped since the last call has no cells left. A generation that was opened since
            // then is covered by log entries, so its cells need not be part of the checkpoint.
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

/// Maximum number of bytes of cells in one entry.
const RUN_BYTES: usize = 64 << 10;
