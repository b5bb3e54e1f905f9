//! One bucket of a cuckoo filter: a ring of fingerprints in the order of their expiry.
//!
//! The entries of a bucket are always in the order of their expiry, whichever entries are added or removed.
//!
//! A bucket may contain bytes from an untrusted source. Reading a bucket therefore never fails, whatever its 64 bytes
//! are. The function [`is_bucket`] checks whether a filter can have written these bytes.
//!
//! This module does not depend on where a bucket lies or which other bucket an event has.

use crate::arch::Lanes;
use crate::buckets::{BASE_BITS, BUCKET_BYTES, BucketShape, CacheLine};
use crate::cuckoo::times::TimeWord;
use crate::unit_number::UnitNumber;

/// Times at which the entries of a bucket expire, in ticks. The entries are numbered along the ring of slots, starting
/// with the oldest. The times are stored in unary code, in which a 1 stands for an entry and a 0 for the end of a tick.
/// The tick of an entry is therefore 1 plus the number of zeros before the 1 of this entry.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Ring<W> {
    times: W,
    head: u32,
    base: u32,
}

impl<W: TimeWord> Ring<W> {
    #[inline(always)]
    pub(crate) fn read(line: &CacheLine, shape: BucketShape) -> Self {
        let word = W::read(line);
        let rest = word.down(shape.unary_bits()).lowest() as u32;
        let head = rest & ((1 << shape.head_bits()) - 1);
        let base = rest >> shape.head_bits();
        Self { times: word.low(shape.unary_bits()), head, base: base & ((1 << BASE_BITS) - 1) }
    }

    #[inline(always)]
    pub(crate) fn write(self, line: &mut CacheLine, shape: BucketShape) {
        let rest = u64::from(self.head | self.base << shape.head_bits());
        self.times.or(W::of(rest).up(shape.unary_bits())).write(line);
    }

    /// Returns the number of entries.
    #[inline(always)]
    pub(crate) fn count(self) -> u32 {
        self.times.ones()
    }

    #[inline(always)]
    pub(crate) fn is_full(self, shape: BucketShape) -> bool {
        self.count() >= shape.slots()
    }

    /// Returns the number of ticks since the last maintenance of the bucket, if the present tick is `base`. The result
    /// is less than 32.
    #[inline(always)]
    fn age(self, base: UnitNumber) -> u32 {
        (base.0 as u32).wrapping_sub(self.base) & ((1 << BASE_BITS) - 1)
    }

    /// Removes the entries that have expired at `base`. The last maintenance of the bucket must be at most 31 ticks
    /// ago.
    #[inline(always)]
    pub(crate) fn expire(&mut self, base: UnitNumber, shape: BucketShape, lanes: Lanes) {
        self.shift(self.age(base), base, shape, lanes);
    }

    /// Removes the entries that have expired at `next`, which may be any number of ticks after `base`.
    pub(crate) fn expire_later(&mut self, base: UnitNumber, next: UnitNumber, shape: BucketShape, lanes: Lanes) {
        let ticks = next.since(base).saturating_add(u64::from(self.age(base)));
        self.shift(u32::try_from(ticks).unwrap_or(u32::MAX), next, shape, lanes);
    }

    #[inline(always)]
    fn shift(&mut self, ticks: u32, base: UnitNumber, shape: BucketShape, lanes: Lanes) {
        self.base = base.0 as u32 & ((1 << BASE_BITS) - 1);
        if ticks >= shape.ticks() {
            (self.times, self.head) = (W::ZERO, 0);
            return;
        }
        let over = self.times.up_to_zero(ticks, lanes);
        self.times = self.times.down(over);
        self.head = wrapped(self.head + over - ticks, shape.slots());
    }

    /// Returns a mask of the slots that hold an entry.
    #[inline(always)]
    fn occupied(self, shape: BucketShape) -> u64 {
        let entries = !(u64::MAX << self.count().min(u64::BITS - 1));
        (entries << self.head | entries >> (shape.slots() - self.head.min(shape.slots()))) & shape.all_slots()
    }

    /// Returns the slot at `place` of the ring.
    #[inline(always)]
    fn slot(self, place: u32, shape: BucketShape) -> u32 {
        wrapped(self.head + place, shape.slots())
    }

    /// Returns the place in the ring of the entry in `slot`.
    #[inline(always)]
    pub(crate) fn place(self, slot: u32, shape: BucketShape) -> u32 {
        wrapped(slot + shape.slots() - self.head, shape.slots())
    }

    /// Returns the tick at which the entry at `place` expires, counted from the base. The result is at least 1.
    #[inline(always)]
    pub(crate) fn tick(self, place: u32, lanes: Lanes) -> u32 {
        self.times.up_to_one(place + 1, lanes) - place
    }

    /// Adds an entry that expires at `tick`, from 1 to T. No other entry may expire later, and the bucket must not be
    /// full.
    #[inline(always)]
    pub(crate) fn append(&mut self, line: &mut CacheLine, print: u32, tick: u32, shape: BucketShape) {
        let count = self.count();
        self.times = self.times.or(W::of(1).up(tick - 1 + count));
        write_print(line, self.slot(count, shape), print, shape);
        self.write(line, shape);
    }

