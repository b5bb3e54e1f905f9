//! Which units were sent lately, and by which producers: these bear out a jump of the clock that the time of day does
//! not.
//!
//! If one producer alone sends old events, its jump is accepted: no other producer's window ends by it, and the
//! producer's own clock has looked at the events that come next. If others send too, more than half of the latest
//! events, those of the present batch included, must be near the new time, also if that time is the present. A quarter
//! of the last 256 is enough where it is spread over all of them: producers that replay together may be far apart.
//!
//! A producer that has ended, or has been silent for [`SILENT_MS`], no longer counts: a log that was replayed does not
//! hold back the producers that come after it.
//!
//! Promises: bounded; a run of equal units of one producer is one entry, and nothing is allocated for an event. Must not
//! know: clocks, what a unit is, what time it is (moments are passed in).

use std::collections::VecDeque;

use firstseen_filter::{AHEAD_EVENTS_MAX, Jump, Spread, UnitNumber};

use crate::protocol::{Tick, Times};

/// The sender of the batch in hand, which decides how far the batch is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchSender {
    /// A producer, by its incarnation.
    Producer(u128),
    /// Another level of a tree, whose own clock has taken the times.
    Level,
}

/// Events of one producer and unit.
#[derive(Clone, Copy, Debug)]
struct UnitRun {
    producer: u128,
    unit: UnitNumber,
    events: usize,
    noted_ms: u64,
    /// When the producer has sent last, of whatever unit.
    heard_ms: u64,
}

/// The last events, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Lately {
    runs: VecDeque<UnitRun>,
    events: usize,
    /// The greatest unit that was borne out.
    anchor: Option<UnitNumber>,
    now_ms: u64,
}

/// Events that were sent longer ago do not show where the stream is.
const LATELY_MS: u64 = 60_000;

/// A producer that has sent nothing for longer than this counts as ended.
const SILENT_MS: u64 = 3_000;

/// At least so many events are looked at; the anchor stands for each that is missing.
const LOOKED_AT_MIN: usize = 16;

/// So many events of other producers, far from the present, outweigh the present.
const OUTWEIGHING_EVENTS: usize = 64;

impl Lately {
    /// Before a batch, at `now_ms` by the caller's clock; `anchor` is the greatest unit that was borne out.
    pub(crate) fn open(&mut self, anchor: Option<UnitNumber>, now_ms: u64) {
        (self.anchor, self.now_ms) = (anchor, now_ms);
        // A clock that was set back says nothing of how long ago that was.
        self.keep(|run| run.noted_ms >= now_ms.saturating_sub(LATELY_MS) && now_ms.abs_diff(run.heard_ms) <= SILENT_MS);
    }

    /// A producer has ended, so that its events do not show where the stream is now.
    pub(crate) fn end(&mut self, producer: u128) {
        self.keep(|run| run.producer != producer);
    }

    /// Whether other producers have sent so many events far from the present that the present does not bear out the
    /// events of `sender`.
    pub(crate) fn outweighs_present(&self, sender: BatchSender) -> bool {
        let BatchSender::Producer(producer) = sender else { return false };
        let others = self.runs.iter().filter(|run| run.producer != producer);
        others.map(|run| run.events).sum::<usize>() >= OUTWEIGHING_EVENTS
    }

