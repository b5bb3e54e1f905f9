//! Tracks how long the disk of a machine has been full, and by which cluster maps its node has acted meanwhile.
//!
//! A disk that gets room again still counts as full until it has written all data that waited for the room. Until then,
//! some events exist only in the memory of the node, where its lookups find them. If the node's process ends during
//! that time, these events are lost.

use std::sync::Arc;

use firstseen_routing::ClusterMap;

/// A disk that may be full.
#[derive(Default)]
pub(crate) struct FullDisk {
    /// Time at which the disk was filled, in simulated microseconds. `None` while it is not full.
    since_us: Option<u64>,
    /// The last map that the node has acted on, and all maps since the disk was filled.
    maps: Vec<Arc<ClusterMap>>,
}

impl FullDisk {
    /// Notes that the disk has no room from now on.
    pub(crate) fn fill(&mut self, now_us: u64) {
        self.since_us.get_or_insert(now_us);
    }

    /// Notes that the node acts on `map` from now on.
    pub(crate) fn acts_on(&mut self, map: Arc<ClusterMap>) {
        if self.since_us.is_none() {
            self.maps.clear();
        }
        self.maps.push(map);
    }

    /// Notes that the disk has room again and has taken all data that waited for it.
    pub(crate) fn has_taken_all(&mut self) {
        self.since_us = None;
        self.forget_maps();
    }

    /// Notes that the node's process ends. Returns since when the disk was full, and the maps since then, or `None` if
    /// it was not full.
    pub(crate) fn lose_process(&mut self, now_us: u64, is_full: bool) -> Option<(u64, Vec<Arc<ClusterMap>>)> {
        let since_us = self.since_us.take()?;
        let maps = self.maps.clone();
        self.since_us = is_full.then_some(now_us);
        self.forget_maps();
        Some((since_us, maps))
    }

    fn forget_maps(&mut self) {
        let last = self.maps.pop();
        self.maps.clear();
        self.maps.extend(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(version: u64) -> Arc<ClusterMap> {
        Arc::new(ClusterMap { version, ..ClusterMap::default() })
    }

    /// Returns when a disk became full whose node ends at `now_us`, and the versions of the maps since then.
    fn ended(disk: &mut FullDisk, now_us: u64, is_full: bool) -> Option<(u64, Vec<u64>)> {
        let (since_us, maps) = disk.lose_process(now_us, is_full)?;
        Some((since_us, maps.iter().map(|map| map.version).collect()))
    }

    #[test]
    fn a_disk_is_full_until_it_has_taken_all_and_again_for_every_process() {
        let mut disk = FullDisk::default();
        (1..=3).for_each(|version| disk.acts_on(map(version)));
        assert_eq!(ended(&mut disk, 5, false), None);
        disk.fill(10);
        disk.fill(20);
        disk.acts_on(map(4));
        assert_eq!(ended(&mut disk, 30, true), Some((10, vec![3, 4])));
        assert_eq!(ended(&mut disk, 40, true), Some((30, vec![4])), "it is full for the next process, too");
        assert_eq!(ended(&mut disk, 50, false), Some((40, vec![4])), "room that was made is not yet used");
        assert_eq!(ended(&mut disk, 60, false), None);
        disk.fill(70);
        disk.has_taken_all();
        assert_eq!(ended(&mut disk, 80, false), None);
    }
}
