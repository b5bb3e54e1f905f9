//! The journal entries of a group, which preserve its state when the process ends.
//!
//! When a batch of events arrives, its idempotency keys are written to the journal before any cell is set. The verdicts
//! are not known at that time. If the node then crashes, the restarted process recognizes a retry of the batch by these
//! keys. Without them, it would find the cells of the first attempt and call the events duplicates of themselves.
//!
//! In general, a journal entry is written before all replies and messages that depend on it.

use std::collections::BTreeMap;

use firstseen_filter::{GenerationNumber, Stamp};

use crate::group::site::Site;
use crate::ids::Epoch;
use crate::map::Durability;
use crate::protocol::{BatchName, ClockReading, Command, Entry, NamedEvent, PositionLists, SetBatch};
use crate::verdict::Decision;

/// Maximum number of events in one journal record, and in one entry with cells. The limit ensures that a record fits
/// into a segment of the journal. Entries with idempotency keys cannot be divided. If such an entry contains more
/// events than this limit, it becomes a record of its own.
const RECORD_EVENTS_MAX: usize = 1 << 10;

/// Journal entries that the inputs since the last call have caused.
pub(crate) struct ToPersist {
    keeps_journal: bool,
    entries: Vec<Entry>,
    /// Parts of copies. Each becomes a separate record, because parts are long.
    copied: Vec<Entry>,
    /// Events that this level of a filter tree has decided alone, and their numbers when they have been reported.
    owed: Vec<Entry>,
    /// During a restore, the batches that were accepted and whose replies have not been read yet.
    pub(super) taken: BTreeMap<BatchName, (Vec<NamedEvent>, u32)>,
    /// The epoch by which this node headed events when no submission could be retried any more that another node had
    /// headed.
    pub(super) headed_epoch: Option<Epoch>,
}

impl ToPersist {
    pub(super) fn new(durability: Durability) -> Self {
        Self {
            keeps_journal: durability.keeps_journal(),
            entries: Vec::new(),
            copied: Vec::new(),
            owed: Vec::new(),
            taken: BTreeMap::new(),
            headed_epoch: None,
        }
    }

    /// Adds that a batch was accepted and has no verdicts yet.
    pub(super) fn taken(&mut self, name: BatchName, names: &[NamedEvent], events: usize) {
        if self.keeps_journal {
            self.entries.push(Entry::Taken { name, names: names.to_vec(), events: events as u32 });
        }
    }

    /// Adds what the replay guard has learnt about a batch.
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

    /// Adds that cells of an event were set here.
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

    /// Notes that the event whose cells were added last counts as recorded by this node.
    pub(super) fn count(&mut self) {
        if let Some(Entry::Set { counted, .. }) = self.entries.last_mut() {
            *counted += 1;
        }
    }

    /// Adds that cells of another node's events were set here.
    pub(super) fn set_all(&mut self, batch: SetBatch) {
        if self.keeps_journal {
            let SetBatch { generation, cells, stamps, .. } = batch;
            self.entries.push(Entry::Set { generation, cells, stamps, counted: 0 });
        }
    }

    /// Adds that, by the map of this epoch, no submission can be retried any more that another node has headed.
    pub(super) fn headed(&mut self, epoch: Epoch) {
        if self.keeps_journal && self.headed_epoch.replace(epoch) != Some(epoch) {
            self.entries.push(Entry::Headed { epoch });
        }
    }

    /// Adds a part of a copy that was written into a slice.
    pub(super) fn copied(&mut self, part: Entry) {
        if self.keeps_journal {
            self.copied.push(part);
        }
    }

    /// Adds changes of the events that this level of a filter tree must report to its parent level.
    pub(super) fn owed(&mut self, changes: Vec<Entry>) {
        if self.keeps_journal {
            self.owed.extend(changes);
        }
    }

    /// Moves all entries, combined into records, into `commands`.
    pub(super) fn take(&mut self, site: &Site, commands: &mut Vec<Command>) {
        commands.extend(self.copied.drain(..).map(|part| site.persist(vec![part])));
        // An event that was decided alone comes before its cells. If only its cells were on disk after a crash, this
        // level would know the event and never report it.
        commands.extend(self.owed.drain(..).map(|change| site.persist(vec![change])));
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

/// Returns the number of events in a journal entry that count towards [`RECORD_EVENTS_MAX`]. Only events with cells or
/// idempotency keys count. For any other event, the entry contains only a decision of one or two bits, which does not
/// make a record large.
fn events_of(entry: &Entry) -> usize {
    match entry {
        Entry::Set { stamps, .. } => stamps.len(),
        Entry::Taken { names, .. } | Entry::Replied { names, .. } => names.len(),
        _ => 0,
    }
}
