//! A simulation of generations of timers that open and are dropped, with randomly drawn positions (Koloniari et al.
//! 2011, section 5).
//!
//! The simulation shows how a growing filter should behave, so that measurements can be compared with it. It follows
//! every event and every tick, and uses no production filter.

use std::collections::VecDeque;

use firstseen_filter::UnitNumber;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Measure that tells when a generation is full.
#[derive(Clone, Copy, Debug)]
pub(super) enum Full {
    /// Number of live events (cardinality).
    Events(u64),
    /// Number of timers that are not empty (density). The generation is full if it has more.
    Timers(u64),
}

/// Rules by which a filter grows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    /// Number of timers in a generation (m).
    pub(super) timers: u32,
    /// Number of positions per event (k).
    pub(super) hashes: u32,
    /// Limit at which the next generation opens.
    pub(super) full: Full,
    /// Number of ticks for which an event is known, including its own tick.
    pub(super) alive_ticks: u64,
    /// Number of ticks for which the filter may process batches without maintenance. Expired timers are cleared only by
    /// maintenance. Until then, they stay in the cells, and a generation that has only expired timers is not dropped.
    pub(super) upkeep_ticks: u64,
    /// Number of ticks in a sweep. Each tick visits a part of the timers and clears those that have expired.
    pub(super) sweep_ticks: u64,
}

struct Generation {
    /// Tick in which each timer expires. An empty timer has the first tick, which has passed.
    expiries: Vec<UnitNumber>,
    /// Number of timers that are not empty.
    used: u64,
    /// Number of live events, by the tick in which they arrived.
    live: VecDeque<(UnitNumber, u64)>,
    /// Total number of live events.
    live_events: u64,
    /// Last tick in which an event was recorded.
    newest: UnitNumber,
}

/// Filter of such generations.
pub(super) struct Growing {
    law: Law,
    generations: VecDeque<Generation>,
    now: UnitNumber,
    random: ChaCha8Rng,
    places: Vec<usize>,
}

impl Generation {
    fn new(law: &Law) -> Self {
        let expiries = vec![UnitNumber::FIRST; law.timers as usize];
        Self { expiries, used: 0, live: VecDeque::new(), live_events: 0, newest: UnitNumber::FIRST }
    }

    fn is_full(&self, law: &Law) -> bool {
        match law.full {
            Full::Events(events) => self.live_events >= events,
            Full::Timers(timers) => self.used > timers,
        }
    }

    fn record(&mut self, places: &[usize], now: UnitNumber, expiry: UnitNumber) {
        for place in places {
            self.used += u64::from(self.expiries[*place] == UnitNumber::FIRST);
            self.expiries[*place] = expiry;
        }
        match self.live.back_mut() {
            Some((tick, events)) if *tick == now => *events += 1,
            _ => self.live.push_back((now, 1)),
        }
        self.live_events += 1;
        self.newest = now;
    }

    /// Removes events that have expired by tick `next`. Of the timers, only those that the sweep visits are cleared.
    fn go_on(&mut self, law: &Law, next: UnitNumber) {
        while let Some((_, events)) = self.live.front().filter(|(tick, _)| tick.after(law.alive_ticks) <= next) {
            self.live_events -= events;
            self.live.pop_front();
        }
        let part = next.before(1).0 % law.sweep_ticks;
        let begin = (u64::from(law.timers) * part / law.sweep_ticks) as usize;
        let end = (u64::from(law.timers) * (part + 1) / law.sweep_ticks) as usize;
        for expiry in &mut self.expiries[begin..end] {
            if *expiry > UnitNumber::FIRST && expiry.after(law.upkeep_ticks) <= next {
                *expiry = UnitNumber::FIRST;
                self.used -= 1;
            }
        }
    }
}

impl Growing {
    /// Creates a filter with one empty generation, before the first tick.
    pub(super) fn new(law: Law, seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        let generations = VecDeque::from([Generation::new(&law)]);
        Self { law, generations, now: UnitNumber::FIRST, random, places: Vec::new() }
    }

    /// Advances to the next tick, in which `events` new events arrive. Returns how many of them are called duplicates.
    pub(super) fn tick(&mut self, events: u64) -> u64 {
        self.now = self.now.after(1);
        let law = self.law;
        let now = self.now;
        self.generations.iter_mut().for_each(|generation| generation.go_on(&law, now));
        let kept = law.alive_ticks + law.upkeep_ticks;
        while self.generations.len() > 1 && self.generations[0].newest.after(kept) <= now {
            self.generations.pop_front();
        }
        (0..events).filter(|_| self.is_told_duplicate()).count() as u64
    }

    /// Returns the current number of generations.
    pub(super) fn generations(&self) -> usize {
        self.generations.len()
    }

    fn is_told_duplicate(&mut self) -> bool {
        if self.generations.back().is_none_or(|newest| newest.is_full(&self.law)) {
            self.generations.push_back(Generation::new(&self.law));
        }
        let timers = self.law.timers;
        self.places.clear();
        self.places.extend((0..self.law.hashes).map(|_| self.random.random_range(0..timers) as usize));
        let mut all = self.generations.iter();
        let is_known = all.any(|one| self.places.iter().all(|place| one.expiries[*place] > self.now));
        if let Some(newest) = self.generations.back_mut().filter(|_| !is_known) {
            newest.record(&self.places, self.now, self.now.after(self.law.alive_ticks));
        }
        is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: Law =
        Law { timers: 1 << 20, hashes: 4, full: Full::Events(100), alive_ticks: 10, upkeep_ticks: 4, sweep_ticks: 8 };

    /// Returns the number of generations after each tick.
    fn course(law: Law, events: &[u64]) -> Vec<usize> {
        let mut growing = Growing::new(law, 7);
        let after = |events: &u64| {
            growing.tick(*events);
            growing.generations()
        };
        events.iter().map(after).collect()
    }

    #[test]
    fn a_generation_opens_with_the_event_that_has_no_room_and_goes_when_all_has_expired() {
        // At tick 11 the first generation has room for ten of eleven events, because ten events have expired. It is
        // dropped 14 ticks later.
        let events = [[10; 10].as_slice(), &[11], &[1; 20]].concat();
        let expected = [[1; 10].as_slice(), &[2; 14], &[1; 7]].concat();
        assert_eq!(course(LAW, &events), expected);
        // Expired events make room. With ten events per tick that live for ten ticks, a single generation suffices.
        assert_eq!(course(LAW, &[10; 60]), [1; 60]);
    }

    #[test]
    fn timers_that_have_expired_count_until_they_are_looked_at() {
        let law = Law { full: Full::Timers(404), ..LAW };
        assert!(course(law, &[10; 60]).contains(&2), "400 live, and some that nobody has looked at");
        let law = Law { full: Full::Timers(4 * 10 * (10 + 4 + 8)), ..LAW };
        assert_eq!(course(law, &[10; 60]), [1; 60]);
    }
}
