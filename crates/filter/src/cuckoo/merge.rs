//! Two copies of a slice brought together.
//!
//! Promises: of each event the greater expiry is kept, in one entry, so the order of merges and their repetition do not
//! matter; buckets that are the same in both cost a comparison, and entries are put into the copy that has more. Must not
//! know: where copies are.

use crate::arch::{Instructions, Lanes, compiled_for};
use crate::buckets::{BUCKET_BYTES, BucketShape, CacheLine, REGION_BUCKETS, RegionLines, regions_of, regions_of_mut};
use crate::cuckoo::Buckets;
use crate::cuckoo::bucket::{Ring, matches};
use crate::cuckoo::region::{Put, Region};
use crate::cuckoo::stash::Stashed;
use crate::cuckoo::times::TimeWord;
use crate::cuckoo::view::View;
use crate::unit_number::UnitNumber;

/// Where the merge of a region stands.
#[derive(Clone, Copy)]
struct Merging {
    shape: BucketShape,
    /// The base of the region that is merged into.
    base: UnitNumber,
    /// The base of the other one, not later.
    then: UnitNumber,
    /// No entry expires later. Bytes from outside are checked before; whatever they say, nothing outlives the window here.
    latest: UnitNumber,
    lanes: Lanes,
}

#[allow(private_bounds)]
impl<W: TimeWord> Buckets<W> {
    /// Puts every entry of `others`, whole regions as they stood at `then`, into `cells`, which stand at `now`. Returns
    /// how many entries the stashes hold then; `None` where a region has no room for all.
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

    /// Whether `others` have an entry that `cells` lack, or forget earlier.
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
    /// Merges one region; returns whether there was room for everything.
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

    /// The entries of `mine` put into a copy of `other`; `None` where that has no room for them: then `other` is put into
    /// `mine`, which keeps what it has.
    fn into_other<W: TimeWord>(self, mine: &RegionLines, other: &RegionLines) -> Option<Box<RegionLines>> {
        let mut merged = Box::new(*other);
        for line in merged.iter_mut().take(REGION_BUCKETS) {
            let ring = self.other_ring::<W>(line);
            ring.write(line, self.shape);
        }
        // What the stash holds may find room in its buckets.
        merged[REGION_BUCKETS] = [0; BUCKET_BYTES];
        let twins = self.take_twins::<W>(&mut merged);
        let stashed = self.other_view::<W>(other).stashed().map(|entry| self.bounded(entry));
        let entries = twins.into_iter().chain(stashed).chain(self.view::<W>(mine).entries());
        self.put_all::<W>(&mut merged, entries).then_some(merged)
    }

    /// Takes out every entry of an event but one. A filter writes no second one, but bytes from outside may have it: then
    /// the one that expires first may be the one that is found. Those that are taken out need no room when they are put
    /// in again, as one is there.
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

    /// Whether an event has an entry beside the one in `bucket`: there, or in the other one, which is looked at from the
    /// first of both only.
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

    /// Puts in all entries that are alive; returns whether there was room for them.
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

    /// The entries of `other` in buckets that are not the same in `mine`, and in the stash.
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

    /// A bucket of the other region, as it stands at the base of this one.
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
