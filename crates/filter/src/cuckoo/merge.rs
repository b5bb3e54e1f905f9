//! Merges two copies of a slice of fingerprints.
//!
//! - The merged slice keeps a single entry per event, with the later of the two expiries. The order of merges and their
//!   repetition therefore do not matter.
//! - Buckets that are equal in both copies cost only a comparison. The entries of the copy with fewer entries are added
//!   to the copy with more.
//!
//! This module does not depend on where the copies are.

use crate::arch::{Instructions, Lanes, compiled_for};
use crate::buckets::{BUCKET_BYTES, BucketShape, CacheLine, REGION_BUCKETS, RegionLines, regions_of, regions_of_mut};
use crate::cuckoo::Buckets;
use crate::cuckoo::bucket::{Ring, matches};
use crate::cuckoo::region::{Put, Region};
use crate::cuckoo::stash::Stashed;
use crate::cuckoo::times::TimeWord;
use crate::cuckoo::view::View;
use crate::unit_number::UnitNumber;

/// State of the merge of a region.
#[derive(Clone, Copy)]
struct Merging {
    shape: BucketShape,
    /// Base of the region that receives the entries.
    base: UnitNumber,
    /// Base of the other region. It is not later than `base`.
    then: UnitNumber,
    /// Latest expiry that an entry may have. A later expiry can only come from damaged or forged bytes, and these are
    /// rejected before the merge. This limit is a second safeguard: even if the check has missed a wrong expiry, no
    /// entry stays in the filter for longer than the window.
    latest: UnitNumber,
    lanes: Lanes,
}

#[allow(private_bounds)]
impl<W: TimeWord> Buckets<W> {
    /// Adds every entry of `others` to `cells`. Both are the bytes of whole regions. The present time of `cells` is
    /// unit `now`, and that of `others` is unit `then`. Returns the number of entries in the stashes of `cells` after
    /// the call, or `None` if a region has no room for all entries.
    pub(super) fn merge_regions(
        &self,
        cells: &mut [u8],
        others: &[u8],
        then: UnitNumber,
        now: UnitNumber,
    ) -> Option<u64> {
        compiled_for(Instructions::Widest, |lanes| {
            let merging = self.merging(then, now, lanes);
            let mut stashed = 0;
            let mut is_whole = true;
            for (mine, other) in regions_of_mut(cells).iter_mut().zip(regions_of(others)) {
                is_whole &= merging.merge::<W>(mine, other);
                stashed += merging.region::<W>(mine).stashed();
            }
            is_whole.then_some(stashed)
        })
    }

    /// Returns whether `others` have an entry that is missing in `cells` or expires earlier there.
    pub(super) fn lacks_entries(&self, cells: &[u8], others: &[u8], then: UnitNumber, now: UnitNumber) -> bool {
        compiled_for(Instructions::Widest, |lanes| {
            let merging = self.merging(then, now, lanes);
            regions_of(cells).iter().zip(regions_of(others)).any(|(mine, other)| merging.lacks::<W>(mine, other))
        })
    }

    fn merging(&self, then: UnitNumber, now: UnitNumber, lanes: Lanes) -> Merging {
        Merging { shape: self.shape, base: self.base(now), then: self.base(then), latest: self.latest(now), lanes }
    }
}

impl Merging {
    /// Merges one region. Returns whether there was room for all entries.
    fn merge<W: TimeWord>(self, mine: &mut RegionLines, other: &RegionLines) -> bool {
        let counts = [self.view::<W>(mine).count(), self.other_view::<W>(other).count()];
        if counts[0] < counts[1]
            && let Some(merged) = self.into_other::<W>(mine, other)
        {
            *mine = *merged;
            return true;
        }
        let differing: Vec<Stashed> = self.differing::<W>(mine, other).collect();
        self.put_all::<W>(mine, differing.into_iter())
    }

    /// Merges two regions by adding all entries of `mine` to a copy of `other`, and returns this copy. Returns `None`
    /// if the copy has no room for all of them. In that case the caller merges in the other direction and adds the
    /// entries of `other` to `mine`. If there is no room for all entries in that direction either, at least no entry of
    /// `mine` is lost.
    fn into_other<W: TimeWord>(self, mine: &RegionLines, other: &RegionLines) -> Option<Box<RegionLines>> {
        let mut merged = Box::new(*other);
        for line in merged.iter_mut().take(REGION_BUCKETS) {
            let ring = self.other_ring::<W>(line);
            ring.write(line, self.shape);
        }
        // Entries of the stash may find room in their buckets again.
        merged[REGION_BUCKETS] = [0; BUCKET_BYTES];
        let twins = self.take_twins::<W>(&mut merged);
        let stashed = self.other_view::<W>(other).stashed().map(|entry| self.bounded(entry));
        let entries = twins.into_iter().chain(stashed).chain(self.view::<W>(mine).entries());
        self.put_all::<W>(&mut merged, entries).then_some(merged)
    }

