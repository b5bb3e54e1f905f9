//! How long the disk of a machine has been full, and by which maps its node has acted meanwhile.
//!
//! Promises: a disk counts as full until it has taken all that waited for room. Until then, a process that ends loses
//! what its lookups have found. Must not know: who fills disks, and who ends processes.

use std::sync::Arc;

use firstseen_routing::ClusterMap;

/// A disk that may be full.
#[derive(Default)]
pub(crate) struct FullDisk {
    /// When it was filled, in simulated microseconds; none while it is not full.
    since_us: Option<u64>,
    /// The last map that the node has acted on, and all since the disk was filled.
    maps: Vec<Arc<ClusterMap>>,
}

impl FullDisk {
    /// It has no room from now on.
    pub(crate) fn fill(&mut self, now_us: u64) {
        self.since_us.get_or_insert(now_us);
    }

    /// Its node acts on `map` from now on.
    pub(crate) fn acts_on(&mut self, map: Arc<ClusterMap>) {
        if self.since_us.is_none() {
            self.maps.clear();
        }
        self.maps.push(map);
    }

    /// It has room again, and has taken all that waited for that.
    pub(crate) fn has_taken_all(&mut self) {
        self.since_us = None;
        self.forget_maps();
    }

    /// The process of its node ends. Returns since when the disk was full, and the maps; none where it was not.
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

    /// When a disk was full whose node ends at `now_us`, and the versions of the maps meanwhile.
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
