//! Time of day of the client: the time of this machine or the time that a node has reported, whichever is later.
//!
//! The client does not rely on the clock of its own machine alone, because that clock may be slow. For example, an
//! event that occurs now would seem to lie in the future if the clock were five minutes slow. The client therefore also
//! uses the time of day that nodes report.
//!
//! A node's last report is a little old, so the client adds the time that has elapsed since then. It normally measures
//! this time with the monotonic clock. This clock may stop while the machine sleeps. If the machine's time of day has
//! advanced further than the monotonic clock, the client therefore adds the advance of the time of day instead.
//!
//! The time of day that the client uses is never earlier than the machine's own time.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::call::lock;

/// Function that returns the time of day, in milliseconds since 1970.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Time of day, as this client knows it.
pub(crate) struct ClusterTime {
    wall_clock: WallClock,
    node_time: Mutex<Option<NodeTime>>,
}

/// Time that a node sent most recently, and when it arrived.
#[derive(Clone, Copy)]
struct NodeTime {
    wall_ms: u64,
    at: Instant,
    /// Time of day of the machine when the node's time arrived.
    shown_ms: u64,
}

impl ClusterTime {
    /// Creates the clock. The time of day comes from `wall_clock`, or from the machine if that is `None`.
    pub(crate) fn new(wall_clock: Option<WallClock>) -> Self {
        Self { wall_clock: wall_clock.unwrap_or_else(|| Arc::new(machine_ms)), node_time: Mutex::default() }
    }

    /// Stores a node's time of day, which arrived at `now`.
    pub(crate) fn hear(&self, wall_ms: u64, now: Instant) {
        *lock(&self.node_time) = Some(NodeTime { wall_ms, at: now, shown_ms: (self.wall_clock)() });
    }

    /// Returns the time of day in milliseconds since 1970.
    pub(crate) fn wall_ms(&self) -> u64 {
        let node_time = *lock(&self.node_time);
        let shown_ms = (self.wall_clock)();
        let carried_on = node_time.map_or(0, |node_time| {
            let passed_ms = u64::try_from(node_time.at.elapsed().as_millis()).unwrap_or(u64::MAX);
            node_time.wall_ms.saturating_add(passed_ms.max(shown_ms.saturating_sub(node_time.shown_ms)))
        });
        carried_on.max(shown_ms)
    }
}

fn machine_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_later_of_both_counts() {
        let present = ClusterTime::new(Some(Arc::new(|| 1_000_000)));
        assert_eq!(present.wall_ms(), 1_000_000);
        present.hear(1_500_000, Instant::now());
        tokio::time::advance(Duration::from_millis(250)).await;
        assert_eq!(present.wall_ms(), 1_500_250);
        // A machine whose clock is ahead of the nodes keeps its own time. The owners of the slices reject times that
        // are far ahead of theirs.
        present.hear(900_000, Instant::now());
        assert_eq!(present.wall_ms(), 1_000_000);
        present.hear(u64::MAX, Instant::now());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(present.wall_ms(), u64::MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_has_slept_knows_for_how_long() {
        let shown_ms = Arc::new(AtomicU64::new(1_000_000));
        let shows = shown_ms.clone();
        let present = ClusterTime::new(Some(Arc::new(move || shows.load(Ordering::Relaxed))));
        present.hear(9_000_000, Instant::now());
        shown_ms.fetch_add(3_600_000, Ordering::Relaxed);
        assert_eq!(present.wall_ms(), 12_600_000);
    }
}
