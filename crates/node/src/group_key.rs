//! The key of a slice group, which consists of a filter and the number of the group within that filter. Slices that
//! must decide an event together form a group. A horizontally sliced filter therefore has one group for each slice,
//! because every event belongs to one slice. A vertically sliced filter has a single group with all its slices. Keys
//! are ordered by filter.

use std::ops::RangeInclusive;

use firstseen_routing::{FilterId, PeerMessage};

/// Key of a slice group of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    pub(crate) filter: FilterId,
    pub(crate) group: u32,
}

impl GroupKey {
    /// Returns the slice group that a message is addressed to.
    pub(crate) fn of(message: &PeerMessage) -> Self {
        Self { filter: message.filter, group: message.group }
    }

    /// Range of all groups of all filters.
    pub(crate) const ALL: RangeInclusive<Self> =
        Self { filter: FilterId(0), group: 0 }..=Self { filter: FilterId(u64::MAX), group: u32::MAX };

    /// Returns the range of all groups of a filter.
    pub(crate) fn all_of(filter: FilterId) -> RangeInclusive<Self> {
        Self { filter, group: 0 }..=Self { filter, group: u32::MAX }
    }
}
