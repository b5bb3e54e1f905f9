//! How long slices of a filter have been down, as far as nodes say so.
//!
//! Promises: an outage costs callers their patience once, not once a call: at first they wait for its end, as a node
//! that is started again is soon back; later they are told at once. What cannot end by waiting is not waited for. Must not know: streams.

use std::time::Duration;

use firstseen_filter::Window;
use firstseen_routing::{ClusterMap, FilterRecord};
use tokio::time::Instant;

/// Nobody having said so for this long, it was over: the next time is another outage.
const OVER_AFTER: Duration = Duration::from_secs(10);

/// What is known of the outage that may be on.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// When a node first said so, and last.
    heard: Option<(Instant, Instant)>,
}

impl Outage {
    /// A node says at `now` that slices are down; whether to wait for them, if that is done for `patience` at most.
    pub(crate) fn is_worth_waiting(&mut self, now: Instant, patience: Duration) -> bool {
        let first = match self.heard {
            Some((first, last)) if now.saturating_duration_since(last) < OVER_AFTER => first,
            _ => now,
        };
        self.heard = Some((first, now));
        now.saturating_duration_since(first) < patience
    }
}

/// Whether slices of a filter lack what they once knew and nobody is away who could bring it back: before the window has passed,
/// or an operator forgives them, no waiting helps. A window that passes within `patience` is worth it.
pub(crate) fn is_vain(map: &ClusterMap, record: &FilterRecord, patience: Duration) -> bool {
    let passes_soon = match record.definition.group.window {
        Window::Duration(window_ms) | Window::LandmarkDuration(window_ms) => {
            u128::from(window_ms) <= patience.as_millis()
        }
        _ => false,
    };
    let mut slices = 0..record.owners.len() as u32;
    let is_away = record.all_copies().any(|(_, copy)| map.is_gone(copy));
    !passes_soon && !is_away && slices.any(|slice| !map.is_complete(record, slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_waited_for_once() {
        let (mut outage, start, patience) = (Outage::default(), Instant::now(), Duration::from_secs(5));
        let mut waits = |after_s: u64| outage.is_worth_waiting(start + Duration::from_secs(after_s), patience);
        let told = [0, 4, 5, 9, 18, 27, 36, 47, 51, 52].map(&mut waits);
        assert_eq!(told, [true, true, false, false, false, false, false, true, true, false]);
    }
}
