//! A region of a cuckoo filter: 1,024 buckets and a stash. All entries of an event stay within one region.
//!
//! A region behaves like a map from events to their expiry. An event is identified by its pair of buckets and its
//! fingerprint, and the map keeps the greatest expiry that was added for it. The place of an entry within the region
//! does not matter. The region never drops a live entry.
//!
//! This module does not depend on other regions, digests or stamps.

use std::marker::PhantomData;

use crate::arch::Lanes;
use crate::buckets::{BucketShape, REGION_BUCKETS, RegionLines};
use crate::cuckoo::bucket::{Ring, matches};
use crate::cuckoo::stash::{STASH_ENTRIES, Stashed, set_stashed, stashed_at, stashed_count};
use crate::cuckoo::times::TimeWord;
use crate::cuckoo::view::{Place, View};
use crate::unit_number::UnitNumber;

/// Maximum number of entries that are moved to make room for a new entry. An entry of a full bucket can be moved to its
/// second bucket, which counts as one move. If the second bucket is full as well, an entry of that bucket must be moved
/// first, which counts as another move.
const RELOCATIONS_MAX: u32 = 2;

/// Result of adding an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// The entry was added.
    New,
    /// The entry already existed, and its expiry was raised. The field is the previous expiry.
    Raised(UnitNumber),
    /// The entry already existed with the same or a later expiry.
    Kept,
    /// The region has no room for another entry.
    Full,
}

/// Region whose live entries are those that expire after `base`.
pub(super) struct Region<'a, W> {
    lines: &'a mut RegionLines,
    shape: BucketShape,
    base: UnitNumber,
    lanes: Lanes,
    width: PhantomData<W>,
}

impl<'a, W: TimeWord> Region<'a, W> {
    pub(super) fn new(lines: &'a mut RegionLines, shape: BucketShape, base: UnitNumber, lanes: Lanes) -> Self {
        Self { lines, shape, base, lanes, width: PhantomData }
    }

