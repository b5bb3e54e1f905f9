//! Summarizes the events that the slice groups of a tree level have decided without their parent level and have not
//! reported yet. The level *owes* these events to the parent.

use firstseen_routing::MonotonicMs;

use crate::owner::GroupLook;

/// What is needed to judge how long events have been owed, and how much room is left for more.
#[derive(Clone, Copy)]
pub(crate) struct Owing {
    /// The present time.
    pub(crate) now_ms: MonotonicMs,
    /// Maximum number of events that a slice group may owe.
    pub(crate) events_max: u32,
}

impl Owing {
    /// Returns the number of events that these slice groups owe.
    pub(crate) fn events(looks: &[GroupLook]) -> u64 {
        looks.iter().map(|look| look.state.owed.waiting_events).sum()
    }

    /// Returns the number of events in the slice group that owes the most.
    pub(crate) fn fullest(self, looks: &[GroupLook]) -> u64 {
        looks.iter().map(|look| look.state.owed.waiting_events).max().unwrap_or(0)
    }

    /// Returns for how many milliseconds the oldest of these events has been owed, or 0 if there is none.
    pub(crate) fn oldest_age_ms(self, looks: &[GroupLook]) -> u64 {
        let oldest_ms = looks.iter().filter_map(|look| look.state.owed.oldest_since_ms).min();
        oldest_ms.map_or(0, |oldest_ms| self.now_ms.since(oldest_ms))
    }
}
