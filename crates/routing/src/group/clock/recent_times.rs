//! Remembers the event times that producers have sent recently, in units of the window. These times help to judge a
//! jump, which is an event time far ahead of the group's clock. A jump may be a mistake of the producer. It is accepted
//! if the time of day confirms it, or if enough recent events have times near it.
//!
//! If only one producer sends events, its jumps are accepted, because they cannot end the window of any other producer.
//! If several producers send events, a jump must meet one of two conditions:
//!
//! - More than half of the latest events, including those of the current batch, are near the new time. This condition
//!   also applies if the new time agrees with the time of day but many events of other producers are far from it.
//! - A quarter of the last 256 events are near the new time, and they are spread evenly over the 256 events. This
//!   condition helps producers that replay their logs at the same time, because the times in their logs may be far
//!   apart.
//!
//! A producer that has ended, or has sent nothing for [`SILENT_MS`] milliseconds, no longer influences the clock. For
//! example, a producer that replayed an old log and then stopped does not hold back the producers that send after it.
//!
//! The memory of this module is bounded. The latest events are stored as runs, where a run contains consecutive events
//! of one producer whose times lie in the same unit. A run needs a single entry, so no memory is allocated per event.

use std::collections::VecDeque;

use firstseen_filter::{AHEAD_EVENTS_MAX, Jump, Spread, UnitNumber};

use crate::protocol::{Tick, Times};

/// The sender of the current batch, which determines how much its event times are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchSender {
    /// A producer, identified by its incarnation.
    Producer(u128),
    /// Another level of a filter tree. Its own clock has already checked the times.
    Level,
}

/// Consecutive events of one producer with the same unit.
#[derive(Clone, Copy, Debug)]
struct UnitRun {
    producer: u128,
    unit: UnitNumber,
    events: usize,
    noted_ms: u64,
    /// Time at which the producer last sent an event of any unit.
    heard_ms: u64,
}

/// The latest events, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RecentTimes {
    runs: VecDeque<UnitRun>,
    events: usize,
    /// The greatest unit that was confirmed.
    anchor: Option<UnitNumber>,
    now_ms: u64,
}

/// Maximum age in milliseconds of events that show where the stream is now.
const LATELY_MS: u64 = 60_000;

/// Time in milliseconds after which a producer that sends nothing counts as ended.
const SILENT_MS: u64 = 3_000;

/// Minimum number of events that are examined. If fewer are known, the greatest confirmed unit stands for each missing
/// event.
const LOOKED_AT_MIN: usize = 16;

/// Number of events of other producers that outweigh the present, if they are far from it.
const OUTWEIGHING_EVENTS: usize = 64;

impl RecentTimes {
    /// Prepares for a batch at `now_ms` of the caller's clock. `anchor` is the greatest unit that was confirmed.
    pub(crate) fn open(&mut self, anchor: Option<UnitNumber>, now_ms: u64) {
        (self.anchor, self.now_ms) = (anchor, now_ms);
        // If the clock was set back, the difference does not tell how long ago an event was sent, so such events are
        // dropped too.
        self.keep(|run| run.noted_ms >= now_ms.saturating_sub(LATELY_MS) && now_ms.abs_diff(run.heard_ms) <= SILENT_MS);
    }

    /// Notes that a producer has ended. Its events no longer show where the stream is now.
    pub(crate) fn end(&mut self, producer: u128) {
        self.keep(|run| run.producer != producer);
    }

    /// Returns whether other producers have sent so many events far from the present that the present does not confirm
    /// the events of `sender`.
    pub(crate) fn outweighs_present(&self, sender: BatchSender) -> bool {
        let BatchSender::Producer(producer) = sender else { return false };
        let others = self.runs.iter().filter(|run| run.producer != producer);
        others.map(|run| run.events).sum::<usize>() >= OUTWEIGHING_EVENTS
    }

