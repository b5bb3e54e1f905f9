//! Tracks claims that may still be active in the predecessor of this filter.
//!
//! While the predecessor of a filter exists, clients ask the predecessor first, and it replies for its own claims. An
//! operator can remove the predecessor before its claims have ended (`filter alter --finish`, `filter set-clock`). From
//! then on, no node knows these claims.
//!
//! This filter grants claims only when all claims of the removed predecessor have certainly ended. The wait is the sum
//! of two durations. After the cluster has agreed on the alteration, the predecessor can still grant claims until the
//! lease of its node ends. A claim that is granted at the last moment is then active for one claim lease.
//!
//! During this wait, this node cannot tell whether a client holds an event that is not recorded.

use super::lease::CLOCK_RATE_PARTS;
use super::limits::OwnerLimits;
use crate::ids::FilterId;
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::MonotonicMs;

/// The filter that this filter replaced.
pub(crate) struct FormerFilter {
    filter: FilterId,
    /// Time in milliseconds for which claims of the predecessor may be active after this group was created.
    wait_ms: u64,
    /// Time at which all claims of the predecessor have ended. `None` until the time is passed in for the first time.
    until_ms: Option<MonotonicMs>,
    is_there: bool,
}

impl FormerFilter {
    /// Returns the predecessor of the filter of `record`, or `None` if it has none.
    pub(crate) fn of(
        map: &ClusterMap,
        record: &FilterRecord,
        claim_lease_max_ms: u64,
        limits: &OwnerLimits,
    ) -> Option<Self> {
        let filter = record.line.former?;
        let leases_ms = claim_lease_max_ms.saturating_add(limits.node_lease_ms.unwrap_or(0));
        let wait_ms = leases_ms.saturating_add(leases_ms.div_ceil(CLOCK_RATE_PARTS));
        Some(Self { filter, wait_ms, until_ms: None, is_there: map.filters.contains_key(&filter) })
    }

    /// Notes whether the predecessor still exists in a new cluster map.
    pub(crate) fn follow(&mut self, map: &ClusterMap) {
        self.is_there = map.filters.contains_key(&self.filter);
    }

    /// Notes the current time.
    pub(crate) fn pass(&mut self, now_ms: MonotonicMs) {
        let until_ms = now_ms.after(self.wait_ms);
        self.until_ms.get_or_insert(until_ms);
    }

    /// Returns for how many milliseconds claims of the removed predecessor may still be active. No node knows these
    /// claims any more, so this node can only wait until they have ended. Returns `None` if the predecessor still
    /// exists, because it then replies for its claims itself, or if all of its claims have ended.
    pub(crate) fn left_ms(&self, now_ms: MonotonicMs) -> Option<u64> {
        if self.is_there {
            return None;
        }
        let left_ms = self.until_ms.map_or(self.wait_ms, |until_ms| until_ms.since(now_ms));
        (left_ms > 0).then_some(left_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_a_former_filter_count_when_it_has_gone_before_they_are_over() {
        let mut former = FormerFilter { filter: FilterId(7), wait_ms: 1_000, until_ms: None, is_there: true };
        assert_eq!(former.left_ms(MonotonicMs(0)), None, "it answers for them itself");
        former.pass(MonotonicMs(100));
        former.follow(&ClusterMap::default());
        assert_eq!(former.left_ms(MonotonicMs(300)), Some(800));
        former.pass(MonotonicMs(1_100));
        assert_eq!(former.left_ms(MonotonicMs(1_100)), None, "they are over");
    }
}
