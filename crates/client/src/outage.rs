//! Tracks for how long slices of a filter have been down, according to the replies of nodes.
//!
//! - An outage delays calls only once. At first, calls wait for its end, because a node that restarts is soon available
//!   again. Later in the same outage, events are answered as undecided at once.
//! - Calls do not wait if waiting cannot end the outage.
//!
//! This module does not depend on streams.

use std::time::Duration;

use firstseen_filter::Window;
use firstseen_routing::{ClusterMap, FilterRecord};
use tokio::time::Instant;

/// Time without a report of slices that are down, after which the outage counts as ended. A later report starts a new
/// outage.
const OUTAGE_ENDS_AFTER: Duration = Duration::from_secs(10);

/// State of the current outage, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// Times of the first and of the last report that slices are down.
    heard: Option<(Instant, Instant)>,
}

impl Outage {
    /// Notes at `now` that a node reported slices as down. Returns whether the call should wait for them. Calls wait
    /// for at most `patience`.
    pub(crate) fn should_wait(&mut self, now: Instant, patience: Duration) -> bool {
        let first = match self.heard {
            Some((first, last)) if now.saturating_duration_since(last) < OUTAGE_ENDS_AFTER => first,
            _ => now,
        };
        self.heard = Some((first, now));
        now.saturating_duration_since(first) < patience
    }
}

/// Slices of a filter that cannot answer, according to the cluster map.
///
/// The cluster map lists an unreachable node as down only after some time. Until then, both counts can be 0 although
/// events are undecided with [`SlicesDown`](crate::Reason::SlicesDown).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissingSlices {
    /// Number of slices for which a node is down or no longer has the slice. Such a slice answers again when the node
    /// is back with the slice.
    pub down: usize,
    /// Number of slices that have lost cells although all of their nodes are up. Such a slice could call a duplicate
    /// first-seen, so it does not answer until the window has passed, or until an operator accepts the loss.
    pub lost: usize,
}

impl MissingSlices {
    /// Counts the missing slices among `slices` of the filter `record`.
    pub(crate) fn among(map: &ClusterMap, record: &FilterRecord, slices: impl Iterator<Item = u32>) -> Self {
        let mut missing = Self::default();
        for slice in slices.filter(|slice| !map.is_complete(record, *slice)) {
            if record.copies_of(slice).any(|copy| map.is_gone(copy)) {
                missing.down += 1;
            } else {
                missing.lost += 1;
            }
        }
        missing
    }

    /// Returns whether waiting is useless for an event that needs these slices, because no node that may return has the
    /// lost cells.
    pub(crate) fn is_unrecoverable(self) -> bool {
        self.lost > 0 && self.down == 0
    }
}

/// Returns the names of the nodes that are down and have slices of `record`.
pub(crate) fn down_nodes(map: &ClusterMap, record: &FilterRecord) -> Vec<String> {
    let down = map.nodes.iter().filter(|(id, node)| node.is_down && record.is_on(**id));
    down.map(|(_, node)| node.name.clone()).collect()
}

/// Returns whether the filter's window passes within `patience`. After that, all events that a slice has lost have
/// expired.
pub(crate) fn passes_within(record: &FilterRecord, patience: Duration) -> bool {
    match record.definition.group.window {
        Window::Duration(window_ms) | Window::LandmarkDuration(window_ms) => {
            u128::from(window_ms) <= patience.as_millis()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_waited_for_once() {
        let (mut outage, start, patience) = (Outage::default(), Instant::now(), Duration::from_secs(5));
        let mut waits = |after_s: u64| outage.should_wait(start + Duration::from_secs(after_s), patience);
        let waited = [0, 4, 5, 9, 18, 27, 36, 47, 51, 52].map(&mut waits);
        assert_eq!(waited, [true, true, false, false, false, false, false, true, true, false]);
    }
}
