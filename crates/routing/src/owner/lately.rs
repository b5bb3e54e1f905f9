//! What was sent lately, and by whom: what bears out a jump of the clock that the time of day does not.
//!
//! Where old events are replayed, a step ahead of days is as good as any if whoever sends is alone: then nobody else's window
//! ends by it, and its own clock has looked at what comes next. Where others send too, more than half of what was sent last,
//! the events of the batch in hand among it, must be of that time, also where that is the present.
//!
//! Promises: bounded; a run of equal units of one producer is one entry, and nothing is allocated for an event. Must not
//! know: clocks, what a unit is, what time it is (moments are passed in).

use std::collections::VecDeque;

use firstseen_filter::{AHEAD_EVENTS_MAX, OUTWEIGHING_EVENTS};

use crate::{Tick, Times};

/// Who sends the batch in hand, and how far it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A producer, by its incarnation.
    Producer(u128),
    /// Another level of a tree, whose own clock has taken the times.
    Level,
}

/// Events of one producer and unit.
#[derive(Clone, Copy, Debug)]
struct Run {
    producer: u128,
    unit: u64,
    events: usize,
}

/// The last events, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Lately {
    runs: VecDeque<Run>,
    events: usize,
    /// When the last batch was taken note of.
    noted_ms: u64,
}

impl Lately {
    /// Whether so much that is far from the present came from others that the present does not bear out what `sender` sends.
    pub(crate) fn outweighs_present(&self, sender: Sender) -> bool {
        let Sender::Producer(producer) = sender else { return false };
        let others = self.runs.iter().filter(|run| run.producer != producer);
        others.map(|run| run.events).sum::<usize>() >= OUTWEIGHING_EVENTS
    }

    /// Whether a jump of the batch in hand, of `events` events, is borne out as far as unit `from`.
    pub(crate) fn bears_out(&self, sender: Sender, times: &Times, events: usize, from: u64) -> bool {
        let Sender::Producer(producer) = sender else { return true };
        if self.runs.iter().all(|run| run.producer == producer) {
            return true;
        }
        let own = events.min(AHEAD_EVENTS_MAX);
        let own_from = match &times.ticks[..] {
            [] if times.base_unit >= from => own,
            [] => 0,
            ticks => ticks.iter().rev().take(own).filter(|tick| tick.unit >= from).count(),
        };
        let (mut known, mut said) = (own, own_from);
        for run in self.runs.iter().rev() {
            let events = run.events.min(AHEAD_EVENTS_MAX - known);
            known += events;
            said += if run.unit >= from { events } else { 0 };
        }
        2 * said > known
    }

    /// Takes note of a batch that came at `now_ms`.
    pub(crate) fn note(&mut self, sender: Sender, times: &Times, events: usize, now_ms: u64) {
        let Sender::Producer(producer) = sender else { return };
        self.noted_ms = now_ms;
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

    /// Nothing of it matters any more if nothing came since `since_ms`.
    pub(crate) fn forget_before(&mut self, since_ms: u64) {
        if self.noted_ms < since_ms {
            self.forget();
        }
    }

    /// Nothing of it matters any more.
    pub(crate) fn forget(&mut self) {
        self.runs.clear();
        self.events = 0;
    }

    fn push(&mut self, producer: u128, unit: u64, events: usize) {
        self.events += events;
        match self.runs.back_mut() {
            Some(last) if (last.producer, last.unit) == (producer, unit) => last.events += events,
            _ => self.runs.push_back(Run { producer, unit, events }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Sender = Sender::Producer(1);
    const B: Sender = Sender::Producer(2);

    fn times(units: &[u64]) -> Times {
        let ticks = units.iter().map(|unit| Tick { clock_unit: *unit, unit: *unit }).collect();
        Times { base_unit: 0, ticks, clock_ms: 0 }
    }

    fn noted(batches: &[(Sender, u64, usize)]) -> Lately {
        let mut lately = Lately::default();
        batches
            .iter()
            .for_each(|(sender, unit, events)| lately.note(*sender, &times(&vec![*unit; *events]), *events, 1_000));
        lately
    }

    #[test]
    fn whoever_is_alone_bears_itself_out() {
        let jump = times(&[900]);
        assert!(Lately::default().bears_out(A, &jump, 1, 900));
        assert!(noted(&[(A, 5, 300)]).bears_out(A, &jump, 1, 900));
        assert!(!noted(&[(A, 5, 300)]).bears_out(B, &jump, 1, 900));
        assert!(!noted(&[(B, 5, 1), (A, 5, 200)]).bears_out(A, &jump, 1, 900));
        // B has sent nothing for long.
        assert!(noted(&[(B, 5, 1), (A, 5, 256)]).bears_out(A, &jump, 1, 900));
        assert!(noted(&[(B, 5, 300)]).bears_out(Sender::Level, &jump, 1, 900));
    }

    #[test]
    fn more_than_half_of_the_last_events_bear_a_jump_out() {
        let many = |new: usize, old: usize| times(&[vec![900; new], vec![5; old]].concat());
        let lately = noted(&[(A, 5, 100), (B, 5, 156)]);
        assert!(!lately.bears_out(A, &many(128, 0), 128, 900) && lately.bears_out(A, &many(129, 0), 129, 900));
        assert!(!lately.bears_out(A, &many(100, 400), 500, 900));
        let still = Times { base_unit: 900, ..Times::default() };
        assert!(lately.bears_out(A, &still, 129, 900) && !lately.bears_out(A, &still, 128, 900));
        // What was refused before counts: a stream that has gone on takes its clock along.
        let lately = noted(&[(A, 5, 256), (B, 900, 60), (A, 900, 60)]);
        assert!(!lately.bears_out(B, &many(8, 0), 8, 900) && lately.bears_out(B, &many(9, 0), 9, 900));
    }

    #[test]
    fn many_events_of_others_outweigh_the_present_until_they_are_long_ago() {
        assert!(!Lately::default().outweighs_present(A));
        let mut lately = noted(&[(A, 5, 63), (B, 5, 256)]);
        assert!(
            !lately.outweighs_present(B) && lately.outweighs_present(A) && !lately.outweighs_present(Sender::Level)
        );
        assert!(noted(&[(A, 5, 64), (B, 5, 10)]).outweighs_present(B));
        lately.forget_before(1_000);
        assert!(lately.outweighs_present(A));
        lately.forget_before(1_001);
        assert!(!lately.outweighs_present(A));
    }

    #[test]
    fn no_more_is_kept_than_is_looked_at() {
        let mut lately = Lately::default();
        for unit in 0..10_000 {
            lately.note(A, &times(&[unit, unit + 1, unit + 2]), 3, 1_000);
            assert!(lately.events <= 2 * AHEAD_EVENTS_MAX && lately.runs.len() <= AHEAD_EVENTS_MAX);
        }
        lately.note(B, &Times::default(), 1 << 20, 1_000);
        assert_eq!((lately.runs.len(), lately.events), (1, AHEAD_EVENTS_MAX));
        lately.forget();
        assert_eq!((lately.runs.len(), lately.events), (0, 0));
    }
}
