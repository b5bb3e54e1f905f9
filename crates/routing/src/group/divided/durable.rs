//! What a group persists, so that it outlives the process.
//!
//! Promises: a batch is persisted as unknown before any cell is set for it, so that a retry is never taken for a
//! duplicate of itself; an entry leaves ahead of all replies and messages that follow from it. Must not know: bytes,
//! disks.

use std::collections::BTreeMap;

use firstseen_filter::{FilterSlice, GenerationNumber, LiveEvents, PartError, Stamp};

use super::DividedGroup;
use crate::group::parts::TakesParts;
use crate::group::persisting::{checkpoint, restore_names};
use crate::group::rules::Rule;
use crate::group::site::Site;
use crate::ids::Epoch;
use crate::map::Durability;
use crate::protocol::{BatchName, ClockReading, Command, Entry, Mirrored, Moment, NamedEvent, PositionLists, SetBatch};
use crate::verdict::{Decision, Reason};

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
    taken: BTreeMap<BatchName, (Vec<NamedEvent>, u32)>,
    /// The epoch by which this node headed events when no submission could come again that another node had headed.
    headed_epoch: Option<Epoch>,
}

impl ToPersist {
    pub(super) fn new(durability: Durability) -> Self {
        let (entries, copied) = (Vec::new(), Vec::new());
        Self { keeps_journal: durability.keeps_journal(), entries, copied, taken: BTreeMap::new(), headed_epoch: None }
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
        let takes_one_more = |entry: &Entry| match entry {
            Entry::Set { generation, stamps, .. } => *generation == number && stamps.len() < RECORD_EVENTS_MAX,
            _ => false,
        };
        if !self.entries.last().is_some_and(takes_one_more) {
            let (cells, stamps) = (PositionLists::default(), Vec::new());
            self.entries.push(Entry::Set { generation: number, cells, stamps, counted: 0 });
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
    fn headed(&mut self, epoch: Epoch) {
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
        let (mut record, mut record_events) = (Vec::new(), 0);
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

impl DividedGroup {
    /// Takes up an entry that an earlier process of this node has persisted.
    pub(crate) fn restore(&mut self, entry: Entry, now: Moment) -> Result<(), PartError> {
        self.present.begin(now);
        if let Entry::Replied { name, .. } = &entry {
            self.kept.taken.remove(name);
        }
        let Some(entry) = restore_names(entry, &mut self.guard, &mut self.present) else { return Ok(()) };
        match entry {
            // The map, which is newer than any entry, names every generation that was opened.
            Entry::Set { generation, .. } | Entry::Checkpoint { newest: generation, .. }
                if generation > self.fill.newest() =>
            {
                return Err(PartError::Misfit("a generation that was never opened"));
            }
            Entry::Set { generation, cells, stamps, counted } => {
                let mut is_full = false;
                for (positions, stamp) in cells.iter().zip(&stamps) {
                    if !self.membership.placement().admits(positions) {
                        return Err(PartError::Misfit("positions of another group"));
                    }
                    match self.own.put(self.membership.placement(), positions, *stamp, generation) {
                        // Elsewhere in the slice there may be room for the others.
                        Err(PartError::Full) => is_full = true,
                        put => put?,
                    }
                    self.fill.advance(stamp.unit);
                }
                if self.fill.newest() == generation {
                    (0..counted.min(stamps.len() as u64)).for_each(|_| self.fill.record());
                }
                return if is_full { Err(PartError::Full) } else { Ok(()) };
            }
            Entry::Taken { name, names, events } => drop(self.kept.taken.insert(name, (names, events))),
            Entry::Checkpoint { clock, newest, counted, .. } => {
                self.present.clock_mut().restore(clock);
                if self.fill.newest() == newest {
                    self.fill.restore(counted);
                }
            }
            // What is not here any more, nobody needs.
            Entry::Slice { slice, .. } | Entry::Cells { slice, .. } if !self.own.has(slice) => {}
            Entry::Slice { .. } | Entry::Cells { .. } => self.own.put_part(&entry)?,
            Entry::Headed { epoch } => self.kept.headed_epoch = Some(epoch),
            Entry::Replied { .. } | Entry::Marks { .. } | Entry::CheckpointEnd => {}
            Entry::Events { .. } => return Err(PartError::Misfit("an entry of a group that is one slice")),
        }
        Ok(())
    }

    /// All has been taken up.
    pub(crate) fn end_restore(&mut self, is_whole: bool) {
        let knows_heads = self.kept.headed_epoch == Some(self.membership.placement().epoch());
        self.membership.end_restore(is_whole, knows_heads);
        for (name, (names, events)) in std::mem::take(&mut self.kept.taken) {
            let decisions = vec![Decision::Undecided(Reason::Unknown); events as usize];
            if self.present.keeps(Rule::RestoresNames) {
                self.guard.restore(&(name, names, decisions), self.present.now_ms());
            }
        }
        self.own.recount();
    }

    /// Begins a checkpoint: all but the cells.
    pub(crate) fn checkpoint(&self, is_complete: bool) -> Vec<Entry> {
        let clock = self.present.clock().reading();
        let counted: LiveEvents = self.fill.counted().clone();
        let mut entries = vec![Entry::Checkpoint { is_complete, clock, newest: self.fill.newest(), counted }];
        entries.extend(self.kept.headed_epoch.map(|epoch| Entry::Headed { epoch }));
        let mut entries = checkpoint(entries, &self.guard, self.present.clock(), &self.slices());
        let first_tickets = self.in_flight.flights.batches();
        let open = first_tickets.into_iter().filter_map(|ticket| self.in_flight.flights.batch(ticket));
        entries.extend(open.filter(|batch| batch.is_unlearnt()).map(|batch| Entry::Taken {
            name: batch.header().name(),
            names: batch.header().names.clone(),
            events: batch.flights().len() as u32,
        }));
        entries
    }

    /// Persists the map by which this node heads events, once no submission may come again that others have headed.
    pub(super) fn keep_head(&mut self) {
        if self.membership.heads_all_that_may_come(self.present.now_ms()) {
            self.kept.headed(self.membership.placement().epoch());
        }
    }

    /// Another head has given these replies.
    pub(super) fn hear_replies(&mut self, mirrored: &Mirrored) {
        let replies = (mirrored.name, mirrored.names.clone(), mirrored.decisions.clone());
        if self.present.keeps(Rule::RestoresNames) {
            self.guard.restore(&replies, self.present.now_ms());
        }
        self.kept.replied(mirrored.name, &mirrored.names, &mirrored.decisions, mirrored.clock);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.membership.wholeness().is_complete()
    }

    /// By their number in the group.
    pub(crate) fn slices(&self) -> Vec<Option<&FilterSlice>> {
        self.own.slices().iter().map(Option::as_ref).collect()
    }
}
