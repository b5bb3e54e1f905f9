//! Events that a level of a tree has decided by itself while the level above was out of reach: these are *owed*, and
//! are *brought up* (they climb) when that level is back.
//!
//! Promises: where the tree's policy allows it, an event that cannot climb is first-seen by what is known here; the
//! reply is marked degraded, and the event is written down. The list is bounded, and beyond it events are undecided
//! again. Everything on it climbs in the end; events that turn out to be first-seen elsewhere too are counted. Must not
//! know: how it is noticed that the level above is out of reach.

use std::collections::VecDeque;

use firstseen_filter::{ProbeShape, Probes, Stamp, UnitNumber};

use crate::group::state::OwedCounts;
use crate::protocol::{Climbed, MonotonicMs, Tick};
use crate::verdict::{Decision, Reason};

/// Events that climb together.
const REPLAY_EVENTS_MAX: usize = 1 << 12;
/// The pause after a replay that has brought up nothing.
const REPLAY_PAUSE_MS: u64 = 1_000;

/// First-seen events that this level has decided alone.
#[derive(Default)]
pub(super) struct OwedToParent {
    /// Oldest first.
    entries: VecDeque<OwedEvent>,
    /// The replay that is under way: its number, and how many of the oldest it brings up.
    under_way: Option<(u64, usize)>,
    next_ms: MonotonicMs,
    counts: OwedCounts,
}

struct OwedEvent {
    /// Positions of the root.
    positions: Box<[u64]>,
    stamp: Stamp,
    /// An earlier attempt, of which nothing is known, may have recorded the event above.
    may_be_above: bool,
}

impl OwedToParent {
    pub(super) fn events(&self) -> usize {
        self.entries.len()
    }

    /// This level alone has called an event first-seen; an earlier attempt, of which nothing is known, may have
    /// recorded it above (`may_be_above`).
    pub(super) fn push(&mut self, positions: Box<[u64]>, stamp: Stamp, may_be_above: bool) {
        self.entries.push_back(OwedEvent { positions, stamp, may_be_above });
        self.counts.local_events += 1;
    }

    /// When a replay may begin.
    pub(super) fn next_ms(&self) -> Option<MonotonicMs> {
        (!self.entries.is_empty() && self.under_way.is_none()).then_some(self.next_ms)
    }

    /// The oldest events climb with question `number`: returns their positions, of `shape`, and times.
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
        self.under_way = Some((number, ticks.len()));
        (probes, ticks)
    }

    /// No answer to the replay that is under way will come: the level above may have recorded its events.
    pub(super) fn interrupt(&mut self) {
        let events = self.under_way.take().map_or(0, |(_, events)| events);
        self.entries.iter_mut().take(events).for_each(|entry| entry.may_be_above = true);
    }

    /// The level above has answered a replay; false where the answer is about something else.
    pub(super) fn end(&mut self, climbed: &Climbed, now_ms: MonotonicMs) -> bool {
        let Some((_, events)) = self.under_way.take_if(|(number, _)| *number == climbed.number) else {
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

    /// Counts of the events that this level has decided alone.
    pub(super) fn counts(&self) -> OwedCounts {
        OwedCounts { waiting_events: self.entries.len() as u64, ..self.counts }
    }
}
