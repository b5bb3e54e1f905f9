//! How long slices of a filter have been down, as far as nodes say so.
//!
//! Promises: an outage costs callers their patience once, not once a call: at first they wait for its end, as a node
//! that is started again is soon back; later their events are undecided at once. Callers do not wait for an outage that
//! cannot end by waiting. Must not know: streams.

use std::time::Duration;

use firstseen_filter::Window;
use firstseen_routing::{ClusterMap, FilterRecord};
use tokio::time::Instant;

/// Where no node has said for this long that slices are down, the outage was over: the next time is another one.
const OVER_AFTER: Duration = Duration::from_secs(10);

/// What is known of the outage that may be on.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// When a node first said that slices are down, and when one last did.
    heard: Option<(Instant, Instant)>,
}

impl Outage {
    /// A node says at `now` that slices are down; returns whether to wait for them, where callers wait for `patience`
    /// at most.
    pub(crate) fn is_worth_waiting(&mut self, now: Instant, patience: Duration) -> bool {
        let first = match self.heard {
            Some((first, last)) if now.saturating_duration_since(last) < OVER_AFTER => first,
            _ => now,
        };
        self.heard = Some((first, now));
        now.saturating_duration_since(first) < patience
    }
}

/// Slices of a filter that cannot answer, as far as the map of the cluster says. Where there are none although events
/// are undecided as [`SlicesDown`](crate::Reason::SlicesDown), a node is out of reach that the others do not call down
/// yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissingSlices {
    /// Slices of which a node is down, or does not have the slice any more: when it is back, the slice answers again.
    pub down: usize,
    /// Slices whose nodes are all up, and have lost cells: the slice does not answer until the window has passed, or an
    /// operator forgives it.
    pub lost: usize,
}

impl MissingSlices {
    /// Counts those among `slices` of `record`.
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

    /// Whether an event that needs these slices waits in vain: no node that may come back has the cells that they lack.
    pub(crate) fn is_vain(self) -> bool {
        self.lost > 0 && self.down == 0
    }
}

/// Names of the nodes that are down and have slices of `record`.
pub(crate) fn down_nodes(map: &ClusterMap, record: &FilterRecord) -> Vec<String> {
    let down = map.nodes.iter().filter(|(id, node)| node.is_down && record.is_on(**id));
    down.map(|(_, node)| node.name.clone()).collect()
}

/// Whether the window of a filter passes within `patience`; then all events that slices lack have expired.
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
        let mut waits = |after_s: u64| outage.is_worth_waiting(start + Duration::from_secs(after_s), patience);
        let waited = [0, 4, 5, 9, 18, 27, 36, 47, 51, 52].map(&mut waits);
        assert_eq!(waited, [true, true, false, false, false, false, false, true, true, false]);
    }
}