    fn view(&self) -> View<'_, W> {
        View::new(self.lines, self.shape, self.base, self.lanes)
    }

    fn ring(&self, bucket: usize) -> Ring<W> {
        self.view().ring(bucket)
    }

    /// Returns the number of entries in the stash, including expired ones.
    pub(super) fn stashed(&self) -> u64 {
        stashed_count(&self.lines[REGION_BUCKETS])
    }

    fn tick(&self, expiry: UnitNumber) -> u32 {
        u32::try_from(expiry.since(self.base)).unwrap_or(u32::MAX).min(self.shape.ticks())
    }

    /// Adds an entry that expires at `tick` to the emptier of its two buckets. Returns `false`, and adds nothing, if
    /// one of the two buckets already contains the fingerprint or if there is no room. The caller must ensure that no
    /// entry of the region expires later than `tick`. The method does not search the stash.
    pub(super) fn append_new(&mut self, bucket: usize, print: u32, tick: u32) -> bool {
        let pair = [bucket, BucketShape::partner(bucket, print)];
        let rings = pair.map(|bucket| self.ring(bucket));
        let equal = [0, 1].map(|place| matches(rings[place], &self.lines[pair[place]], print, self.shape, self.lanes));
        let emptier = usize::from(rings[1].count() < rings[0].count());
        if equal != [0, 0] || rings[emptier].is_full(self.shape) {
            return false;
        }
        let mut ring = rings[emptier];
        ring.append(&mut self.lines[pair[emptier]], print, tick, self.shape);
        true
    }

    /// Adds an entry that does not exist yet.
    pub(super) fn put_new(&mut self, bucket: usize, print: u32, expiry: UnitNumber) -> Put {
        let tick = self.tick(expiry);
        if self.add(bucket, print, tick) { Put::New } else { Put::Full }
    }

    /// Adds an entry, or extends the life of the existing entry to `expiry`. `expiry` must be above the base.
    pub(super) fn put(&mut self, bucket: usize, print: u32, expiry: UnitNumber) -> Put {
        let tick = self.tick(expiry);
        match self.view().find(bucket, print) {
            Some((_, held)) if held >= expiry => Put::Kept,
            Some((place, held)) => {
                self.raise(place, print, tick);
                Put::Raised(held)
            }
            None => self.put_new(bucket, print, expiry),
        }
    }

    /// Extends the life of an entry to `tick` in its bucket or in the stash. This needs no further room.
    fn raise(&mut self, place: Place, print: u32, tick: u32) {
        match place {
            Place::Ring { bucket, place } => {
                let mut ring = self.ring(bucket);
                let line = &mut self.lines[bucket];
                ring.remove(line, place, self.shape, self.lanes);
                ring.insert(line, print, tick, self.shape, self.lanes);
            }
            Place::Stash(place) => {
                let line = &mut self.lines[REGION_BUCKETS];
                let expiry = self.base.after(u64::from(tick));
                set_stashed(line, place, stashed_at(line, place).map(|entry| Stashed { expiry, ..entry }));
            }
        }
    }

    /// Adds an entry that does not exist yet. The entry goes to the emptier of its two buckets. If both are full, the
    /// method relocates as few other entries as possible to make room. If that fails, the entry goes to the stash.
    fn add(&mut self, bucket: usize, print: u32, tick: u32) -> bool {
        let pair = [bucket, BucketShape::partner(bucket, print)];
        let emptier = usize::from(self.ring(pair[1]).count() < self.ring(pair[0]).count());
        let in_order = [pair[emptier], pair[1 - emptier]];
        let has_room = (0..=RELOCATIONS_MAX)
            .find_map(|relocations| in_order.into_iter().find(|bucket| self.make_room(*bucket, relocations)));
        match has_room {
            Some(bucket) => {
                let mut ring = self.ring(bucket);
                ring.insert(&mut self.lines[bucket], print, tick, self.shape, self.lanes);
                true
            }
            None => self.stash(Stashed { bucket, print, expiry: self.base.after(u64::from(tick)) }),
        }
    }

    /// Makes room for an entry in `bucket`, and returns whether there is room now. If the bucket is full, the method
    /// tries to move one of its entries to the other bucket of that entry. At most `relocations` entries are moved in
    /// total.
    fn make_room(&mut self, bucket: usize, relocations: u32) -> bool {
        let ring = self.ring(bucket);
        if !ring.is_full(self.shape) || relocations == 0 {
            return !ring.is_full(self.shape);
        }
        // The most recently added entries are relocated first. They also come last in their other bucket, so few
        // entries must be moved to make room for them.
        (0..ring.count()).rev().any(|place| {
            let print = ring.print(&self.lines[bucket], place, self.shape);
            let partner = BucketShape::partner(bucket, print);
            // No entry can enter this bucket in the meantime, because it is full. The entry therefore keeps its place.
            let moves = self.make_room(partner, relocations - 1);
            if moves {
                let tick = ring.tick(place, self.lanes);
                self.ring(partner).insert(&mut self.lines[partner], print, tick, self.shape, self.lanes);
                self.ring(bucket).remove(&mut self.lines[bucket], place, self.shape, self.lanes);
            }
            moves
        })
    }

    fn stash(&mut self, entry: Stashed) -> bool {
        let line = &mut self.lines[REGION_BUCKETS];
        for place in 0..STASH_ENTRIES {
            if stashed_at(line, place).is_none_or(|held| held.expiry <= self.base) {
                set_stashed(line, place, Some(entry));
                return true;
            }
        }
        false
    }

    /// Removes expired entries from the stash, and moves entries back to their buckets if these have room.
    pub(super) fn unstash(&mut self) {
        for place in 0..STASH_ENTRIES {
            let Some(Stashed { bucket, print, expiry }) = stashed_at(&self.lines[REGION_BUCKETS], place) else {
                continue;
            };
            set_stashed(&mut self.lines[REGION_BUCKETS], place, None);
            if expiry > self.base {
                // If the buckets still have no room, the entry returns to its previous place in the stash, which is
                // free.
                self.put(bucket, print, expiry);
            }
        }
    }
}
