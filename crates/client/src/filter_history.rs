//! Chain of filters that replaced each other under one name. When an administrator alters a filter, a new filter takes
//! over the name. The old filter continues to exist until its events have expired, so that their duplicates are still
//! recognised. During this time, a call queries both filters, the old one first.
//!
//! The old filter still recognises the events that it has recorded, but it records no new events. All new events are
//! recorded by the new filter. The client queries the two filters on its own, so a program does not notice that two
//! filters share the name.
//!
//! A call queries a filter of the chain only if the preceding filter does not know the event or no longer exists. Most
//! filters have never been altered, so their chain has only one filter. For them, the chain costs one flag check in
//! each call.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use firstseen_routing::{ClusterMap, FilterId, FilterRecord};
use tokio::sync::Semaphore;

/// Links from one filter to the filters that replaced it, and to the root of its tree.
pub(crate) struct FilterHistory<Filter> {
    /// Number of the first filter in the chain.
    origin: FilterId,
    next: OnceLock<Arc<Filter>>,
    /// Whether the cluster map no longer contains the filter, and never will again.
    is_over: AtomicBool,
    /// Version of the newest cluster map that this client received and that did not contain the filter. The value is 0
    /// if every map contained the filter.
    ///
    /// A map without the filter does not prove that the filter was dropped, because a node leaves out filters that the
    /// client has no right to use.
    missing_from: AtomicU64,
    /// Semaphore for the search of the next filter. One call searches, and other calls wait for its result.
    turn: Semaphore,
    /// Root of the filter's tree, if this filter is another level of the tree and its events can be claimed.
    root: OnceLock<Arc<Filter>>,
}

impl<Filter> FilterHistory<Filter> {
    /// Creates the links of filter `id`.
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

    /// Returns the number of the first filter in the chain.
    pub(crate) fn origin(&self) -> FilterId {
        self.origin
    }

    /// Returns the filter that replaced this filter, if this client knows it.
    #[inline]
    pub(crate) fn next(&self) -> Option<&Arc<Filter>> {
        self.next.get()
    }

    /// Returns the filter that replaced this filter, if the cluster map no longer contains this filter.
    #[inline]
    pub(crate) fn replaced_by(&self) -> Option<&Arc<Filter>> {
        if self.is_over.load(Ordering::Relaxed) { self.next.get() } else { None }
    }

    /// Returns whether, as far as this client knows, the cluster map of version `asked_by` contained the filter.
    pub(crate) fn was_in_map(&self, asked_by: u64) -> bool {
        self.missing_from.load(Ordering::Relaxed) < asked_by
    }

    /// Returns the semaphore for the search of the next filter. One call may search at a time.
    pub(crate) fn turn(&self) -> &Semaphore {
        &self.turn
    }

    /// Sets the filter that replaced this filter.
    pub(crate) fn follow_with(&self, next: Arc<Filter>) {
        // Another call may have set the same value already.
        let _ = self.next.set(next);
    }

    /// Returns the root filter of this filter's tree, which handles all claims of the tree. Returns `None` if claims
    /// need no other filter: this filter is in no tree, or it is the root itself. Also returns `None` if this filter
    /// does not allow claims.
    pub(crate) fn root(&self) -> Option<&Arc<Filter>> {
        self.root.get()
    }

    /// Sets the root of the tree, where events are claimed.
    pub(crate) fn claim_at(&self, root: Arc<Filter>) {
        // Another call may have set the same value already.
        let _ = self.root.set(root);
    }

    /// Notes that the cluster map `map` does not contain filter `id`, to which these links belong. There are two
    /// explanations, and the map shows which of them is right:
    ///
    /// - If the map contains a filter that replaced filter `id`, then filter `id` is gone for good.
    /// - If the map does not contain a replacement either, this client may have lost its right to see both. The client
    ///   then does not treat filter `id` as gone, because it may become visible again.
    pub(crate) fn misses(&self, map: &ClusterMap, id: FilterId) {
        self.missing_from.fetch_max(map.version, Ordering::Relaxed);
        if map.follower_of(id, self.origin).is_some() {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}