    /// Whether a jump of the batch in hand, of `events` events, is borne out.
    pub(crate) fn bears_out(&self, sender: BatchSender, times: &Times, events: usize, jump: Jump) -> bool {
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

    /// Whether events of `from` or later are spread over all of the last ones, of which the last `own` are in the batch in
    /// hand.
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

    /// How many events are looked at: half as many again as are near where the clock is, so that a stream that goes on as it did
    /// bears itself out, however few come while it goes a step.
    fn looked_at(&self, Jump { now, tolerance_units, .. }: Jump) -> usize {
        let Some(now) = now else { return AHEAD_EVENTS_MAX };
        let runs = self.runs.iter().filter(|run| run.unit <= now && run.unit.after(tolerance_units) > now);
        let near: usize = runs.map(|run| run.events).sum();
        (near + near / 2).clamp(LOOKED_AT_MIN, AHEAD_EVENTS_MAX)
    }

    /// Takes note of a batch; events behind the anchor do not show where the stream is.
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

    fn noted(batches: &[(BatchSender, u64, usize)]) -> Lately {
        let mut lately = Lately::default();
        batches.iter().for_each(|(sender, unit, events)| lately.note(*sender, &times(&vec![*unit; *events]), *events));
        lately
    }

    #[test]
    fn whoever_is_alone_bears_itself_out() {
        let new = times(&[900]);
        assert!(Lately::default().bears_out(A, &new, 1, jump(900)));
        assert!(noted(&[(A, 5, 300)]).bears_out(A, &new, 1, jump(900)));
        assert!(!noted(&[(A, 5, 300)]).bears_out(B, &new, 1, jump(900)));
        assert!(!noted(&[(B, 5, 1), (A, 5, 200)]).bears_out(A, &new, 1, jump(900)));
        // B has sent nothing for long.
        assert!(noted(&[(B, 5, 1), (A, 5, 256)]).bears_out(A, &new, 1, jump(900)));
        assert!(noted(&[(B, 5, 300)]).bears_out(BatchSender::Level, &new, 1, jump(900)));
    }

    #[test]
    fn more_than_half_of_the_last_events_bear_a_jump_out() {
        let many = |new: usize, old: usize| times(&[vec![900; new], vec![5; old]].concat());
        let lately = noted(&[(A, 5, 100), (B, 5, 156)]);
        assert!(
            !lately.bears_out(A, &many(128, 0), 128, jump(900)) && lately.bears_out(A, &many(129, 0), 129, jump(900))
        );
        assert!(!lately.bears_out(A, &many(100, 400), 500, jump(900)));
        let still = Times { base_unit: UnitNumber(900), ..Times::default() };
        assert!(lately.bears_out(A, &still, 129, jump(900)) && !lately.bears_out(A, &still, 128, jump(900)));
        // Events that were refused before count: a stream that has gone on takes its clock along.
        let lately = noted(&[(A, 5, 256), (B, 900, 60), (A, 900, 60)]);
        assert!(!lately.bears_out(B, &many(8, 0), 8, jump(900)) && lately.bears_out(B, &many(9, 0), 9, jump(900)));
    }

    /// Three shippers replay their logs together, and two of them are behind: the third one's events were refused until
    /// the others had ended.
    #[test]
    fn a_producer_that_is_ahead_all_the_time_bears_itself_out() {
        let together = |batch: usize, shippers: u64| {
            let turns = (0..300).map(|turn| (BatchSender::Producer(u128::from(turn % shippers)), turn % shippers));
            let batches = turns.map(|(sender, shipper)| (sender, if shipper == 0 { 900 } else { 5 }, batch));
            noted(&batches.collect::<Vec<_>>())
        };
        let ahead = BatchSender::Producer(0);
        let outcome =
            |lately: &Lately, batch: usize| lately.bears_out(ahead, &times(&vec![900; batch]), batch, jump(900));
        for batch in [1, 2, 5, 10, 30] {
            assert!(outcome(&together(batch, 3), batch), "batches of {batch}");
            assert!(!outcome(&together(batch, 5), batch), "batches of {batch}, a fifth of all");
        }
        assert!(!outcome(&together(40, 3), 40), "80 events in a row of others");
        // A hundredth of all events, and one of many.
        let lately = noted(&vec![(B, 5, 9); 40]);
        assert!(!lately.bears_out(A, &times(&[900]), 1, jump(900)));
        let few = noted(&[(ahead, 900, 20), (A, 5, 40), (ahead, 900, 20), (B, 5, 40)]);
        assert!(!outcome(&few, 20), "not as many are known");
    }

    #[test]
    fn many_events_of_others_outweigh_the_present_until_they_are_long_ago() {
        assert!(!Lately::default().outweighs_present(A));
        let mut lately = noted(&[(A, 5, 63), (B, 5, 256)]);
        assert!(
            !lately.outweighs_present(B)
                && lately.outweighs_present(A)
                && !lately.outweighs_present(BatchSender::Level)
        );
        assert!(noted(&[(A, 5, 64), (B, 5, 10)]).outweighs_present(B));
        // B sends on, and its events are behind all that was borne out.
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
        assert!(lately.outweighs_present(A) && !lately.bears_out(A, &new, 1, far), "B has paused");
        lately.note(A, &times(&[5]), 1);
        lately.open(None, SILENT_MS + 1);
        assert!(!lately.outweighs_present(A) && lately.bears_out(A, &new, 1, far), "B is silent");
        assert!(lately.outweighs_present(B) && !lately.bears_out(B, &new, 1, far), "A is not");
        assert_eq!(lately.events, 101);
        lately.end(1);
        assert!(!lately.outweighs_present(B) && lately.bears_out(B, &new, 1, far) && lately.events == 0);
        // Where the owner's clock was set back by more than that, no producer holds others back.
        let mut lately = Lately::default();
        lately.open(None, 1_000_000);
        lately.note(A, &times(&[5; 100]), 100);
        lately.open(None, 1_000);
        assert!(!lately.outweighs_present(B));
    }

    #[test]
    fn a_stream_that_goes_on_as_it_did_bears_itself_out() {
        // Ten events a step of ten units, by two producers, each at its own unit.
        let mut lately = Lately::default();
        for unit in 0..300 {
            lately.note(if unit % 2 == 0 { A } else { B }, &times(&[unit]), 1);
        }
        let (anchor, now) = (Some(UnitNumber(289)), Some(UnitNumber(299)));
        let jump = |from| Jump { from: UnitNumber(from), anchor, now, tolerance_units: 10 };
        let next = |unit| lately.bears_out(A, &times(&[unit]), 1, jump(unit - 10));
        assert!(next(301) && next(302) && !next(303) && !next(400));
        // The anchor stands for events that are not known.
        let mut few = Lately::default();
        few.open(Some(UnitNumber(5)), 0);
        few.note(B, &times(&[4, 4, 4]), 3);
        assert!(few.runs.is_empty(), "what is behind it tells nothing");
        few.note(B, &times(&[6]), 1);
        let (anchor, now) = (Some(UnitNumber(5)), Some(UnitNumber(6)));
        let jump = |from| Jump { from: UnitNumber(from), anchor, now, tolerance_units: 1 };
        let many = |events: usize| few.bears_out(A, &times(&vec![9; events]), events, jump(9));
        assert!(few.bears_out(A, &times(&[9]), 1, jump(5)) && !many(1) && !many(8) && many(9));
    }

    #[test]
    fn no_more_is_kept_than_is_looked_at() {
        let mut lately = Lately::default();
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
