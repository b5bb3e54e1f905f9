//! How far the clock of a peer is ahead of this node's, measured by messages that are sent to the peer anyway.
//!
//! A peer reads its time of day after this node has sent it a message, and before its answer comes in. So its reading
//! belongs to the moment in the middle, give or take half of the time between the two, however long either way took.
//! Kept is the distance of that reading from this node's *monotonic* clock: it stays true when this node's time of day
//! is set.
//!
//! Promises: the peer's clock differs from the estimate by no more than the error given with it, as long as neither
//! clock is set meanwhile and both go at one rate within a thousandth. Must not know: what messages say.

use std::collections::VecDeque;

use super::time_of_day::ahead_of_monotonic;
use crate::protocol::{Moment, MonotonicMs};

/// Exchanges that are kept. Not more: where the network is slow, newer ones cannot contradict a good one from before a clock was set.
const KEPT_MAX: usize = 8;

/// An exchange counts for so long.
const COUNTS_MS: u64 = 30_000;

/// An exchange that took longer says too little.
const EXCHANGE_MAX_MS: u64 = 2_000;

/// Clocks drift apart by at most one part in so many.
const DRIFT_PARTS: u64 = 1_000;

/// A peer has sent its time of day in answer to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the frame was sent, in monotonic milliseconds.
    pub sent_ms: MonotonicMs,
    /// When the answer was heard.
    pub heard_ms: MonotonicMs,
    /// The peer's time of day in between, in milliseconds since 1970.
    pub peer_wall_ms: u64,
}

/// How far a peer's clock is ahead of this node's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Negative where the peer's is behind.
    pub ahead_ms: i64,
    /// The error of that, either way.
    pub uncertain_ms: u64,
}

impl Offset {
    /// Whether the two clocks may differ by no more than this.
    pub fn may_be_within(&self, limit_ms: u64) -> bool {
        self.ahead_ms.unsigned_abs() <= limit_ms.saturating_add(self.uncertain_ms)
    }
}

/// The times that a peer has sent lately.
#[derive(Clone, Debug, Default)]
pub(super) struct Offsets {
    kept: VecDeque<Measurement>,
}

#[derive(Clone, Copy, Debug)]
struct Measurement {
    /// The peer's time of day, ahead of the monotonic clock here.
    ahead_ms: i64,
    uncertain_ms: u64,
    heard_ms: MonotonicMs,
}

impl Measurement {
    fn of(Exchange { sent_ms, heard_ms, peer_wall_ms }: Exchange) -> Option<Self> {
        let took_ms =
            Some(heard_ms.since(sent_ms)).filter(|took_ms| sent_ms <= heard_ms && *took_ms <= EXCHANGE_MAX_MS)?;
        let read = Moment { monotonic_ms: sent_ms.after(took_ms / 2), wall_ms: peer_wall_ms };
        // Each of the three times has lost a part of a millisecond.
        let uncertain_ms = took_ms.div_ceil(2) + 1;
        Some(Self { ahead_ms: ahead_of_monotonic(read), uncertain_ms, heard_ms })
    }

    fn age_ms(&self, now_ms: MonotonicMs) -> u64 {
        now_ms.since(self.heard_ms)
    }

    fn uncertain_ms(&self, now_ms: MonotonicMs) -> u64 {
        self.uncertain_ms + self.age_ms(now_ms) / DRIFT_PARTS
    }

    /// Whether both measurements can be true.
    fn agrees_with(&self, newer: &Self) -> bool {
        let apart_ms = self.ahead_ms.abs_diff(newer.ahead_ms);
        apart_ms <= self.uncertain_ms(newer.heard_ms) + newer.uncertain_ms
    }

    /// Returns how many milliseconds the peer's clock has gained on the monotonic clock here since an earlier measurement, at least.
    fn gained_ms(&self, earlier: &Self) -> u64 {
        let gained_ms = u64::try_from(self.ahead_ms.saturating_sub(earlier.ahead_ms)).unwrap_or(0);
        gained_ms.saturating_sub(earlier.uncertain_ms(self.heard_ms)).saturating_sub(self.uncertain_ms)
    }
}

