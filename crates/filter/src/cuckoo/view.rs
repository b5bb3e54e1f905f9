//! A read-only view of a region at a tick.
//!
//! Every entry that the view finds is alive, and the view changes nothing.
//!
//! This module does not depend on other regions, digests or stamps.

use std::marker::PhantomData;

use crate::arch::Lanes;
use crate::buckets::{BucketShape, REGION_BUCKETS, RegionLines};
use crate::cuckoo::bucket::{Ring, matches};
use crate::cuckoo::stash::{Stashed, stashed};
use crate::cuckoo::times::TimeWord;
use crate::unit_number::UnitNumber;

/// Place of an entry.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Place in the ring of a bucket.
    Ring { bucket: usize, place: u32 },
    /// Place in the stash.
    Stash(usize),
}

/// View of a region. Its live entries are those that expire after `base`.
#[derive(Clone, Copy)]
pub(super) struct View<'a, W> {
    lines: &'a RegionLines,
    shape: BucketShape,
    base: UnitNumber,
    lanes: Lanes,
    width: PhantomData<W>,
}

impl<'a, W: TimeWord> View<'a, W> {
    pub(super) fn new(lines: &'a RegionLines, shape: BucketShape, base: UnitNumber, lanes: Lanes) -> Self {
        Self { lines, shape, base, lanes, width: PhantomData }
    }

    /// Returns a bucket as it is at the base.
    pub(super) fn ring(self, bucket: usize) -> Ring<W> {
        let mut ring = Ring::read(&self.lines[bucket], self.shape);
        ring.expire(self.base, self.shape, self.lanes);
        ring
    }

    /// Returns the place and the expiry of the entry of an event, if the entry is alive.
    pub(super) fn find(self, bucket: usize, print: u32) -> Option<(Place, UnitNumber)> {
        let pair = [bucket, BucketShape::partner(bucket, print)];
        for bucket in pair {
            let ring = self.ring(bucket);
            let equal = matches(ring, &self.lines[bucket], print, self.shape, self.lanes);
            if equal != 0 {
                let place = ring.place(equal.trailing_zeros(), self.shape);
                let expiry = self.base.after(u64::from(ring.tick(place, self.lanes)));
                return Some((Place::Ring { bucket, place }, expiry));
            }
        }
        let mut alive = stashed(&self.lines[REGION_BUCKETS]).filter(|(_, entry)| entry.expiry > self.base);
        let (place, entry) = alive.find(|(_, entry)| entry.print == print && pair.contains(&entry.bucket))?;
        Some((Place::Stash(place), entry.expiry))
    }

    /// Returns all live entries, each with one of its two buckets.
    pub(super) fn entries(self) -> impl Iterator<Item = Stashed> {
        (0..REGION_BUCKETS).flat_map(move |bucket| self.bucket_entries(bucket)).chain(self.stashed())
    }

    /// Returns all live entries of a bucket.
    pub(super) fn bucket_entries(self, bucket: usize) -> impl Iterator<Item = Stashed> {
        let entries = self.ring(bucket).entries(&self.lines[bucket], self.shape, self.lanes);
        entries.map(move |(print, tick)| Stashed { bucket, print, expiry: self.base.after(u64::from(tick)) })
    }

    /// Returns all live entries of the stash.
    pub(super) fn stashed(self) -> impl Iterator<Item = Stashed> {
        let entries = stashed(&self.lines[REGION_BUCKETS]).map(|(_, entry)| entry);
        entries.filter(move |entry| entry.expiry > self.base)
    }

    /// Returns the number of live entries in the buckets.
    pub(super) fn count(self) -> u32 {
        (0..REGION_BUCKETS).map(|bucket| self.ring(bucket).count()).sum()
    }
}
