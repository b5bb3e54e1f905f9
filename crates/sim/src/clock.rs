//! The clocks of simulated nodes. The time that a clock shows depends on three things: the simulated time, the amount
//! by which the clock was set wrong, and the periods during which it stood still.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use firstseen_node::{Clock, LastTime};
use firstseen_routing::MonotonicMs;

/// Start time of a simulation, in milliseconds since 1970.
pub const EPOCH_MS: u64 = 1_700_000_000_000;

/// Maximum difference between the clocks of two nodes, in milliseconds.
pub(crate) const CLOCK_SKEW_MS_MAX: u64 = 1_000;

/// Returns the simulated microseconds since the start.
pub fn now_us() -> u64 {
    turmoil::sim_elapsed().unwrap_or_default().as_micros() as u64
}

/// The clock of a machine, which outlives its processes. Clones are the same clock.
#[derive(Clone, Default)]
pub struct NodeClock(Arc<State>);

#[derive(Default)]
struct State {
    ahead_ms: AtomicI64,
    /// Time at which the clock was stopped, in simulated microseconds, or 0 while it runs.
    stopped_us: AtomicU64,
    /// How far the monotonic clock is behind the true time, in microseconds.
    monotonic_behind_us: AtomicU64,
    /// How far the time of day is behind the true time, in microseconds.
    wall_behind_us: AtomicU64,
}

impl NodeClock {
    /// Returns how many milliseconds the clock is ahead of the true time.
    pub fn ahead_ms(&self) -> i64 {
        self.0.ahead_ms.load(Ordering::Relaxed)
    }

    /// Sets how many milliseconds the clock is ahead of the true time.
    pub fn set_ahead_ms(&self, ahead_ms: i64) {
        self.0.ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }

    /// Stops the clock.
    pub fn stop(&self) {
        self.0.stopped_us.store(now_us(), Ordering::Relaxed);
    }

    /// Restarts the clock at the true time.
    pub fn go_on(&self) {
        self.0.stopped_us.store(0, Ordering::Relaxed);
    }

    /// Restarts the clock from where it stopped, like the clock of a virtual machine that was paused.
    pub fn go_on_behind(&self) {
        let stopped_us = self.0.stopped_us.swap(0, Ordering::Relaxed);
        // Another fault may have restarted the clock already.
        let behind_us = if stopped_us == 0 { 0 } else { now_us().saturating_sub(stopped_us) };
        self.0.monotonic_behind_us.fetch_add(behind_us, Ordering::Relaxed);
        self.0.wall_behind_us.fetch_add(behind_us, Ordering::Relaxed);
    }

    /// Sets the time of day right after [`Self::go_on_behind`].
    pub fn catch_up(&self) {
        self.0.wall_behind_us.store(0, Ordering::Relaxed);
    }

    /// Returns whether the clock stands still.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped_us.load(Ordering::Relaxed) != 0
    }

    fn shown_us(&self) -> u64 {
        match self.0.stopped_us.load(Ordering::Relaxed) {
            0 => now_us(),
            stopped_us => stopped_us,
        }
    }
}

impl Clock for NodeClock {
    fn monotonic_ms(&self) -> MonotonicMs {
        MonotonicMs((self.shown_us() - self.0.monotonic_behind_us.load(Ordering::Relaxed)) / 1000)
    }

    fn wall_ms(&self) -> u64 {
        let shown_us = self.shown_us() - self.0.wall_behind_us.load(Ordering::Relaxed);
        (EPOCH_MS + shown_us / 1000).saturating_add_signed(self.ahead_ms())
    }
}

/// The time that a node keeps on its machine for its next start. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct KeptTime(Arc<AtomicU64>);

impl LastTime for KeptTime {
    fn read(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|wall_ms| *wall_ms > 0)
    }

    fn keep(&self, wall_ms: u64) {
        self.0.store(wall_ms, Ordering::Relaxed);
    }
}
