//! The time of day: what this machine shows, or what nodes have told, where that is later.
//!
//! A machine that is slow must not take what occurs now for the future. What a node has told is carried on by the time that has
//! passed since: by the clock that is never set, or by what the machine shows where that is more, as after a sleep.
//!
//! Promises: it is never before what the machine shows. Must not know: what it is needed for.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::call::lock;

/// Tells milliseconds since 1970.
pub(crate) type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The time of day, as this client knows it.
pub(crate) struct Present {
    wall_clock: WallClock,
    told: Mutex<Option<Told>>,
}

/// What a node has told last, and when.
#[derive(Clone, Copy)]
struct Told {
    wall_ms: u64,
    at: Instant,
    /// What the machine showed then.
    shown_ms: u64,
}

impl Present {
    /// What `wall_clock` shows; where there is none, the machine's.
    pub(crate) fn new(wall_clock: Option<WallClock>) -> Self {
        Self { wall_clock: wall_clock.unwrap_or_else(|| Arc::new(machine_ms)), told: Mutex::default() }
    }

    /// A node tells its own at `now`.
    pub(crate) fn hear(&self, wall_ms: u64, now: Instant) {
        *lock(&self.told) = Some(Told { wall_ms, at: now, shown_ms: (self.wall_clock)() });
    }

    /// Milliseconds since 1970.
    pub(crate) fn wall_ms(&self) -> u64 {
        let (told, shown_ms) = (*lock(&self.told), (self.wall_clock)());
        let carried_on = told.map_or(0, |told| {
            let passed_ms = u64::try_from(told.at.elapsed().as_millis()).unwrap_or(u64::MAX);
            told.wall_ms.saturating_add(passed_ms.max(shown_ms.saturating_sub(told.shown_ms)))
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
        // A machine that is ahead of the nodes is the affair of the owners, who take nothing that is far ahead of theirs.
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