    /// Adds an entry that expires at `tick`, from 1 to T, behind all entries that expire at that tick or earlier. The
    /// bucket must not be full.
    pub(crate) fn insert(&mut self, line: &mut CacheLine, print: u32, tick: u32, shape: BucketShape, lanes: Lanes) {
        if tick >= shape.ticks() {
            return self.append(line, print, shape.ticks(), shape);
        }
        let at = self.times.up_to_zero(tick, lanes) - 1;
        let place = at + 1 - tick;
        for later in (place..self.count()).rev() {
            let moved = read_print(line, self.slot(later, shape), shape);
            write_print(line, self.slot(later + 1, shape), moved, shape);
        }
        write_print(line, self.slot(place, shape), print, shape);
        self.times = self.times.low(at).or(W::of(1).up(at)).or(self.times.down(at).up(at + 1));
        self.write(line, shape);
    }

    /// Removes the entry at `place`.
    pub(crate) fn remove(&mut self, line: &mut CacheLine, place: u32, shape: BucketShape, lanes: Lanes) {
        let at = self.times.up_to_one(place + 1, lanes) - 1;
        for later in place + 1..self.count() {
            let moved = read_print(line, self.slot(later, shape), shape);
            write_print(line, self.slot(later - 1, shape), moved, shape);
        }
        self.times = self.times.low(at).or(self.times.down(at + 1).up(at));
        self.write(line, shape);
    }

    /// Returns the fingerprint of the entry at `place`.
    pub(crate) fn print(self, line: &CacheLine, place: u32, shape: BucketShape) -> u32 {
        read_print(line, self.slot(place, shape), shape)
    }

    /// Returns all entries, oldest first, each as its fingerprint and its tick.
    pub(crate) fn entries(
        self,
        line: &CacheLine,
        shape: BucketShape,
        lanes: Lanes,
    ) -> impl Iterator<Item = (u32, u32)> {
        (0..self.count()).map(move |place| (self.print(line, place, shape), self.tick(place, lanes)))
    }
}

/// Returns whether a filter of this shape, whose entries expire within `reach` ticks, can have written `line`.
pub(crate) fn is_bucket<W: TimeWord>(line: &CacheLine, shape: BucketShape, reach: u64) -> bool {
    let ring = Ring::<W>::read(line, shape);
    let zeros = ring.times.len() - ring.count();
    ring.head < shape.slots() && ring.count() <= shape.slots() && u64::from(zeros) < reach
}

#[inline(always)]
fn wrapped(slot: u32, slots: u32) -> u32 {
    if slot >= slots { slot - slots } else { slot }
}

/// Returns a mask of the entries of a bucket whose fingerprint is `print`.
#[inline(always)]
pub(crate) fn matches<W: TimeWord>(
    ring: Ring<W>,
    line: &CacheLine,
    print: u32,
    shape: BucketShape,
    lanes: Lanes,
) -> u64 {
    match equal_slots(line, print, shape, lanes) {
        // For most events no fingerprint matches, so the occupied slots are not needed.
        0 => 0,
        equal => equal & ring.occupied(shape),
    }
}

/// Returns a mask of the slots whose fingerprint is `print`, whether or not the slot holds an entry.
#[inline(always)]
fn equal_slots(line: &CacheLine, print: u32, shape: BucketShape, lanes: Lanes) -> u64 {
    let mut equal = shape.all_slots();
    for column in 0..shape.columns() {
        let byte = (print >> (8 * column)) as u8;
        equal &= lanes.equal_bytes(line, shape.column_start(column), shape.slots() as usize, byte);
    }
    for bit in 8 * shape.columns()..shape.print_bits() {
        let all_or_none = 0u64.wrapping_sub(u64::from(print >> bit & 1));
        equal &= !(plane(line, shape.plane_start(bit)) ^ all_or_none);
    }
    equal
}

/// Returns at least 57 bits of a bucket, from bit `start` on.
#[inline(always)]
fn plane(line: &CacheLine, start: usize) -> u64 {
    let byte = (start / 8).min(BUCKET_BYTES - 8);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&line[byte..byte + 8]);
    u64::from_le_bytes(bytes) >> (start - 8 * byte)
}

fn read_print(line: &CacheLine, slot: u32, shape: BucketShape) -> u32 {
    let bytes =
        (0..shape.columns()).map(|column| u32::from(line[shape.column_start(column) + slot as usize]) << (8 * column));
    let bits = (8 * shape.columns()..shape.print_bits()).map(|bit| {
        let at = shape.plane_start(bit) + slot as usize;
        u32::from(line[at / 8] >> (at % 8) & 1) << bit
    });
    bytes.chain(bits).fold(0, |print, part| print | part)
}

#[inline(always)]
fn write_print(line: &mut CacheLine, slot: u32, print: u32, shape: BucketShape) {
    for column in 0..shape.columns() {
        line[(shape.column_start(column) + slot as usize) % BUCKET_BYTES] = (print >> (8 * column)) as u8;
    }
    for bit in 8 * shape.columns()..shape.print_bits() {
        let at = shape.plane_start(bit) + slot as usize;
        let byte = &mut line[at / 8 % BUCKET_BYTES];
        *byte = *byte & !(1 << (at % 8)) | ((print >> bit & 1) as u8) << (at % 8);
    }
}
