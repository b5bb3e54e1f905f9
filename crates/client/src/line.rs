//! Filters that have followed one another under a name (elsewhere: a schema migration): a call asks one after the
//! other, as long as the former one is there.
//!
//! The former filter answers for the events that it has, and records no more; the filter that has followed is asked for
//! all others. So the caller need not know that there are two filters, nor where they lie.
//!
//! Promises: a filter is asked only when the one before does not have the event, or is gone; a call that needs one
//! filter reads one flag more than a call without a line. Must not know: how a filter is asked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use firstseen_routing::{ClusterMap, Decision, FilterId, FilterRecord, Reason};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};

use crate::call::Answer;
use crate::intake::FilterCore;

/// The place of a filter among those that follow one another, or are in a tree with it.
pub(crate) struct Line {
    /// The first filter of the line.
    origin: FilterId,
    next: OnceLock<Arc<FilterCore>>,
    /// The map does not have the filter any more, and never will.
    is_over: AtomicBool,
    /// The version of the last map without the filter; 0 where all had it. The filter may be there all the same: a client without
    /// a right on it is not shown it.
    missing_from: AtomicU64,
    /// One call looks for the next; the others wait for it.
    turn: Semaphore,
    /// The root of its tree, where this is another level, and events can be claimed.
    root: OnceLock<Arc<FilterCore>>,
}

impl Line {
    /// The place of filter `id`.
    pub(crate) fn of(id: FilterId, record: &FilterRecord) -> Self {
        let (origin, is_over) = (record.line.origin.unwrap_or(id), AtomicBool::new(false));
        let (missing_from, turn) = (AtomicU64::new(0), Semaphore::new(1));
        Self { origin, next: OnceLock::new(), is_over, missing_from, turn, root: OnceLock::new() }
    }

    /// The filter `next` has followed.
    pub(crate) fn follow_with(&self, next: Arc<FilterCore>) {
        // Another call may have found it, too.
        let _ = self.next.set(next);
    }

    /// The root of its tree, where events are claimed; none where this is no other level of one.
    pub(crate) fn root(&self) -> Option<&Arc<FilterCore>> {
        self.root.get()
    }

    /// Events are claimed at this root.
    pub(crate) fn claim_at(&self, root: Arc<FilterCore>) {
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

/// The answer to an event for which the filter that has followed could not be found in time.
pub(crate) fn not_found(answer: Answer) -> Answer {
    match answer.decision {
        Decision::Undecided(Reason::Altered) => Answer::undecided(Reason::NotReady),
        _ => answer,
    }
}

/// The filter that is asked first, where the caller has opened `opened`.
#[inline]
pub(crate) fn first(opened: &Arc<FilterCore>) -> &Arc<FilterCore> {
    let mut filter = opened;
    while filter.line().is_over.load(Ordering::Relaxed)
        && let Some(next) = filter.line().next.get()
    {
        filter = next;
    }
    filter
}

/// The last filter of the line that is known.
pub(crate) fn newest(opened: &Arc<FilterCore>) -> &Arc<FilterCore> {
    all(opened).last().unwrap_or(opened)
}

/// All filters of the line that are known, from `opened` on.
pub(crate) fn all(opened: &Arc<FilterCore>) -> impl Iterator<Item = &Arc<FilterCore>> {
    std::iter::successors(Some(opened), |filter| filter.line().next.get())
}

impl FilterCore {
    /// Whether an event with this answer is one for the filter that has followed: nothing has been recorded here, and nothing
    /// will be. The filter was asked when the map had version `asked_by`.
    pub(crate) fn passes_on(&self, answer: Answer, asked_by: u64) -> bool {
        let Line { origin, missing_from, .. } = self.line();
        match answer.decision {
            Decision::Undecided(Reason::Altered) => true,
            Decision::Undecided(Reason::UnknownFilter) => {
                let map = self.core().map();
                if map.filters.contains_key(&self.id()) {
                    // A node says so, unless a map has hidden the filter from this client meanwhile.
                    missing_from.load(Ordering::Relaxed) < asked_by
                } else {
                    map.follower_of(self.id(), *origin).is_some()
                }
            }
            _ => false,
        }
    }

    /// Whether another filter has followed.
    pub(crate) fn is_followed(&self) -> bool {
        let map = self.core().map();
        map.filters.get(&self.id()).is_none_or(FilterRecord::is_closed)
    }

    /// The filter that has followed; none where there is none, or it cannot be found in time.
    pub(crate) async fn next(&self, deadline: Instant) -> Option<&Arc<Self>> {
        let Line { origin, next, turn, .. } = self.line();
        if next.get().is_some() {
            return next.get();
        }
        let _turn = timeout_at(deadline, turn.acquire()).await.ok()?.ok()?;
        let mut jitter = self.core().jitter();
        for tries in 1.. {
            // The node that is asked may not have the new map yet.
            let name = self.name_of_line(*origin).filter(|_| next.get().is_none());
            let Some(name) = name.filter(|_| Instant::now() < deadline) else { break };
            match self.core().open(&name, deadline).await {
                Ok(found) if found.id() > self.id() => drop(next.set(found)),
                Ok(_) => {}
                Err(error) => tracing::debug!(name, %error, "the filter that has followed is not known yet"),
            }
            if next.get().is_none() {
                sleep(Duration::from_millis(jitter.wait_ms(tries))).await;
            }
        }
        next.get()
    }

    /// The name of the newest filter of the line, where one has followed.
    fn name_of_line(&self, origin: FilterId) -> Option<String> {
        let map = self.core().map();
        map.follower_of(self.id(), origin)?;
        let mut line = map.filters.values().filter(|record| record.line.origin == Some(origin));
        line.find(|record| !record.is_closed()).map(|record| record.name.clone())
    }
}
