//! Events that a level of a filter tree has decided alone because its parent level was unreachable. The level *owes*
//! these events to the parent, because the parent does not know them yet. When the parent is back, the level *brings
//! up* the events, which means that it sends them to the parent.
//!
//! The policy of a filter tree can allow a level to decide alone while its parent level is unreachable. If such a level
//! does not know an event itself, it calls the event first-seen. It marks the reply as degraded, because another site
//! may have seen the event, and stores the event until it can be sent to the parent.
//!
//! The number of stored events is bounded. When the bound is reached, further new events are undecided.
//!
//! A level with a journal writes each event that it decides alone to the journal before it replies first-seen
//! (`Entry::Owed`). When the parent has recorded or rejected the event, the level writes the number of the event
//! (`Entry::Reported`). After a restart, the level sends every event to the parent for which the journal lacks this
//! second entry.
//!
//! When the events are sent to the parent, the parent may already know some of them, because another leaf has called
//! them first-seen too. Consumers have received these events twice, so the level counts them.

use std::collections::VecDeque;

use firstseen_filter::{ProbeShape, Probes, Stamp, UnitNumber};

use crate::group::state::OwedCounts;
use crate::protocol::{Entry, LevelReply, MonotonicMs, PositionLists, Tick};
use crate::verdict::{Decision, Reason};

/// Maximum number of events that are sent together.
const REPLAY_EVENTS_MAX: usize = 1 << 12;
/// Pause in milliseconds after a replay that has brought up nothing.
const REPLAY_PAUSE_MS: u64 = 1_000;
/// Maximum number of events in one journal entry.
const ENTRY_EVENTS_MAX: usize = 1 << 10;

/// First-seen events that this level has decided alone.
#[derive(Default)]
pub(super) struct PendingReports {
    /// The events, oldest first.
    entries: VecDeque<OwedEvent>,
    /// The replay that is under way, as its number and the number of oldest events that it contains.
    in_progress: Option<(u64, usize)>,
    next_ms: MonotonicMs,
    counts: OwedCounts,
    /// The number of the next event.
    next_number: u64,
    /// Events with smaller numbers are in the journal.
    next_to_persist: u64,
    /// Numbers of events that the parent has answered, if the journal does not contain this yet.
    reported: Vec<u64>,
}

struct OwedEvent {
    /// Number of the event in the journal. The numbers of the stored events are ascending.
    number: u64,
    /// Positions at the root.
    positions: Box<[u64]>,
    stamp: Stamp,
    /// Time at which this process stored the event.
    since_ms: MonotonicMs,
    /// Whether an earlier attempt with unknown result may have recorded the event at the parent level.
    may_be_above: bool,
}

impl PendingReports {
    pub(super) fn events(&self) -> usize {
        self.entries.len()
    }

    /// Stores an event that this level has called first-seen without asking its parent, until the event can be
    /// reported. `may_be_above` is `true` if an earlier query about the event got no reply. The parent may then have
    /// recorded the event already.
    pub(super) fn push(&mut self, positions: Box<[u64]>, stamp: Stamp, since_ms: MonotonicMs, may_be_above: bool) {
        let number = self.next_number;
        self.entries.push_back(OwedEvent { number, positions, stamp, since_ms, may_be_above });
        self.next_number += 1;
        self.counts.local_events += 1;
    }

    /// Stores an event that an earlier process has written to the journal. An event that is already stored is ignored,
    /// because a checkpoint may contain it as well as an earlier or later entry.
    ///
    /// A number may occur again for another event. If a slice leaves a node and comes back, its group starts without
    /// events, while the journal may still contain entries of the former group.
    pub(super) fn restore(&mut self, number: u64, positions: Box<[u64]>, stamp: Stamp, since_ms: MonotonicMs) {
        let Err(index) = self.entries.binary_search_by_key(&number, |entry| entry.number) else { return };
        // The earlier process may have reported the event.
        self.entries.insert(index, OwedEvent { number, positions, stamp, since_ms, may_be_above: true });
        self.next_number = self.next_number.max(number.saturating_add(1));
        self.next_to_persist = self.next_number;
    }

    /// Forgets an event, because the journal says that the parent has answered it.
    pub(super) fn restore_reported(&mut self, number: u64) {
        if let Ok(index) = self.entries.binary_search_by_key(&number, |entry| entry.number) {
            self.entries.remove(index);
        }
    }

