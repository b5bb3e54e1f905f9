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
//! When the events are sent to the parent, the parent may already know some of them, because another leaf has called
//! them first-seen too. Consumers have received these events twice, so the level counts them.

use std::collections::VecDeque;

use firstseen_filter::{ProbeShape, Probes, Stamp, UnitNumber};

use crate::group::state::OwedCounts;
use crate::protocol::{LevelReply, MonotonicMs, Tick};
use crate::verdict::{Decision, Reason};

/// Maximum number of events that are sent together.
const REPLAY_EVENTS_MAX: usize = 1 << 12;
/// Pause in milliseconds after a replay that has brought up nothing.
const REPLAY_PAUSE_MS: u64 = 1_000;

/// First-seen events that this level has decided alone.
#[derive(Default)]
pub(super) struct PendingReports {
    /// The events, oldest first.
    entries: VecDeque<OwedEvent>,
    /// The replay that is under way, as its number and the number of oldest events that it contains.
    in_progress: Option<(u64, usize)>,
    next_ms: MonotonicMs,
    counts: OwedCounts,
}

struct OwedEvent {
    /// Positions at the root.
    positions: Box<[u64]>,
    stamp: Stamp,
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
    pub(super) fn push(&mut self, positions: Box<[u64]>, stamp: Stamp, may_be_above: bool) {
        self.entries.push_back(OwedEvent { positions, stamp, may_be_above });
        self.counts.local_events += 1;
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
                }
            }
        }
        let pause_ms = if kept.len() == events { REPLAY_PAUSE_MS } else { 0 };
        self.next_ms = now_ms.after(pause_ms);
        kept.append(&mut self.entries);
        self.entries = kept;
        true
    }

    /// Returns the counts of the events that this level has decided alone.
    pub(super) fn counts(&self) -> OwedCounts {
        OwedCounts { waiting_events: self.entries.len() as u64, ..self.counts }
    }
}
