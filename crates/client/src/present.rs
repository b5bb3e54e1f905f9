//! The time of day: that of this machine, or one that nodes have sent, whichever is later.
//!
//! A machine whose clock is slow must not take events that occur now for future ones. To the time that a node has sent,
//! the time that has passed since is added: by the clock that is never set, or by the machine's time of day where that
//! shows more, as after a sleep.
//!
//! Promises: this time is never before the machine's. Must not know: what the time is needed for.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::call::lock;

/// Gives milliseconds since 1970.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The time of day, as this client knows it.
pub(crate) struct Present {
    wall_clock: WallClock,
    node_time: Mutex<Option<NodeTime>>,
}

/// The time that a node has sent last, and when it came.
#[derive(Clone, Copy)]
struct NodeTime {
    wall_ms: u64,
    at: Instant,
    /// The machine's time of day at that moment.
    shown_ms: u64,
}

impl Present {
    /// The time of day by `wall_clock`; by the machine where there is none.
    pub(crate) fn new(wall_clock: Option<WallClock>) -> Self {
        Self { wall_clock: wall_clock.unwrap_or_else(|| Arc::new(machine_ms)), node_time: Mutex::default() }
    }

    /// A node's time of day has come at `now`.
    pub(crate) fn hear(&self, wall_ms: u64, now: Instant) {
        *lock(&self.node_time) = Some(NodeTime { wall_ms, at: now, shown_ms: (self.wall_clock)() });
    }

    /// Milliseconds since 1970.
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
        let present = Present::new(Some(Arc::new(|| 1_000_000)));
        assert_eq!(present.wall_ms(), 1_000_000);
        present.hear(1_500_000, Instant::now());
        tokio::time::advance(Duration::from_millis(250)).await;
        assert_eq!(present.wall_ms(), 1_500_250);
        // A machine that is ahead of the nodes is left to the owners, which accept no time far ahead of theirs.
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
        let present = Present::new(Some(Arc::new(move || shows.load(Ordering::Relaxed))));
        present.hear(9_000_000, Instant::now());
        shown_ms.fetch_add(3_600_000, Ordering::Relaxed);
        assert_eq!(present.wall_ms(), 12_600_000);
    }
}