    /// Returns whether the recent events confirm a jump of the current batch of `events` events.
    pub(crate) fn confirms(&self, sender: BatchSender, times: &Times, events: usize, jump: Jump) -> bool {
        let BatchSender::Producer(producer) = sender else { return true };
        if self.runs.iter().all(|run| run.producer == producer) {
            return true;
        }
        let own = events.min(AHEAD_EVENTS_MAX);
        let own_from = match &times.ticks[..] {
            [] if times.base_unit >= jump.from => own,
            [] => 0,
            ticks => ticks.iter().rev().take(own).filter(|tick| tick.unit >= jump.from).count(),
        };
        let looked_at = self.looked_at(jump);
        let mut known = own;
        let mut said = own_from;
        for run in self.runs.iter().rev() {
            let events = run.events.min(looked_at.saturating_sub(known));
            known += events;
            said += if run.unit >= jump.from { events } else { 0 };
        }
        if let Some(anchor) = jump.anchor {
            let missing = looked_at.saturating_sub(known);
            known += missing;
            said += if anchor >= jump.from { missing } else { 0 };
        }
        2 * said > known || self.are_spread(times, own, jump.from)
    }

    /// Returns whether the latest events confirm that the clock may jump ahead to unit `from`. The events with this
    /// unit or a later one must be spread evenly over the latest events. If they instead come directly one after
    /// another, a single producer may have sent all of them by mistake, so they confirm nothing.
    ///
    /// The last `own` events, where `own` is the number of events of the current batch, are read from `times`.
    fn are_spread(&self, times: &Times, own: usize, from: UnitNumber) -> bool {
        let mut spread = Spread::default();
        match &times.ticks[..] {
            [] => spread.add(times.base_unit >= from, own),
            ticks => ticks.iter().rev().take(own).for_each(|tick| spread.add(tick.unit >= from, 1)),
        }
        for run in self.runs.iter().rev() {
            spread.add(run.unit >= from, run.events.min(AHEAD_EVENTS_MAX.saturating_sub(spread.known())));
        }
        spread.known() == AHEAD_EVENTS_MAX && spread.is_enough()
    }

    /// Returns how many of the latest events are examined to decide whether they confirm a jump. The number is one and
    /// a half times the number of remembered events whose times are near the present unit of the clock.
    ///
    /// The number therefore follows the speed of the stream. For example, if 20 remembered events are near the present
    /// unit, 30 events are examined. In a slow stream, few events are near any unit, so a few events are enough to
    /// advance the clock.
    fn looked_at(&self, Jump { now, tolerance_units, .. }: Jump) -> usize {
        let Some(now) = now else { return AHEAD_EVENTS_MAX };
        let runs = self.runs.iter().filter(|run| run.unit <= now && run.unit.after(tolerance_units) > now);
        let near: usize = runs.map(|run| run.events).sum();
        (near + near / 2).clamp(LOOKED_AT_MIN, AHEAD_EVENTS_MAX)
    }

    /// Notes the events of a batch. Events before the greatest confirmed unit are ignored, because they do not show
    /// where the stream is now.
    pub(crate) fn note(&mut self, sender: BatchSender, times: &Times, events: usize) {
        let BatchSender::Producer(producer) = sender else { return };
        let of_producer = self.runs.iter_mut().filter(|run| run.producer == producer);
        of_producer.for_each(|run| run.heard_ms = self.now_ms);
        match &times.ticks[..] {
            [] => self.push(producer, times.base_unit, events.min(AHEAD_EVENTS_MAX)),
            ticks => {
                let last = &ticks[ticks.len().saturating_sub(AHEAD_EVENTS_MAX)..];
                last.iter().for_each(|Tick { unit, .. }| self.push(producer, *unit, 1));
            }
        }
        while let Some(oldest) = self.runs.front()
            && self.events - oldest.events >= AHEAD_EVENTS_MAX
        {
            self.events -= oldest.events;
            self.runs.pop_front();
        }
    }

    /// Forgets all events.
    pub(crate) fn forget(&mut self) {
        self.keep(|_| false);
    }

    fn keep(&mut self, counts: impl Fn(&UnitRun) -> bool) {
        self.runs.retain(counts);
        self.events = self.runs.iter().map(|run| run.events).sum();
    }

