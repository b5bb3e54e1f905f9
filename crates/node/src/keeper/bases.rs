//! Which segments of the journal are still needed.
//!
//! Promises: a segment is given up only when every group has a whole checkpoint that began after it. Must not know:
//! files.

use std::collections::BTreeMap;

use super::CheckpointMark;
use crate::group_key::GroupKey;

#[derive(Clone, Copy, Default)]
struct Group {
    /// Everything from this segment on is needed.
    base: u64,
    /// Where the checkpoint that is under way began.
    begun: Option<u64>,
    /// Where the last one began, when its end is on the medium.
    next_base: Option<u64>,
}

/// The segments that each group needs.
#[derive(Default)]
pub(super) struct Bases {
    groups: BTreeMap<GroupKey, Group>,
}

impl Bases {
    /// A group needs everything from `segment` on.
    pub(super) fn need(&mut self, key: GroupKey, segment: u64) {
        self.groups.insert(key, Group { base: segment, ..Group::default() });
    }

    pub(super) fn forget(&mut self, key: GroupKey) {
        self.groups.remove(&key);
    }

    /// A record goes to segment `segment`, or a later one.
    pub(super) fn pass(&mut self, key: GroupKey, mark: CheckpointMark, segment: u64) {
        let Some(group) = self.groups.get_mut(&key) else { return };
        match mark {
            CheckpointMark::None => {}
            CheckpointMark::Begin => group.begun = Some(segment),
            CheckpointMark::End => group.next_base = group.begun.take(),
        }
    }

    /// All records that were passed are on the medium.
    pub(super) fn synced(&mut self) {
        for group in self.groups.values_mut() {
            group.base = group.next_base.take().unwrap_or(group.base);
        }
    }

    /// The first segment that is needed; beyond all where no group needs any.
    pub(super) fn first_needed(&self) -> u64 {
        self.groups.values().map(|group| group.base).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use firstseen_routing::FilterId;

    use super::*;

    #[test]
    fn a_segment_is_needed_until_all_groups_have_passed_it() {
        let key = |group| GroupKey { filter: FilterId(1), group };
        let (first, second) = (key(0), key(1));
        let mut bases = Bases::default();
        assert_eq!(bases.first_needed(), u64::MAX);
        bases.need(first, 0);
        bases.need(second, 3);
        bases.pass(first, CheckpointMark::Begin, 5);
        bases.pass(first, CheckpointMark::None, 6);
        assert_eq!(bases.first_needed(), 0, "its checkpoint is not whole");
        bases.pass(first, CheckpointMark::End, 7);
        assert_eq!(bases.first_needed(), 0, "nor is it on the medium");
        bases.synced();
        assert_eq!(bases.first_needed(), 3);
        bases.forget(second);
        assert_eq!(bases.first_needed(), 5);
    }
}
