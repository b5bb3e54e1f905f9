//! Estimates how far the clock of a peer is ahead of this node's clock, from messages that the nodes exchange anyway.
//!
//! A peer reads its time of day after this node has sent a message to it, and before this node has received the answer.
//! The node assumes that the reading was taken in the middle between these two times. The error of that assumption is
//! at most half of the interval, even if one direction of the network is slower than the other.
//!
//! The node stores how far the peer's reading is ahead of its own *monotonic* clock. The stored value therefore stays
//! correct when somebody sets the time of day of this node.
//!
//! # Guarantees
//!
//! Each estimate comes with a maximum error, and the true difference between the clocks lies within that error. This
//! requires that nobody sets one of the clocks in the meantime. It also requires that the rates of the two clocks
//! differ by at most one part in a thousand.

use std::collections::VecDeque;

use super::time_of_day::ahead_of_monotonic;
use crate::protocol::{Moment, MonotonicMs};

/// Maximum number of exchanges that are kept for a peer. Each exchange has measured how far the peer's clock is ahead.
/// If an operator sets the peer's clock, the results of all earlier exchanges are wrong. Only few exchanges are kept,
/// so that wrong ones are soon replaced.
///
/// A new exchange removes the earlier exchanges that contradict it. On a slow network, however, the error of a new
/// exchange is often too large to prove a contradiction. The wrong exchanges then stay until newer exchanges take their
/// places, which happens soon because the number is small.
const KEPT_MAX: usize = 8;

/// Age up to which an exchange is used, in milliseconds.
const COUNTS_MS: u64 = 30_000;

/// Maximum duration of an exchange that is used, in milliseconds. The result of a slower exchange would be too inexact.
const EXCHANGE_MAX_MS: u64 = 2_000;

/// Maximum drift between two clocks: they diverge by at most one part in this number.
const DRIFT_PARTS: u64 = 1_000;

/// Exchange of a frame and its answer, in which a peer sent its time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Time at which this node sent the frame, by its monotonic clock.
    pub sent_ms: MonotonicMs,
    /// Time at which this node received the answer, by its monotonic clock.
    pub heard_ms: MonotonicMs,
    /// The peer's time of day between these two times, in milliseconds since 1970.
    pub peer_wall_ms: u64,
}

/// Estimate of how far a peer's clock is ahead of this node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// Milliseconds by which the peer's clock is ahead, negative if it is behind.
    pub ahead_ms: i64,
    /// Maximum error of the estimate in either direction, in milliseconds.
    pub uncertain_ms: u64,
}

impl Offset {
    /// Returns whether the two clocks may differ by no more than `limit_ms`, given the error of the estimate.
    pub fn may_be_within(&self, limit_ms: u64) -> bool {
        self.ahead_ms.unsigned_abs() <= limit_ms.saturating_add(self.uncertain_ms)
    }
}

/// Recent times of day that a peer has sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Offsets {
    kept: VecDeque<Measurement>,
}

#[derive(Clone, Copy, Debug)]
struct Measurement {
    /// How far the peer's time of day is ahead of the monotonic clock of this node.
    ahead_ms: i64,
    uncertain_ms: u64,
    heard_ms: MonotonicMs,
}

impl Measurement {
    fn of(Exchange { sent_ms, heard_ms, peer_wall_ms }: Exchange) -> Option<Self> {
        let took_ms =
            Some(heard_ms.since(sent_ms)).filter(|took_ms| sent_ms <= heard_ms && *took_ms <= EXCHANGE_MAX_MS)?;
        let read = Moment { monotonic_ms: sent_ms.after(took_ms / 2), wall_ms: peer_wall_ms };
        // Each of the three times is rounded down to a millisecond.
        let uncertain_ms = took_ms.div_ceil(2) + 1;
        Some(Self { ahead_ms: ahead_of_monotonic(read), uncertain_ms, heard_ms })
    }

    fn age_ms(&self, now_ms: MonotonicMs) -> u64 {
        now_ms.since(self.heard_ms)
    }

    fn uncertain_ms(&self, now_ms: MonotonicMs) -> u64 {
        self.uncertain_ms + self.age_ms(now_ms) / DRIFT_PARTS
    }

    /// Returns whether both measurements can be true.
    fn agrees_with(&self, newer: &Self) -> bool {
        let apart_ms = self.ahead_ms.abs_diff(newer.ahead_ms);
        apart_ms <= self.uncertain_ms(newer.heard_ms) + newer.uncertain_ms
    }

    /// Returns by how many milliseconds the peer's clock has certainly gained on the monotonic clock of this node since
    /// an earlier measurement. Each measurement has a maximum error, so the true gain is only known to lie in a range.
    /// The result is the lower end of that range, or 0 if that end is negative.
    fn gained_ms(&self, earlier: &Self) -> u64 {
        let gained_ms = u64::try_from(self.ahead_ms.saturating_sub(earlier.ahead_ms)).unwrap_or(0);
        gained_ms.saturating_sub(earlier.uncertain_ms(self.heard_ms)).saturating_sub(self.uncertain_ms)
    }
}

impl Offsets {
    /// Adds an exchange in which the peer has sent its time, and removes earlier exchanges that contradict it. Two
    /// exchanges contradict each other if the offsets that they show differ by more than their errors allow. In that
    /// case, the peer's clock was set, or this machine was paused, after the earlier exchange.
    ///
    /// Returns how much the peer's clock has certainly gained on this node's monotonic clock since the earlier
    /// exchanges, in milliseconds.
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

    /// Returns how far the peer's clock is ahead, according to the recent exchange with the smallest error.
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
        // The request took 90 of the 100 ms.
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
