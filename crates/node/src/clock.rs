//! The time of a node: two clocks, and those of the machine.
//!
//! Promises: the monotonic clock goes on while the machine sleeps, if the system has such a clock (Linux): a lease must not outlast
//! the time for which it was granted. No clock here shows that a virtual machine was paused; `Clocks` learns that from other nodes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstseen_routing::{Moment, MonotonicMs};

/// Clocks are read so often in a row, where reading them is interrupted.
const READS_MAX: u32 = 4;

/// Two clocks.
pub trait Clock: Send + Sync + 'static {
    /// The time since some start; never steps back.
    fn monotonic_ms(&self) -> MonotonicMs;
    /// Milliseconds since 1970.
    fn wall_ms(&self) -> u64;

    /// Microseconds since the same start, where the clock is that fine: for measuring latency.
    fn monotonic_us(&self) -> u64 {
        self.monotonic_ms().0.saturating_mul(1000)
    }

    /// Both clocks, read at one time as nearly as can be: a pause in between would look as if the time of day had been
    /// set.
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

/// The machine's clocks.
pub struct SystemClock {
    started: Duration,
}

impl SystemClock {
    /// Starts counting.
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

/// The time since the machine was started, with the time that it has slept (`CLOCK_BOOTTIME`).
#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(now).unwrap_or_default()
}

/// The time since the first call.
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
