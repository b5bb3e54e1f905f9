//! Two copies of a slice brought together.
//!
//! Promises: of each event the greater expiry is kept, so the order of merges and their repetition do not matter. Must
//! not know: where copies are.

use crate::arch::Lanes;
use crate::buckets::{regions_of, regions_of_mut};
use crate::cuckoo::Buckets;
use crate::cuckoo::region::{Put, Region};
use crate::cuckoo::stash::Stashed;
use crate::cuckoo::times::TimeWord;
use crate::cuckoo::view::View;

#[allow(private_bounds)]
impl<W: TimeWord> Buckets<W> {
    /// Puts every entry of `others`, whole regions as they stood at `then`, into `cells`, which stand at `now`. Returns
    /// how many entries the stashes hold then; `None` where a region has no room for all.
    pub(super) fn merge_regions(&self, cells: &mut [u8], others: &[u8], then: u64, now: u64) -> Option<u64> {
        let (base, mut stashed, mut is_whole) = (self.base(now), 0, true);
        let latest = base.saturating_add(self.reach());
        for (mine, other) in regions_of_mut(cells).iter_mut().zip(regions_of(others)) {
            let mut mine = Region::<W>::new(mine, self.shape, base, Lanes::PORTABLE);
            let entries = View::<W>::new(other, self.shape, self.base(then), Lanes::PORTABLE).entries();
            // What comes from outside may say more than any event here can.
            let entries = entries.map(|entry| Stashed { expiry: entry.expiry.min(latest), ..entry });
            for entry in entries.filter(|entry| entry.expiry > base) {
                is_whole &= mine.put(entry.bucket, entry.print, entry.expiry) != Put::Full;
            }
            stashed += mine.stashed();
        }
        is_whole.then_some(stashed)
    }

    /// Whether `others` have an entry that `cells` lack, or forget earlier.
    pub(super) fn lacks_entries(&self, cells: &[u8], others: &[u8], then: u64, now: u64) -> bool {
        let base = self.base(now);
        regions_of(cells).iter().zip(regions_of(others)).any(|(mine, other)| {
            let mine = View::<W>::new(mine, self.shape, base, Lanes::PORTABLE);
            let entries = View::<W>::new(other, self.shape, self.base(then), Lanes::PORTABLE).entries();
            let mut alive = entries.filter(|entry| entry.expiry > base);
            alive.any(|entry| mine.find(entry.bucket, entry.print).is_none_or(|(_, expiry)| expiry < entry.expiry))
        })
    }
}
