//! The clocks of a node: a monotonic clock and the time of day. On Linux, the monotonic clock continues while the
//! machine sleeps. This property is important for leases, because a lease must not last longer than the time for which
//! it was granted.
//!
//! Neither clock shows that a virtual machine was paused. The `Clocks` type learns about such pauses from other nodes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstseen_routing::{Moment, MonotonicMs};

/// Maximum number of attempts to read both clocks without an interruption in between.
const READS_MAX: u32 = 4;

/// A source of monotonic time and of the time of day.
pub trait Clock: Send + Sync + 'static {
    /// Returns the time since an arbitrary start. This time never decreases.
    fn monotonic_ms(&self) -> MonotonicMs;
    /// Returns the time of day in milliseconds since 1970.
    fn wall_ms(&self) -> u64;

    /// Returns the time since the same start in microseconds, if the clock has that resolution. This time is meant for
    /// measuring latency.
    fn monotonic_us(&self) -> u64 {
        self.monotonic_ms().0.saturating_mul(1000)
    }

    /// Reads both clocks at nearly the same time. If the thread is paused between the two reads, this method reads the
    /// clocks again. Otherwise the pause would look like a change of the time of day compared with the monotonic clock.
    fn now(&self) -> Moment {
        let mut monotonic_ms = self.monotonic_ms();
        for _ in 0..READS_MAX {
            let wall_ms = self.wall_ms();
            let after_ms = self.monotonic_ms();
            if after_ms <= monotonic_ms.after(1) {
                return Moment { monotonic_ms, wall_ms };
            }
            monotonic_ms = after_ms;
        }
        Moment { monotonic_ms, wall_ms: self.wall_ms() }
    }
}

/// The clocks of the operating system.
pub struct SystemClock {
    started: Duration,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts now.
    pub fn new() -> Self {
        Self { started: since_boot() }
    }

    fn elapsed(&self) -> Duration {
        since_boot().saturating_sub(self.started)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn monotonic_ms(&self) -> MonotonicMs {
        MonotonicMs(u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn wall_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Returns the time since the machine was started, including the time that the machine slept (`CLOCK_BOOTTIME`).
#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(now).unwrap_or_default()
}

/// Returns the time since the first call of this function.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;

    static FIRST_CALL: LazyLock<Instant> = LazyLock::new(Instant::now);
    FIRST_CALL.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_measure_the_same_time() {
        let clock = SystemClock::new();
        let first = clock.now();
        let wall = SystemTime::now();
        while wall.elapsed().unwrap_or_default() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        let last = clock.now();
        let passed_ms = last.monotonic_ms.since(first.monotonic_ms);
        assert!(passed_ms.abs_diff(last.wall_ms - first.wall_ms) <= 2, "{first:?} to {last:?}");
        assert!(passed_ms >= 4 && clock.monotonic_us() >= 1_000 * passed_ms);
    }
}