impl Offsets {
    /// The peer has sent its time. Earlier times that contradict it are from before its clock was set, or from before this machine
    /// stood still. Returns how many milliseconds the peer's clock has gained on this node's monotonic clock since then, at least.
    pub(super) fn hear(&mut self, exchange: Exchange) -> u64 {
        let Some(newer) = Measurement::of(exchange) else { return 0 };
        let gained_ms = self.kept.iter().map(|kept| newer.gained_ms(kept)).max().unwrap_or(0);
        self.kept.retain(|kept| kept.agrees_with(&newer));
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(newer);
        gained_ms
    }

    /// How far the peer is ahead, by the exchange with the least error.
    pub(super) fn of(&self, now: Moment) -> Option<Offset> {
        let now_ms = now.monotonic_ms;
        let counts = self.kept.iter().filter(|kept| kept.age_ms(now_ms) <= COUNTS_MS);
        let best = counts.min_by_key(|kept| kept.uncertain_ms(now_ms))?;
        let ahead_ms = best.ahead_ms.saturating_sub(ahead_of_monotonic(now));
        Some(Offset { ahead_ms, uncertain_ms: best.uncertain_ms(now_ms) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL_MS: u64 = 1_790_000_000_000;

    fn at(monotonic_ms: u64) -> Moment {
        Moment { monotonic_ms: MonotonicMs(monotonic_ms), wall_ms: WALL_MS + monotonic_ms }
    }

    fn exchange(sent_ms: u64, heard_ms: u64, peer_wall_ms: u64) -> Exchange {
        Exchange { sent_ms: MonotonicMs(sent_ms), heard_ms: MonotonicMs(heard_ms), peer_wall_ms }
    }

    #[test]
    fn the_time_that_an_exchange_took_bounds_what_it_tells() {
        // The way there took 90 of 100 ms.
        let mut offsets = Offsets::default();
        offsets.hear(exchange(1_000, 1_100, WALL_MS + 1_090 + 250));
        let Offset { ahead_ms, uncertain_ms } = offsets.of(at(1_100)).unwrap();
        assert!(ahead_ms.abs_diff(250) <= uncertain_ms && uncertain_ms <= 51, "{ahead_ms} ± {uncertain_ms}");
    }

    #[test]
    fn the_shortest_exchange_counts_until_it_is_old_or_contradicted() {
        let mut offsets = Offsets::default();
        offsets.hear(exchange(1_000, 1_004, WALL_MS + 1_002));
        offsets.hear(exchange(2_000, 2_400, WALL_MS + 2_000));
        assert_eq!(offsets.of(at(2_400)), Some(Offset { ahead_ms: 0, uncertain_ms: 4 }), "3 ms, and drift");
        let contradicting = exchange(3_000, 3_400, WALL_MS + 3_200 + 900);
        offsets.hear(contradicting);
        assert_eq!(offsets.of(at(3_400)), Some(Offset { ahead_ms: 900, uncertain_ms: 201 }));
        assert_eq!(offsets.of(at(3_400 + COUNTS_MS + 1)), None);
    }

    #[test]
    fn exchanges_that_tell_nothing_are_not_kept() {
        let mut offsets = Offsets::default();
        offsets.hear(exchange(1_000, 3_001, WALL_MS));
        offsets.hear(exchange(1_000, 999, WALL_MS));
        offsets.hear(exchange(0, u64::MAX, u64::MAX));
        assert_eq!(offsets.of(at(3_001)), None);
    }

    #[test]
    fn an_own_step_is_seen_by_what_was_measured_before() {
        let mut offsets = Offsets::default();
        offsets.hear(exchange(1_000, 1_002, WALL_MS + 1_001));
        let set = Moment { wall_ms: at(1_100).wall_ms + 5_000, ..at(1_100) };
        assert_eq!(offsets.of(set).map(|offset| offset.ahead_ms), Some(-5_000));
    }
}
