//! The queue of one node: filters list what is due for it there, and the node's sender takes it.
//!
//! Promises: all events in it count among the client's queued events. Must not know: what a filter is, streams.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::call::lock;

/// How often other tasks get their turn before the sender takes what was listed.
const TURNS_MAX: usize = 4;

/// A lane of a filter: its events for the queue's node.
pub(crate) struct FilterLane<Handle> {
    pub(crate) filter: Handle,
    pub(crate) lane: usize,
}

/// What filters have for one node.
pub(crate) struct NodeQueue<Filter> {
    /// Lanes from which a batch is due.
    ready: Mutex<VecDeque<FilterLane<Arc<Filter>>>>,
    /// All lanes for this node.
    lanes: Mutex<Vec<FilterLane<Weak<Filter>>>>,
    /// Events in them.
    queued_events: AtomicUsize,
    /// Signals the node's sender.
    pub(crate) wake: Notify,
}

impl<Filter> NodeQueue<Filter> {
    pub(crate) fn new() -> Self {
        Self {
            ready: Mutex::default(),
            lanes: Mutex::default(),
            queued_events: AtomicUsize::new(0),
            wake: Notify::new(),
        }
    }

    pub(crate) fn add_lane(&self, filter: Weak<Filter>, lane: usize) {
        lock(&self.lanes).push(FilterLane { filter, lane });
    }

    /// Lists a lane from which a batch is due.
    pub(crate) fn list(&self, filter: Arc<Filter>, lane: usize) {
        lock(&self.ready).push_back(FilterLane { filter, lane });
        self.wake.notify_one();
    }

    pub(crate) fn next_ready(&self) -> Option<FilterLane<Arc<Filter>>> {
        lock(&self.ready).pop_front()
    }

    pub(crate) fn count_queued(&self, added: usize, removed: usize) {
        self.queued_events.fetch_add(added, Ordering::Relaxed);
        self.queued_events.fetch_sub(removed, Ordering::Relaxed);
    }

    /// Whether no lane has events.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued_events.load(Ordering::Relaxed) == 0
    }

    /// Lets other tasks run that are about to list something, for as long as more comes of that, and a few turns at most.
    pub(crate) async fn settle(&self) {
        let mut before = 0;
        for _ in 0..TURNS_MAX {
            let queued = self.queued_events.load(Ordering::Relaxed);
            if queued == before {
                return;
            }
            before = queued;
            yield_now().await;
        }
    }

    /// All lanes of filters that are still in use.
    pub(crate) fn lanes(&self) -> Vec<FilterLane<Arc<Filter>>> {
        let mut lanes = lock(&self.lanes);
        lanes.retain(|of| of.filter.strong_count() > 0);
        lanes.iter().filter_map(|of| Some(FilterLane { filter: of.filter.upgrade()?, lane: of.lane })).collect()
    }

    /// Forgets which lanes are due.
    pub(crate) fn clear(&self) {
        let ready = std::mem::take(&mut *lock(&self.ready));
        // Filters may end with their last handle, and not under the lock.
        drop(ready);
    }
}
