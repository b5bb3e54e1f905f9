//! Claims that may still run in the filter that this one has followed.
//!
//! While the former filter is there, callers ask it first, and it answers for its claims. If it goes earlier than its claims are over
//! (`filter alter --finish`, `filter set-clock`), nobody knows these any more. A node grants claims in the former filter for at most a
//! node's lease after the alteration was agreed on, so all are over one claim lease after that.
//!
//! Promises: until then, an event that is not recorded is unknown if the former filter is gone. It must not depend on claims or on how
//! filters follow one another.

use super::lease::CLOCK_RATE_PARTS;
use super::limits::OwnerLimits;
use crate::ids::FilterId;
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::MonotonicMs;

/// The filter before this one in its line.
pub(crate) struct FormerFilter {
    filter: FilterId,
    /// How long its claims may run after this group was made.
    wait_ms: u64,
    /// When its claims are over. `None` until time has passed for the first time.
    until_ms: Option<MonotonicMs>,
    is_there: bool,
}

impl FormerFilter {
    /// Returns the filter before that of `record`, or `None` if there was none.
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

    /// Follows a new map.
    pub(crate) fn follow(&mut self, map: &ClusterMap) {
        self.is_there = map.filters.contains_key(&self.filter);
    }

    /// Time has passed.
    pub(crate) fn pass(&mut self, now_ms: MonotonicMs) {
        let until_ms = now_ms.after(self.wait_ms);
        self.until_ms.get_or_insert(until_ms);
    }

    /// Returns for how long a claim of the former filter may still run that nobody can ask about, in milliseconds, and `None` if
    /// there is none.
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
