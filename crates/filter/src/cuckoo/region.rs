//! A region: 1,024 buckets and a stash, in which all that can become of an event happens.
//!
//! Promises: it is a map from an event (its pair of buckets and its fingerprint) to the greatest expiry that was put in,
//! whichever entry lies where; nothing that is alive is ever dropped. Must not know: other regions, digests, stamps.

use std::marker::PhantomData;

use crate::arch::Lanes;
use crate::buckets::{BucketShape, REGION_BUCKETS, RegionLines};
use crate::cuckoo::bucket::{Ring, matches};
use crate::cuckoo::stash::{STASH_ENTRIES, Stashed, set_stashed, stashed_at, stashed_count};
use crate::cuckoo::times::TimeWord;
use crate::cuckoo::view::{Place, View};
use crate::unit_number::UnitNumber;

/// How far relocation looks: an entry moves to its other bucket, where another one has moved to its own.
const RELOCATIONS_MAX: u32 = 2;

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is there now.
    New,
    /// It was there, and expires later now; this was its expiry.
    Raised(UnitNumber),
    /// It was there, and expires as late or later.
    Kept,
    /// The region has no room for another entry.
    Full,
}

/// A region of which the entries above `base` are alive.
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

    /// Entries of the stash, also those that have expired.
    pub(super) fn stashed(&self) -> u64 {
        stashed_count(&self.lines[REGION_BUCKETS])
    }

    fn tick(&self, expiry: UnitNumber) -> u32 {
        u32::try_from(expiry.since(self.base)).unwrap_or(u32::MAX).min(self.shape.ticks())
    }

    /// Puts an entry in that expires at `tick`, none later, where its two buckets alone say that it is not there and that
    /// there is room for it. What a stash may hold is not looked at.
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

    /// Puts an entry in that is not there.
    pub(super) fn put_new(&mut self, bucket: usize, print: u32, expiry: UnitNumber) -> Put {
        let tick = self.tick(expiry);
        if self.add(bucket, print, tick) { Put::New } else { Put::Full }
    }

    /// Puts an entry in, or lets the one that is there live until `expiry`, above the base.
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

    /// Lets an entry live until `tick` in the bucket or the stash that it lies in: this needs no room.
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

    /// Adds an entry that is not there: to the emptier of its buckets, to either after others have moved, as few as
    /// possible, or to the stash.
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

    /// Whether `bucket` has room, if need be after one of its entries has moved to its other bucket, where `relocations`
    /// may follow each other.
    fn make_room(&mut self, bucket: usize, relocations: u32) -> bool {
        let ring = self.ring(bucket);
        if !ring.is_full(self.shape) || relocations == 0 {
            return !ring.is_full(self.shape);
        }
        // The youngest leave first: they come last in their other bucket too, so that little has to move for them.
        (0..ring.count()).rev().any(|place| {
            let print = ring.print(&self.lines[bucket], place, self.shape);
            let partner = BucketShape::partner(bucket, print);
            // Nothing comes to this bucket meanwhile, as it is full: the place stays that of the entry.
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

    /// Empties the stash of what has expired, and brings back what finds room in its buckets.
    pub(super) fn unstash(&mut self) {
        for place in 0..STASH_ENTRIES {
            let Some(Stashed { bucket, print, expiry }) = stashed_at(&self.lines[REGION_BUCKETS], place) else {
                continue;
            };
            set_stashed(&mut self.lines[REGION_BUCKETS], place, None);
            if expiry > self.base {
                // Where the buckets have no room still, the place that it had is free.
                self.put(bucket, print, expiry);
            }
        }
    }
}