    fn push(&mut self, producer: u128, unit: UnitNumber, events: usize) {
        if self.anchor.is_some_and(|anchor| unit < anchor) {
            return;
        }
        self.events += events;
        match self.runs.back_mut() {
            Some(last) if (last.producer, last.unit) == (producer, unit) => {
                last.events += events;
                last.noted_ms = self.now_ms;
            }
            _ => self.runs.push_back(UnitRun { producer, unit, events, noted_ms: self.now_ms, heard_ms: self.now_ms }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: BatchSender = BatchSender::Producer(1);
    const B: BatchSender = BatchSender::Producer(2);

    fn jump(from: u64) -> Jump {
        Jump { from: UnitNumber(from), anchor: None, now: None, tolerance_units: 0 }
    }

    fn times(units: &[u64]) -> Times {
        let ticks = units.iter().map(|unit| Tick { clock_unit: UnitNumber(*unit), unit: UnitNumber(*unit) }).collect();
        Times { base_unit: UnitNumber::FIRST, ticks, clock_ms: None, ttl_ms: None }
    }

    fn noted(batches: &[(BatchSender, u64, usize)]) -> RecentTimes {
        let mut lately = RecentTimes::default();
        batches.iter().for_each(|(sender, unit, events)| lately.note(*sender, &times(&vec![*unit; *events]), *events));
        lately
    }

    #[test]
    fn whoever_is_alone_bears_itself_out() {
        let new = times(&[900]);
        assert!(RecentTimes::default().confirms(A, &new, 1, jump(900)));
        assert!(noted(&[(A, 5, 300)]).confirms(A, &new, 1, jump(900)));
        assert!(!noted(&[(A, 5, 300)]).confirms(B, &new, 1, jump(900)));
        assert!(!noted(&[(B, 5, 1), (A, 5, 200)]).confirms(A, &new, 1, jump(900)));
        // Producer B has not sent anything for a long time.
        assert!(noted(&[(B, 5, 1), (A, 5, 256)]).confirms(A, &new, 1, jump(900)));
        assert!(noted(&[(B, 5, 300)]).confirms(BatchSender::Level, &new, 1, jump(900)));
    }

    #[test]
    fn more_than_half_of_the_last_events_bear_a_jump_out() {
        let many = |new: usize, old: usize| times(&[vec![900; new], vec![5; old]].concat());
        let lately = noted(&[(A, 5, 100), (B, 5, 156)]);
        assert!(
            !lately.confirms(A, &many(128, 0), 128, jump(900)) && lately.confirms(A, &many(129, 0), 129, jump(900))
        );
        assert!(!lately.confirms(A, &many(100, 400), 500, jump(900)));
        let still = Times { base_unit: UnitNumber(900), ..Times::default() };
        assert!(lately.confirms(A, &still, 129, jump(900)) && !lately.confirms(A, &still, 128, jump(900)));
        // Rejected events count as well, so a stream that has moved on takes its clock along.
        let lately = noted(&[(A, 5, 256), (B, 900, 60), (A, 900, 60)]);
        assert!(!lately.confirms(B, &many(8, 0), 8, jump(900)) && lately.confirms(B, &many(9, 0), 9, jump(900)));
    }

    /// Regression test: three log shippers replay their logs together, and two of them are far behind the third. In an
    /// earlier version, the events of the third shipper were rejected until the other two had ended.
    #[test]
    fn a_producer_that_is_ahead_all_the_time_bears_itself_out() {
        let together = |batch: usize, shippers: u64| {
            let turns = (0..300).map(|turn| (BatchSender::Producer(u128::from(turn % shippers)), turn % shippers));
            let batches = turns.map(|(sender, shipper)| (sender, if shipper == 0 { 900 } else { 5 }, batch));
            noted(&batches.collect::<Vec<_>>())
        };
        let ahead = BatchSender::Producer(0);
        let outcome =
            |lately: &RecentTimes, batch: usize| lately.confirms(ahead, &times(&vec![900; batch]), batch, jump(900));
        for batch in [1, 2, 5, 10, 30] {
            assert!(outcome(&together(batch, 3), batch), "batches of {batch}");
            assert!(!outcome(&together(batch, 5), batch), "batches of {batch}, a fifth of all");
        }
        assert!(!outcome(&together(40, 3), 40), "80 events in a row of others");
        // The new events are about a hundredth of all events here, and come from one of many producers.
        let lately = noted(&vec![(B, 5, 9); 40]);
        assert!(!lately.confirms(A, &times(&[900]), 1, jump(900)));
        let few = noted(&[(ahead, 900, 20), (A, 5, 40), (ahead, 900, 20), (B, 5, 40)]);
        assert!(!outcome(&few, 20), "not as many are known");
    }

    #[test]
    fn many_events_of_others_outweigh_the_present_until_they_are_long_ago() {
        assert!(!RecentTimes::default().outweighs_present(A));
        let mut lately = noted(&[(A, 5, 63), (B, 5, 256)]);
        assert!(
            !lately.outweighs_present(B)
                && lately.outweighs_present(A)
                && !lately.outweighs_present(BatchSender::Level)
        );
        assert!(noted(&[(A, 5, 64), (B, 5, 10)]).outweighs_present(B));
        // Producer B continues to send, but all of its events lie before the greatest confirmed unit.
        for now_ms in (0..=LATELY_MS).step_by(1_000) {
            lately.open(Some(UnitNumber(6)), now_ms);
            lately.note(B, &times(&[5]), 1);
        }
        assert!(lately.outweighs_present(A));
        lately.open(Some(UnitNumber(6)), LATELY_MS + 1);
        assert!(!lately.outweighs_present(A) && lately.runs.is_empty());
    }

    #[test]
    fn who_has_ended_or_is_silent_counts_no_more() {
        let (new, far) = (times(&[900]), jump(900));
        let mut lately = noted(&[(A, 5, 100), (B, 5, 100)]);
        lately.open(None, SILENT_MS);
        assert!(lately.outweighs_present(A) && !lately.confirms(A, &new, 1, far), "B has paused");
        lately.note(A, &times(&[5]), 1);
        lately.open(None, SILENT_MS + 1);
        assert!(!lately.outweighs_present(A) && lately.confirms(A, &new, 1, far), "B is silent");
        assert!(lately.outweighs_present(B) && !lately.confirms(B, &new, 1, far), "A is not");
        assert_eq!(lately.events, 101);
        lately.end(1);
        assert!(!lately.outweighs_present(B) && lately.confirms(B, &new, 1, far) && lately.events == 0);
        // If the owner's clock was set back by more than `SILENT_MS`, no producer holds back others.
        let mut lately = RecentTimes::default();
        lately.open(None, 1_000_000);
        lately.note(A, &times(&[5; 100]), 100);
        lately.open(None, 1_000);
        assert!(!lately.outweighs_present(B));
    }

    #[test]
    fn a_stream_that_goes_on_as_it_did_bears_itself_out() {
        // Two producers send alternately, ten events in a step of ten units, each event with its own unit.
        let mut lately = RecentTimes::default();
        for unit in 0..300 {
            lately.note(if unit % 2 == 0 { A } else { B }, &times(&[unit]), 1);
        }
        let (anchor, now) = (Some(UnitNumber(289)), Some(UnitNumber(299)));
        let jump = |from| Jump { from: UnitNumber(from), anchor, now, tolerance_units: 10 };
        let next = |unit| lately.confirms(A, &times(&[unit]), 1, jump(unit - 10));
        assert!(next(301) && next(302) && !next(303) && !next(400));
        // The greatest confirmed unit stands for each event that is not known.
        let mut few = RecentTimes::default();
        few.open(Some(UnitNumber(5)), 0);
        few.note(B, &times(&[4, 4, 4]), 3);
        assert!(few.runs.is_empty(), "what is behind it tells nothing");
        few.note(B, &times(&[6]), 1);
        let (anchor, now) = (Some(UnitNumber(5)), Some(UnitNumber(6)));
        let jump = |from| Jump { from: UnitNumber(from), anchor, now, tolerance_units: 1 };
        let many = |events: usize| few.confirms(A, &times(&vec![9; events]), events, jump(9));
        assert!(few.confirms(A, &times(&[9]), 1, jump(5)) && !many(1) && !many(8) && many(9));
    }

    #[test]
    fn no_more_is_kept_than_is_looked_at() {
        let mut lately = RecentTimes::default();
        for unit in 0..10_000 {
            lately.note(A, &times(&[unit, unit + 1, unit + 2]), 3);
            assert!(lately.events <= 2 * AHEAD_EVENTS_MAX && lately.runs.len() <= AHEAD_EVENTS_MAX);
        }
        lately.note(B, &Times::default(), 1 << 20);
        assert_eq!((lately.runs.len(), lately.events), (1, AHEAD_EVENTS_MAX));
        lately.forget();
        assert_eq!((lately.runs.len(), lately.events), (0, 0));
    }
}
