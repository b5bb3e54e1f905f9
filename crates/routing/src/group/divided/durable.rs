//! What a group persists, so that it outlives the process.
//!
//! Promises: a batch is persisted as unknown before any cell is set for it, so that a retry is never taken for a
//! duplicate of itself; an entry leaves ahead of all replies and messages that follow from it. Must not know: bytes,
//! disks.

use std::collections::BTreeMap;

use firstseen_filter::{GenerationNumber, Stamp};

use crate::group::site::Site;
use crate::ids::Epoch;
use crate::map::Durability;
use crate::protocol::{BatchName, ClockReading, Command, Entry, NamedEvent, PositionLists, SetBatch};
use crate::verdict::Decision;

/// The most events in one record, and in one entry with cells, so that a record fits into a segment of the journal. A
/// larger batch has a record of its own.
const RECORD_EVENTS_MAX: usize = 1 << 10;

/// Entries to persist from the inputs since the last time.
pub(crate) struct ToPersist {
    keeps_journal: bool,
    entries: Vec<Entry>,
    /// Parts of copies, in entries of their own, as they are long.
    copied: Vec<Entry>,
    /// During a restore: batches that were taken up, and of which no reply was read yet.
    pub(super) taken: BTreeMap<BatchName, (Vec<NamedEvent>, u32)>,
    /// The epoch by which this node headed events when no submission could come again that another node had headed.
    pub(super) headed_epoch: Option<Epoch>,
}

impl ToPersist {
    pub(super) fn new(durability: Durability) -> Self {
        Self {
            keeps_journal: durability.keeps_journal(),
            entries: Vec::new(),
            copied: Vec::new(),
            taken: BTreeMap::new(),
            headed_epoch: None,
        }
    }

    /// A batch was taken up, and has no verdicts yet.
    pub(super) fn taken(&mut self, name: BatchName, names: &[NamedEvent], events: usize) {
        if self.keeps_journal {
            self.entries.push(Entry::Taken { name, names: names.to_vec(), events: events as u32 });
        }
    }

    /// What the guard has learnt of a batch.
    pub(super) fn replied(
        &mut self,
        name: BatchName,
        names: &[NamedEvent],
        decisions: &[Decision],
        clock: ClockReading,
    ) {
        if self.keeps_journal {
            self.entries.push(Entry::Replied { name, names: names.to_vec(), decisions: decisions.to_vec(), clock });
        }
    }

    /// Cells of an event were set here.
    pub(super) fn set(&mut self, number: GenerationNumber, positions: impl Iterator<Item = u64>, stamp: Stamp) {
        if !self.keeps_journal {
            return;
        }
        let takes_one_more = matches!(
            self.entries.last(),
            Some(Entry::Set { generation, stamps, .. }) if *generation == number && stamps.len() < RECORD_EVENTS_MAX
        );
        if !takes_one_more {
            let cells = PositionLists::default();
            self.entries.push(Entry::Set { generation: number, cells, stamps: Vec::new(), counted: 0 });
        }
        if let Some(Entry::Set { cells, stamps, .. }) = self.entries.last_mut() {
            cells.push(positions);
            stamps.push(stamp);
        }
    }

    /// The event whose cells were set last counts as recorded by this node.
    pub(super) fn count(&mut self) {
        if let Some(Entry::Set { counted, .. }) = self.entries.last_mut() {
            *counted += 1;
        }
    }

    /// Cells of another node's events were set here.
    pub(super) fn set_all(&mut self, batch: SetBatch) {
        if self.keeps_journal {
            let SetBatch { generation, cells, stamps, .. } = batch;
            self.entries.push(Entry::Set { generation, cells, stamps, counted: 0 });
        }
    }

    /// No submission may come again that another node has headed, by the map of this epoch.
    pub(super) fn headed(&mut self, epoch: Epoch) {
        if self.keeps_journal && self.headed_epoch.replace(epoch) != Some(epoch) {
            self.entries.push(Entry::Headed { epoch });
        }
    }

    /// Part of a copy was put in here.
    pub(super) fn copied(&mut self, part: Entry) {
        if self.keeps_journal {
            self.copied.push(part);
        }
    }

    /// Gives all entries, in records.
    pub(super) fn take(&mut self, site: &Site, commands: &mut Vec<Command>) {
        commands.extend(self.copied.drain(..).map(|part| site.persist(vec![part])));
        let mut record = Vec::new();
        let mut record_events = 0;
        for entry in self.entries.drain(..) {
            let events = events_of(&entry);
            if !record.is_empty() && record_events + events > RECORD_EVENTS_MAX {
                commands.push(site.persist(std::mem::take(&mut record)));
                record_events = 0;
            }
            record_events += events;
            record.push(entry);
        }
        if !record.is_empty() {
            commands.push(site.persist(record));
        }
    }
}

/// Events whose cells or names an entry has; a decision without a name takes a bit or two.
fn events_of(entry: &Entry) -> usize {
    match entry {
        Entry::Set { stamps, .. } => stamps.len(),
        Entry::Taken { names, .. } | Entry::Replied { names, .. } => names.len(),
        _ => 0,
    }
}
