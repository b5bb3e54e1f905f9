//! Chooses which filters of a chain a call must query. When an administrator alters the definition of a filter, a new
//! filter replaces the old filter under the same name. The filters that replaced each other in this way form the chain.
//!
//! This module does not depend on how a filter is asked, or on how the next filter is found.

use std::sync::Arc;

use firstseen_routing::{Decision, FilterRecord, Reason};

use crate::call::Answer;
use crate::intake::FilterCore;

/// Converts the answer to an event whose filter was altered, in the case that the new filter could not be found before
/// the deadline.
pub(crate) fn not_found(answer: Answer) -> Answer {
    match answer.decision {
        Decision::Undecided(Reason::Altered) => Answer::undecided(Reason::NotReady),
        _ => answer,
    }
}

/// Returns the filter that a call asks first, if the caller has opened `opened`. Filters that no longer exist are
/// skipped.
#[inline]
pub(crate) fn first(opened: &Arc<FilterCore>) -> &Arc<FilterCore> {
    let mut filter = opened;
    while let Some(next) = filter.line().replaced_by() {
        filter = next;
    }
    filter
}

/// Returns the newest known filter of the chain.
pub(crate) fn newest(opened: &Arc<FilterCore>) -> &Arc<FilterCore> {
    all(opened).last().unwrap_or(opened)
}

/// Iterates over all known filters of the chain, starting at `opened`.
pub(crate) fn all(opened: &Arc<FilterCore>) -> impl Iterator<Item = &Arc<FilterCore>> {
    std::iter::successors(Some(opened), |filter| filter.line().next())
}

impl FilterCore {
    /// Returns whether the client must send an event to the next filter of the chain, after this filter has replied
    /// `answer`. The next filter must be asked if this filter has not recorded the event and, because it was replaced,
    /// never will.
    ///
    /// `asked_by` is the version of the cluster map that the client used when it sent the event.
    pub(crate) fn should_ask_follower(&self, answer: Answer, asked_by: u64) -> bool {
        match answer.decision {
            Decision::Undecided(Reason::Altered) => true,
            Decision::Undecided(Reason::UnknownFilter) => {
                let map = self.core().map();
                if map.filters.contains_key(&self.id()) {
                    // The node reports that it does not know the filter. This is trusted only if this client could see
                    // the filter in its cluster map, because a client without a right to the filter is not shown it.
                    self.line().was_in_map(asked_by)
                } else {
                    map.follower_of(self.id(), self.line().origin()).is_some()
                }
            }
            _ => false,
        }
    }

    /// Returns whether another filter has replaced this filter.
    pub(crate) fn is_followed(&self) -> bool {
        let map = self.core().map();
        map.filters.get(&self.id()).is_none_or(FilterRecord::is_closed)
    }
}
