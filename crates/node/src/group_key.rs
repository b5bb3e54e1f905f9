//! The name of a group: its filter, and its number in it. A filter with horizontal slices has a group for each of them, one with
//! vertical slices has one group.
//!
//! Promises: keys are ordered by filter. Must not know: which node has the group.

use std::ops::RangeInclusive;

use firstseen_routing::{FilterId, PeerMessage};

/// A group of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    pub(crate) filter: FilterId,
    pub(crate) group: u32,
}

impl GroupKey {
    /// The group that a message is for.
    pub(crate) fn of(message: &PeerMessage) -> Self {
        Self { filter: message.filter, group: message.group }
    }

    /// All groups of all filters.
    pub(crate) const ALL: RangeInclusive<Self> =
        Self { filter: FilterId(0), group: 0 }..=Self { filter: FilterId(u64::MAX), group: u32::MAX };

    /// All groups of a filter.
    pub(crate) fn all_of(filter: FilterId) -> RangeInclusive<Self> {
        Self { filter, group: 0 }..=Self { filter, group: u32::MAX }
    }
}
