//! Which filters of a line a call asks, and for which events it goes on to the next.
//!
//! Must not know: how a filter is asked, how the next one is found.

use std::sync::Arc;

use firstseen_routing::{Decision, FilterRecord, Reason};

use crate::call::Answer;
use crate::intake::FilterCore;

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
    while let Some(next) = filter.line().replaced_by() {
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
    std::iter::successors(Some(opened), |filter| filter.line().next())
}

impl FilterCore {
    /// Whether an event with this answer is one for the filter that has followed: nothing has been recorded here, and nothing
    /// will be. The filter was asked when the map had version `asked_by`.
    pub(crate) fn passes_on(&self, answer: Answer, asked_by: u64) -> bool {
        match answer.decision {
            Decision::Undecided(Reason::Altered) => true,
            Decision::Undecided(Reason::UnknownFilter) => {
                let map = self.core().map();
                if map.filters.contains_key(&self.id()) {
                    // A node says so, unless a map has hidden the filter from this client meanwhile.
                    self.line().was_shown(asked_by)
                } else {
                    map.follower_of(self.id(), self.line().origin()).is_some()
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
}
