//! The viewers of the console's overview. At most [`VIEWERS_MAX`] viewers can be connected at the same time, and
//! further viewers receive an error. A viewer still counts as connected for [`LINGER_MS`] milliseconds after its last
//! request. This delay keeps the collected history in memory while a viewer reloads the page.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::clock::Clock;

/// Maximum number of viewers that receive each overview.
pub(super) const VIEWERS_MAX: usize = 32;

/// Time for which overviews are still collected after the last request, in milliseconds.
const LINGER_MS: u64 = 10_000;

/// The set of viewers.
pub(super) struct Viewers {
    clock: Arc<dyn Clock>,
    room: Arc<Semaphore>,
    come: Notify,
    /// Time until which a recent request counts as a viewer, in monotonic milliseconds.
    until_ms: AtomicU64,
}

/// A connected viewer. Dropping this value ends the connection's registration.
pub(super) struct Viewer {
    viewers: Arc<Viewers>,
    _room: OwnedSemaphorePermit,
}

impl Viewers {
    /// Creates an empty set of viewers.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let room = Arc::new(Semaphore::new(VIEWERS_MAX));
        Self { clock, room, come: Notify::new(), until_ms: AtomicU64::new(0) }
    }

    /// Registers a single request for the overview.
    pub(super) fn note_request(&self) {
        self.until_ms.fetch_max(self.clock.monotonic_ms().after(LINGER_MS).0, Ordering::Relaxed);
        self.come.notify_one();
    }

    /// Registers a connected viewer. Returns `None` if there is no room.
    pub(super) fn stay(self: &Arc<Self>) -> Option<Viewer> {
        let room = self.room.clone().try_acquire_owned().ok()?;
        self.note_request();
        Some(Viewer { viewers: self.clone(), _room: room })
    }

    /// Waits until a viewer arrives.
    pub(super) async fn come(&self) {
        self.come.notified().await;
    }

    /// Returns whether a viewer is connected, or has requested the overview recently.
    pub(super) fn look(&self) -> bool {
        let stay = self.room.available_permits() < VIEWERS_MAX;
        stay || self.clock.monotonic_ms().0 < self.until_ms.load(Ordering::Relaxed)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.viewers.note_request();
    }
}

#[cfg(test)]
mod tests {
    use firstseen_routing::MonotonicMs;

    use super::*;

    #[derive(Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn monotonic_ms(&self) -> MonotonicMs {
            MonotonicMs(self.0.load(Ordering::Relaxed))
        }

        fn wall_ms(&self) -> u64 {
            0
        }
    }

    #[test]
    fn there_is_room_for_some_and_the_last_lingers() {
        let clock = Arc::new(Hand::default());
        let viewers = Arc::new(Viewers::new(clock.clone()));
        assert!(!viewers.look());
        let mut all: Vec<Viewer> = (0..VIEWERS_MAX).map(|_| viewers.stay().expect("there is room")).collect();
        assert!(viewers.stay().is_none());
        drop(all.pop());
        assert!(viewers.stay().is_some());
        clock.0.store(1_000_000, Ordering::Relaxed);
        assert!(viewers.look(), "as long as one stays");
        drop(all);
        clock.0.store(1_009_999, Ordering::Relaxed);
        assert!(viewers.look());
        clock.0.store(1_010_000, Ordering::Relaxed);
        assert!(!viewers.look());
    }
}
