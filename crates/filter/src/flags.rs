//! Common code of the kinds that answer each event with a flag (counting and stable filters), and the capacity limit of
//! such a filter.
//!
//! A counting filter at its capacity rejects new events, as the other kinds do.
//!
//! This module does not depend on cells.

use std::io::{self, Read, Write};

use crate::ahead::{Positions, walk};
use crate::events::Events;
use crate::generation::LiveEvents;
use crate::unit_number::UnitNumber;
use crate::{Stamp, Verdict, WindowRule};

/// Kind that answers each event with a flag: found or not found.
pub(crate) trait FlagKind: Sized {
    /// Prepares the filter for events whose positions are known but whose digests are not.
    fn keep_positions(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Locates and prefetches the cells of event `index`. If the pass `records` events, this includes the memory that
    /// recording touches.
    fn find<E: Events>(&self, events: E, index: usize, stamp: Stamp, records: bool) -> Positions;

    /// Tests event `index` and records it if it is new. Returns whether it was found.
    fn observe_one<E: Events>(&mut self, events: E, index: usize, stamp: Stamp, positions: &Positions) -> bool;

    /// Returns whether an event is found. Records nothing.
    fn look_up_one(&mut self, stamp: Stamp, positions: &Positions) -> bool;

    /// Observes every event of a batch. `duplicate[i]` tells whether event `i` was found.
    fn observe<E: Events>(&mut self, events: E, stamps: &[Stamp], duplicate: &mut [bool]) {
        let count = events.count();
        assert!(count == stamps.len() && count == duplicate.len(), "each event needs one stamp and one answer");
        walk(
            self,
            count,
            |kind, index| kind.find(events, index, stamps[index], true),
            |kind, index, positions| duplicate[index] = kind.observe_one(events, index, stamps[index], &positions),
        );
    }

    /// Looks up every event of a batch. `duplicate[i]` tells whether event `i` was found.
    fn lookup<E: Events>(&mut self, events: E, stamps: &[Stamp], duplicate: &mut [bool]) {
        let count = events.count();
        assert!(count == stamps.len() && count == duplicate.len(), "each event needs one stamp and one answer");
        walk(
            self,
            count,
            |kind, index| kind.find(events, index, stamps[index], false),
            |kind, index, positions| duplicate[index] = kind.look_up_one(stamps[index], &positions),
        );
    }
}

/// Kind, together with the flags of its current batch and its capacity limit.
pub(crate) struct Flags<K> {
    pub(crate) kind: K,
    cap: Option<Cap>,
    duplicate: Vec<bool>,
}

/// Capacity limit: the maximum number of live events, and the current live events.
struct Cap {
    events_max: u64,
    rule: WindowRule,
    live: LiveEvents,
}

impl<K: FlagKind> Flags<K> {
    /// Creates a filter that never rejects an event.
    pub(crate) fn unlimited(kind: K) -> Self {
        Self { kind, cap: None, duplicate: Vec::new() }
    }

    /// Creates a filter that holds at most `events_max` live events under `rule`.
    pub(crate) fn limited(kind: K, events_max: Option<u64>, rule: WindowRule) -> Self {
        let cap = events_max.map(|events_max| Cap { events_max, rule, live: LiveEvents::default() });
        Self { kind, cap, duplicate: Vec::new() }
    }

    pub(crate) fn keep_positions(&mut self) -> io::Result<()> {
        self.kind.keep_positions()
    }

    pub(crate) fn lookup_batch<E: Events>(&mut self, events: E, stamps: &[Stamp], verdicts: &mut [Verdict]) {
        self.duplicate.resize(verdicts.len(), false);
        self.kind.lookup(events, stamps, &mut self.duplicate);
        self.write_verdicts(verdicts, Verdict::FirstSeen);
    }

    pub(crate) fn observe_batch<E: Events>(&mut self, events: E, stamps: &[Stamp], verdicts: &mut [Verdict]) {
        let count = events.count();
        assert!(count == stamps.len() && count == verdicts.len(), "each event needs one stamp and one verdict");
        let mut start = 0;
        while start < count {
            let (len, room) = self.segment(&stamps[start..]);
            let segment = start..start + len;
            let events = events.part(segment.clone());
            let stamps = &stamps[segment.clone()];
            self.duplicate.resize(len, false);
            if room > 0 {
                self.kind.observe(events, stamps, &mut self.duplicate);
                self.write_verdicts(&mut verdicts[segment], Verdict::FirstSeen);
                self.record(stamps[0].unit);
            } else {
                self.kind.lookup(events, stamps, &mut self.duplicate);
                self.write_verdicts(&mut verdicts[segment], Verdict::Undecided);
            }
            start += len;
        }
    }

    /// Returns how many events at the start of `stamps` fall into one unit and find room, and how much room there is.
    fn segment(&mut self, stamps: &[Stamp]) -> (usize, u64) {
        let Some(cap) = &mut self.cap else { return (stamps.len(), u64::MAX) };
        cap.live.advance(&cap.rule, stamps[0].judged);
        let room = cap.events_max.saturating_sub(cap.live.total());
        let same_unit = stamps.iter().take_while(|stamp| **stamp == stamps[0]).count();
        (if room > 0 { same_unit.min(usize::try_from(room).unwrap_or(usize::MAX)) } else { same_unit }, room)
    }

    fn record(&mut self, unit: UnitNumber) {
        if let Some(cap) = &mut self.cap {
            let recorded = self.duplicate.iter().filter(|duplicate| !**duplicate).count();
            cap.live.record(unit, recorded as u64);
        }
    }

    fn write_verdicts(&self, verdicts: &mut [Verdict], unseen: Verdict) {
        for (verdict, duplicate) in verdicts.iter_mut().zip(&self.duplicate) {
            *verdict = if *duplicate { Verdict::Duplicate } else { unseen };
        }
    }

    /// Returns the number of live events, if they are counted.
    pub(crate) fn live_events(&self) -> Option<u64> {
        self.cap.as_ref().map(|cap| cap.live.total())
    }

    pub(crate) fn write_cap(&self, sink: &mut dyn Write) -> io::Result<()> {
        self.cap.as_ref().map_or(Ok(()), |cap| cap.live.write(sink))
    }

    pub(crate) fn read_cap(&mut self, source: &mut dyn Read) -> io::Result<()> {
        let Some(cap) = &mut self.cap else { return Ok(()) };
        cap.live = LiveEvents::read(source, cap.rule.span_units.saturating_add(2))?;
        Ok(())
    }
}