    /// Removes duplicate entries from a region, so that each event has only one entry, and returns the removed entries.
    ///
    /// A filter gives each event only one entry, but bytes from an untrusted source may contain several entries of the
    /// same event. A lookup finds only one of them. If this is the one that expires first, the filter forgets the event
    /// too early. The caller therefore adds the removed entries again. Adding an entry to an event that already has one
    /// needs no room, because it only raises the expiry of the existing entry.
    fn take_twins<W: TimeWord>(self, lines: &mut RegionLines) -> Vec<Stashed> {
        let mut twins = Vec::new();
        for bucket in 0..REGION_BUCKETS {
            let mut ring = Ring::<W>::read(&lines[bucket], self.shape);
            for place in (0..ring.count()).rev() {
                let print = ring.print(&lines[bucket], place, self.shape);
                if self.has_twin(ring, lines, bucket, print) {
                    let expiry = self.base.after(u64::from(ring.tick(place, self.lanes)));
                    twins.push(Stashed { bucket, print, expiry });
                    ring.remove(&mut lines[bucket], place, self.shape, self.lanes);
                }
            }
        }
        twins
    }

    /// Returns whether an entry in `bucket` should be removed, because its event has a second entry in the same bucket
    /// or in the partner bucket. If the second entry is in the partner bucket, the function returns `true` only for the
    /// bucket with the lower number. The event therefore keeps the entry in the bucket with the higher number.
    fn has_twin<W: TimeWord>(self, ring: Ring<W>, lines: &RegionLines, bucket: usize, print: u32) -> bool {
        if matches(ring, &lines[bucket], print, self.shape, self.lanes).count_ones() > 1 {
            return true;
        }
        let partner = BucketShape::partner(bucket, print);
        if partner <= bucket {
            return false;
        }
        let other_ring = Ring::<W>::read(&lines[partner], self.shape);
        matches(other_ring, &lines[partner], print, self.shape, self.lanes) != 0
    }

    /// Adds all entries that are alive. Returns whether there was room for them.
    fn put_all<W: TimeWord>(self, lines: &mut RegionLines, entries: impl Iterator<Item = Stashed>) -> bool {
        let mut region = self.region::<W>(lines);
        let mut fits = true;
        for entry in entries.filter(|entry| entry.expiry > self.base) {
            fits &= region.put(entry.bucket, entry.print, entry.expiry) != Put::Full;
        }
        fits
    }

    fn lacks<W: TimeWord>(self, mine: &RegionLines, other: &RegionLines) -> bool {
        let view = self.view::<W>(mine);
        let mut alive = self.differing::<W>(mine, other).filter(|entry| entry.expiry > self.base);
        alive.any(|entry| view.find(entry.bucket, entry.print).is_none_or(|(_, expiry)| expiry < entry.expiry))
    }

    /// Returns the entries of `other` in the stash, and in buckets that differ from those of `mine`.
    fn differing<W: TimeWord>(self, mine: &RegionLines, other: &RegionLines) -> impl Iterator<Item = Stashed> {
        let others = self.other_view::<W>(other);
        let in_buckets = (0..REGION_BUCKETS)
            .filter(move |bucket| self.bucket_differs::<W>(mine, other, *bucket))
            .flat_map(move |bucket| others.bucket_entries(bucket));
        in_buckets.chain(others.stashed()).map(move |entry| self.bounded(entry))
    }

    fn bucket_differs<W: TimeWord>(self, mine: &RegionLines, other: &RegionLines, bucket: usize) -> bool {
        let prints = self.shape.column_start(0)..;
        self.view::<W>(mine).ring(bucket) != self.other_ring::<W>(&other[bucket])
            || mine[bucket][prints.clone()] != other[bucket][prints]
    }

    fn bounded(self, entry: Stashed) -> Stashed {
        Stashed { expiry: entry.expiry.min(self.latest), ..entry }
    }

    /// Returns a bucket of the other region as it is at the base of this region.
    fn other_ring<W: TimeWord>(self, line: &CacheLine) -> Ring<W> {
        let mut ring = Ring::read(line, self.shape);
        ring.expire_later(self.then, self.base, self.shape, self.lanes);
        ring
    }

    fn region<W: TimeWord>(self, lines: &mut RegionLines) -> Region<'_, W> {
        Region::new(lines, self.shape, self.base, self.lanes)
    }

    fn view<W: TimeWord>(self, lines: &RegionLines) -> View<'_, W> {
        View::new(lines, self.shape, self.base, self.lanes)
    }

    fn other_view<W: TimeWord>(self, lines: &RegionLines) -> View<'_, W> {
        View::new(lines, self.shape, self.then, self.lanes)
    }
}
