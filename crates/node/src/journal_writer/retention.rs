//! Tracks which segments of the journal are still needed, so that the other segments can be deleted. After a restart, a
//! slice group is restored from its last complete checkpoint and the records that follow this checkpoint. A segment is
//! therefore released only when every slice group has a complete checkpoint that began in a later segment.

use std::collections::BTreeMap;

use super::CheckpointMark;
use crate::group_key::GroupKey;

#[derive(Clone, Copy, Default)]
struct Group {
    /// The first segment that the group needs. It also needs all later segments.
    base: u64,
    /// Segment in which the current checkpoint began.
    begun: Option<u64>,
    /// Segment in which the last complete checkpoint began. It becomes the first needed segment once the end of the
    /// checkpoint is on the disk.
    next_base: Option<u64>,
}

/// The needed segments of all slice groups.
#[derive(Default)]
pub(super) struct SegmentRetention {
    groups: BTreeMap<GroupKey, Group>,
}

impl SegmentRetention {
    /// Notes that a slice group needs everything from `segment` on.
    pub(super) fn need(&mut self, key: GroupKey, segment: u64) {
        self.groups.insert(key, Group { base: segment, ..Group::default() });
    }

    pub(super) fn forget(&mut self, key: GroupKey) {
        self.groups.remove(&key);
    }

    /// Notes that a record is about to be written to `segment` or a later segment.
    pub(super) fn pass(&mut self, key: GroupKey, mark: CheckpointMark, segment: u64) {
        let Some(group) = self.groups.get_mut(&key) else { return };
        match mark {
            CheckpointMark::None => {}
            CheckpointMark::Begin => group.begun = Some(segment),
            CheckpointMark::End => group.next_base = group.begun.take(),
        }
    }

    /// Notes that all records so far are on the disk.
    pub(super) fn synced(&mut self) {
        for group in self.groups.values_mut() {
            group.base = group.next_base.take().unwrap_or(group.base);
        }
    }

    /// Returns the first segment that any slice group needs. Returns `u64::MAX` if no group needs a segment.
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
        let mut bases = SegmentRetention::default();
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
