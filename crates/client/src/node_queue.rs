//! Queue of one node. Filters announce the batches that are due for the node, and the node's sender takes them.
//!
//! The client has one limit for the events that it queues. The events in the queues of all nodes count towards this
//! limit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::call::lock;

/// Maximum number of times that the sender yields to other tasks before it takes the batches that are due.
const YIELDS_MAX: usize = 4;

/// Subqueue of a filter, which holds the filter's events for this node.
pub(crate) struct FilterSubqueue<Handle> {
    pub(crate) filter: Handle,
    pub(crate) subqueue: usize,
}

/// Events that all filters have queued for one node.
pub(crate) struct NodeQueue<Filter> {
    /// Subqueues from which a batch is due.
    ready: Mutex<VecDeque<FilterSubqueue<Arc<Filter>>>>,
    /// All subqueues for this node.
    subqueues: Mutex<Vec<FilterSubqueue<Weak<Filter>>>>,
    /// Number of events in these subqueues.
    queued_events: AtomicUsize,
    /// Notification that wakes the node's sender.
    pub(crate) wake: Notify,
}

impl<Filter> NodeQueue<Filter> {
    pub(crate) fn new() -> Self {
        Self {
            ready: Mutex::default(),
            subqueues: Mutex::default(),
            queued_events: AtomicUsize::new(0),
            wake: Notify::new(),
        }
    }

    pub(crate) fn add_subqueue(&self, filter: Weak<Filter>, subqueue: usize) {
        lock(&self.subqueues).push(FilterSubqueue { filter, subqueue });
    }

    /// Announces a subqueue from which a batch is due, and wakes the sender.
    pub(crate) fn list(&self, filter: Arc<Filter>, subqueue: usize) {
        lock(&self.ready).push_back(FilterSubqueue { filter, subqueue });
        self.wake.notify_one();
    }

    pub(crate) fn next_ready(&self) -> Option<FilterSubqueue<Arc<Filter>>> {
        lock(&self.ready).pop_front()
    }

    pub(crate) fn count_queued(&self, added: usize, removed: usize) {
        self.queued_events.fetch_add(added, Ordering::Relaxed);
        self.queued_events.fetch_sub(removed, Ordering::Relaxed);
    }

    /// Returns whether no subqueue has events.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued_events.load(Ordering::Relaxed) == 0
    }

    /// Waits briefly so that other tasks can add their events to the next batch for this node. The function yields to
    /// these tasks until they add no further event, but at most a few times.
    pub(crate) async fn settle(&self) {
        let mut before = 0;
        for _ in 0..YIELDS_MAX {
            let queued = self.queued_events.load(Ordering::Relaxed);
            if queued == before {
                return;
            }
            before = queued;
            yield_now().await;
        }
    }

    /// Returns all subqueues of filters that are still in use.
    pub(crate) fn subqueues(&self) -> Vec<FilterSubqueue<Arc<Filter>>> {
        let mut subqueues = lock(&self.subqueues);
        subqueues.retain(|of| of.filter.strong_count() > 0);
        subqueues
            .iter()
            .filter_map(|of| Some(FilterSubqueue { filter: of.filter.upgrade()?, subqueue: of.subqueue }))
            .collect()
    }

    /// Clears the list of subqueues that are due.
    pub(crate) fn clear(&self) {
        let ready = std::mem::take(&mut *lock(&self.ready));
        // Dropping the last handle of a filter runs its destructor, which must not happen while the lock is held.
        drop(ready);
    }
}
