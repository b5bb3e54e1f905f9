//! What a level of a tree has told by itself while the level above was out of reach, to be brought up when it is back.
//!
//! Promises: where the tree's policy allows it, an event that cannot climb is told first-seen by what is known here, marked
//! degraded, and written down; what is written down is bounded, and beyond it events are undecided again. Everything
//! written down climbs in the end; what turns out to have been told first-seen elsewhere too is counted. Must not know:
//! how it is noticed that the level above is out of reach.

use std::collections::VecDeque;

use firstseen_filter::{Probes, Stamp};

use super::DividedGroup;
use crate::group::state::JournalCounts;
use crate::map::CutOff;
use crate::protocol::{Climb, Climbed, Command, FromLevel, Operation, Tick, Times};
use crate::verdict::{Decision, Reason, Seen};

/// Events that are brought up together.
const REPLAY_EVENTS_MAX: usize = 1 << 12;
/// The pause after a replay that has brought up nothing.
const REPLAY_PAUSE_MS: u64 = 1_000;
/// How long a replay may take.
const REPLAY_PATIENCE_MS: u64 = 10_000;

/// Events that were told first-seen by this level alone.
#[derive(Default)]
pub(super) struct Journal {
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// The replay that is under way: its number, and how many of the oldest it brings up.
    under_way: Option<(u64, usize)>,
    next_ms: u64,
    pub(super) counts: JournalCounts,
}

struct Entry {
    /// Positions of the root.
    positions: Box<[u64]>,
    stamp: Stamp,
    /// An attempt of which nothing is known may have recorded it above.
    may_be_above: bool,
}

impl DividedGroup {
    /// Tells an event that cannot climb by what is known here, if that is allowed and can be written down.
    pub(super) fn tell_alone(&mut self, ticket: u64, reason: Reason) -> bool {
        let cannot_climb = matches!(reason, Reason::Unknown | Reason::NotReady | Reason::SlicesDown);
        let allowed = self.level.as_ref().is_some_and(|level| level.cut_off == CutOff::Local);
        if !cannot_climb || !allowed || self.journal.entries.len() >= self.limits.journal_events_max {
            return false;
        }
        // What is told alone is known here the next time, or is not told.
        let unit = self.flight_mut(ticket).map_or(0, |flight| flight.stamp.unit);
        if self.room(unit).is_err() {
            return false;
        }
        let Some(flights) = &mut self.flights else { return false };
        let positions: Box<[u64]> = flights.identity(ticket).into();
        let Some((batch, event)) = flights.event_mut(ticket).filter(|(batch, _)| batch.head.records()) else {
            return false;
        };
        batch.degraded = true;
        let stamp = batch.flights[event].stamp;
        let may_be_above = reason == Reason::Unknown;
        self.journal.entries.push_back(Entry { positions, stamp, may_be_above });
        self.journal.counts.local_events += 1;
        self.take_over(ticket, Decision::FirstSeen, Seen { unit: Some(stamp.unit), level: 0 });
        true
    }

    /// When [`Self::replay_journal`] has something to do.
    pub(super) fn next_replay_ms(&self) -> Option<u64> {
        let Journal { entries, under_way, next_ms, .. } = &self.journal;
        (!entries.is_empty() && under_way.is_none()).then_some(*next_ms)
    }

    /// Brings up what was written down first.
    pub(super) fn replay_journal(&mut self) {
        let now_ms = self.now.monotonic_ms;
        if self.next_replay_ms().is_none_or(|next_ms| next_ms > now_ms) {
            return;
        }
        let Some((parent, shape)) = self.level.as_ref().and_then(|level| Some((level.parent?, level.root_shape())))
        else {
            return;
        };
        let oldest = self.journal.entries.iter().take(REPLAY_EVENTS_MAX);
        let (mut probes, mut ticks, mut clock_unit) = (Probes::new(shape), Vec::new(), 0);
        for Entry { positions, stamp, .. } in oldest {
            let pushed = probes.push_positions(positions);
            debug_assert!(pushed.is_ok(), "positions of the root");
            clock_unit = stamp.judged.max(clock_unit);
            ticks.push(Tick { clock_unit, unit: stamp.unit });
        }
        let number = self.climbs.number();
        self.journal.under_way = Some((number, ticks.len()));
        let base_unit = ticks.first().map_or(0, |tick| tick.clock_unit);
        self.outbox.push(Command::Climb(Climb {
            number,
            from: FromLevel { filter: self.filter, complete: false },
            group: self.group,
            to: parent,
            operation: Operation::Record,
            probes,
            times: Times { base_unit, ticks, clock_ms: self.clock.clock_ms() },
            deadline_ms: now_ms + REPLAY_PATIENCE_MS,
            again: false,
            traceparent: None,
        }));
    }

    /// The level above has answered a replay; false where the answer is about something else.
    pub(super) fn replayed(&mut self, climbed: &Climbed) -> bool {
        let Some((_, events)) = self.journal.under_way.take_if(|(number, _)| *number == climbed.number) else {
            return false;
        };
        let mut kept = VecDeque::new();
        for (index, mut entry) in self.journal.entries.drain(..events).enumerate() {
            let counts = &mut self.journal.counts;
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
        self.journal.next_ms = self.now.monotonic_ms + pause_ms;
        kept.append(&mut self.journal.entries);
        self.journal.entries = kept;
        true
    }

    /// What has become of events that were told here alone.
    pub(crate) fn journal_counts(&self) -> JournalCounts {
        JournalCounts { waiting_events: self.journal.entries.len() as u64, ..self.journal.counts }
    }
}
