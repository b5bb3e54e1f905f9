//! Filters that have followed one another under a name (elsewhere: a schema migration): a call asks one after the
//! other, as long as the former one is there.
//!
//! The former filter answers for the events that it has, and records no more; the filter that has followed is asked for
//! all others. So the caller need not know that there are two filters, nor where they lie.
//!
//! Promises: a filter is asked only when the one before does not have the event, or is gone; a call that needs one
//! filter reads one flag more than a call without a line. Must not know: what a filter is, how it is asked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use firstseen_routing::{ClusterMap, FilterId, FilterRecord};
use tokio::sync::Semaphore;

/// The place of a filter among those that follow one another, or are in a tree with it.
pub(crate) struct Line<Filter> {
    /// The first filter of the line.
    origin: FilterId,
    next: OnceLock<Arc<Filter>>,
    /// The map does not have the filter any more, and never will.
    is_over: AtomicBool,
    /// The version of the last map without the filter; 0 where all had it. The filter may be there all the same: a client without
    /// a right on it is not shown it.
    missing_from: AtomicU64,
    /// One call looks for the next; the others wait for it.
    turn: Semaphore,
    /// The root of its tree, where this is another level, and events can be claimed.
    root: OnceLock<Arc<Filter>>,
}

impl<Filter> Line<Filter> {
    /// The place of filter `id`.
    pub(crate) fn of(id: FilterId, record: &FilterRecord) -> Self {
        Self {
            origin: record.line.origin.unwrap_or(id),
            next: OnceLock::new(),
            is_over: AtomicBool::new(false),
            missing_from: AtomicU64::new(0),
            turn: Semaphore::new(1),
            root: OnceLock::new(),
        }
    }

    /// The first filter of the line.
    pub(crate) fn origin(&self) -> FilterId {
        self.origin
    }

    /// The filter that has followed, where it is known.
    #[inline]
    pub(crate) fn next(&self) -> Option<&Arc<Filter>> {
        self.next.get()
    }

    /// The filter that has followed, where the map does not have this one any more.
    #[inline]
    pub(crate) fn replaced_by(&self) -> Option<&Arc<Filter>> {
        if self.is_over.load(Ordering::Relaxed) { self.next.get() } else { None }
    }

    /// Whether the filter was in the map when that had version `asked_by`, as far as is known.
    pub(crate) fn was_shown(&self, asked_by: u64) -> bool {
        self.missing_from.load(Ordering::Relaxed) < asked_by
    }

    /// A permit to look for the next filter: one call at a time.
    pub(crate) fn turn(&self) -> &Semaphore {
        &self.turn
    }

    /// The filter `next` has followed.
    pub(crate) fn follow_with(&self, next: Arc<Filter>) {
        // Another call may have found it, too.
        let _ = self.next.set(next);
    }

    /// The root of its tree, where events are claimed; none where this is no other level of one.
    pub(crate) fn root(&self) -> Option<&Arc<Filter>> {
        self.root.get()
    }

    /// Events are claimed at this root.
    pub(crate) fn claim_at(&self, root: Arc<Filter>) {
        // Another call may have found it, too.
        let _ = self.root.set(root);
    }

    /// `map` does not have filter `id`, whose line this is. It is over where the map has a filter that has followed: a client that
    /// has no right to the one sees none of them, and may be granted it again while the former still has its events.
    pub(crate) fn misses(&self, map: &ClusterMap, id: FilterId) {
        self.missing_from.fetch_max(map.version, Ordering::Relaxed);
        if map.follower_of(id, self.origin).is_some() {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}
