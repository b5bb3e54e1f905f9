//! Limits the number of events that an owner thread processes per second, so that tests can overload a node with few
//! events. In any second, the owner processes hardly more events than the limit allows.

use firstseen_routing::Moment;

/// Lead over the configured pace that an owner may have before it must wait, in milliseconds.
const SLACK_MS: f64 = 2.0;

/// Maximum delay that the limiter makes up for, in milliseconds. An owner that sleeps to keep the limit often wakes up
/// late, because timers fire about a millisecond late, and even later on a busy machine. After such a delay, the owner
/// may process events faster than the limit for a short time, so that its average rate still equals the limit. If a
/// delay is longer than this maximum, the rest of the delay is not made up for.
const BEHIND_MS: f64 = 100.0;

/// Limits the rate of events.
pub(super) struct RateLimiter {
    ms_per_event: f64,
    free_at_ms: f64,
}

impl RateLimiter {
    /// Creates a limit of `events_per_s` events per second.
    pub(super) fn new(events_per_s: u64) -> Self {
        Self { ms_per_event: 1000.0 / events_per_s.max(1) as f64, free_at_ms: 0.0 }
    }

    /// Counts `events` and returns how many milliseconds the owner must wait after them.
    pub(super) fn take(&mut self, events: usize, now: Moment) -> u64 {
        let now_ms = now.monotonic_ms.0 as f64;
        self.free_at_ms = self.free_at_ms.max(now_ms - BEHIND_MS) + events as f64 * self.ms_per_event;
        let ahead_ms = self.free_at_ms - now_ms;
        if ahead_ms > SLACK_MS { ahead_ms as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use firstseen_routing::MonotonicMs;

    use super::*;

    #[test]
    fn events_are_spread_over_time() {
        let mut brake = RateLimiter::new(1000);
        let mut now = Moment::default();
        for _ in 0..100 {
            now.monotonic_ms = now.monotonic_ms.after(brake.take(10, now));
        }
        let took_ms = now.monotonic_ms.since(MonotonicMs::START);
        assert!((970..=1000).contains(&took_ms), "1000 events took {took_ms} ms");
    }

    #[test]
    fn what_was_overslept_is_made_up_for() {
        let began_ms = MonotonicMs(1000);
        let (mut brake, mut now) = (RateLimiter::new(1000), Moment { monotonic_ms: began_ms, wall_ms: 0 });
        for _ in 0..100 {
            let pause_ms = brake.take(10, now);
            now.monotonic_ms = now.monotonic_ms.after(if pause_ms > 0 { pause_ms + 3 } else { 0 });
        }
        let took_ms = now.monotonic_ms.since(began_ms);
        assert!((900..=1020).contains(&took_ms), "1000 events took {took_ms} ms");
    }
}