    /// Returns the journal entries for everything that has changed since the last call.
    pub(super) fn take_journal(&mut self) -> Vec<Entry> {
        let first = self.entries.partition_point(|entry| entry.number < self.next_to_persist);
        let mut changes = entries(self.entries.range(first..));
        self.next_to_persist = self.next_number;
        if !self.reported.is_empty() {
            changes.push(Entry::Reported { numbers: std::mem::take(&mut self.reported) });
        }
        changes
    }

    /// Returns the journal entries of a checkpoint, which contain all stored events.
    pub(super) fn checkpoint(&self) -> Vec<Entry> {
        entries(self.entries.iter())
    }

    /// Returns the time at which a replay may begin.
    pub(super) fn next_ms(&self) -> Option<MonotonicMs> {
        (!self.entries.is_empty() && self.in_progress.is_none()).then_some(self.next_ms)
    }

    /// Begins a replay of the oldest events with query `number`. Returns their positions, which have the given `shape`,
    /// and their times.
    pub(super) fn begin(&mut self, number: u64, shape: ProbeShape) -> (Probes, Vec<Tick>) {
        let oldest = self.entries.iter().take(REPLAY_EVENTS_MAX);
        let mut probes = Probes::new(shape);
        let mut ticks = Vec::new();
        let mut clock_unit = UnitNumber::FIRST;
        for OwedEvent { positions, stamp, .. } in oldest {
            let pushed = probes.push_positions(positions);
            debug_assert!(pushed.is_ok(), "positions of the root");
            clock_unit = stamp.judged.max(clock_unit);
            ticks.push(Tick { clock_unit, unit: stamp.unit });
        }
        self.in_progress = Some((number, ticks.len()));
        (probes, ticks)
    }

    /// Notes that the replay under way gets no reply. The parent level may have recorded its events.
    pub(super) fn interrupt(&mut self) {
        let events = self.in_progress.take().map_or(0, |(_, events)| events);
        self.entries.iter_mut().take(events).for_each(|entry| entry.may_be_above = true);
    }

    /// Forgets the events of the replay that is under way, although the parent level has not answered. This breaks
    /// `Rule::ReportsUntilAnswered`.
    pub(super) fn forget_replay(&mut self) {
        let events = self.in_progress.take().map_or(0, |(_, events)| events);
        self.reported.extend(self.entries.drain(..events).map(|entry| entry.number));
    }

    /// Handles the parent level's reply to a replay. Returns `false` if the reply belongs to another query.
    pub(super) fn end(&mut self, climbed: &LevelReply, now_ms: MonotonicMs) -> bool {
        let Some((_, events)) = self.in_progress.take_if(|(number, _)| *number == climbed.number) else {
            return false;
        };
        let mut kept = VecDeque::new();
        for (index, mut entry) in self.entries.drain(..events).enumerate() {
            let counts = &mut self.counts;
            match climbed.decisions.get(index).copied().unwrap_or(Decision::Undecided(Reason::Unknown)) {
                Decision::FirstSeen => {}
                Decision::Duplicate => counts.double_deliveries += u64::from(!entry.may_be_above),
                Decision::Undecided(Reason::Late | Reason::Full | Reason::Invalid | Reason::UnknownFilter) => {
                    counts.lost_events += 1;
                }
                Decision::Undecided(reason) => {
                    entry.may_be_above |= reason.may_have_recorded();
                    kept.push_back(entry);
                    continue;
                }
            }
            self.reported.push(entry.number);
        }
        let pause_ms = if kept.len() == events { REPLAY_PAUSE_MS } else { 0 };
        self.next_ms = now_ms.after(pause_ms);
        kept.append(&mut self.entries);
        self.entries = kept;
        true
    }

    /// Returns the counts of the events that this level has decided alone.
    pub(super) fn counts(&self) -> OwedCounts {
        let oldest_since_ms = self.entries.front().map(|entry| entry.since_ms);
        OwedCounts { waiting_events: self.entries.len() as u64, oldest_since_ms, ..self.counts }
    }
}

/// Returns journal entries that contain these events.
fn entries<'a>(events: impl Iterator<Item = &'a OwedEvent>) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut events = events.peekable();
    while events.peek().is_some() {
        let mut numbers = Vec::new();
        let mut positions = PositionLists::default();
        let mut stamps = Vec::new();
        for event in events.by_ref().take(ENTRY_EVENTS_MAX) {
            numbers.push(event.number);
            positions.push(event.positions.iter().copied());
            stamps.push(event.stamp);
        }
        entries.push(Entry::Owed { numbers, positions, stamps });
    }
    entries
}
