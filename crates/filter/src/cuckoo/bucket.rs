//! One bucket: a ring of fingerprints in order of expiry.
//!
//! Promises: entries stay in order whatever is put in and taken out; any 64 bytes are some bucket to read, and
//! [`is_bucket`] says whether a filter wrote them. Must not know: where the bucket lies, which other bucket an event
//! has.

use crate::arch::Lanes;
use crate::buckets::{BASE_BITS, BUCKET_BYTES, BucketShape, CacheLine};
use crate::cuckoo::times::TimeWord;
use crate::unit_number::UnitNumber;

/// The times of a bucket, unpacked: of the entry at place i of the ring, counted from the oldest, the tick is 1 and as
/// many more as zeros stand before its 1.
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

    /// Entries.
    #[inline(always)]
    pub(crate) fn count(self) -> u32 {
        self.times.ones()
    }

    #[inline(always)]
    pub(crate) fn is_full(self, shape: BucketShape) -> bool {
        self.count() >= shape.slots()
    }

    /// How many ticks ago the bucket was looked after, when the tick is `base`: fewer than 32.
    #[inline(always)]
    fn age(self, base: UnitNumber) -> u32 {
        (base.0 as u32).wrapping_sub(self.base) & ((1 << BASE_BITS) - 1)
    }

    /// Lets the entries expire that are over at `base`; the bucket was looked after within the 31 ticks before.
    #[inline(always)]
    pub(crate) fn expire(&mut self, base: UnitNumber, shape: BucketShape, lanes: Lanes) {
        self.shift(self.age(base), base, shape, lanes);
    }

    /// The same at `next`, any number of ticks later than `base`.
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

    /// A bit for each slot that holds an entry.
    #[inline(always)]
    fn occupied(self, shape: BucketShape) -> u64 {
        let entries = !(u64::MAX << self.count().min(u64::BITS - 1));
        (entries << self.head | entries >> (shape.slots() - self.head.min(shape.slots()))) & shape.all_slots()
    }

    /// The slot at `place` of the ring.
    #[inline(always)]
    fn slot(self, place: u32, shape: BucketShape) -> u32 {
        wrapped(self.head + place, shape.slots())
    }

    /// The place in the ring of the entry in `slot`.
    #[inline(always)]
    pub(crate) fn place(self, slot: u32, shape: BucketShape) -> u32 {
        wrapped(slot + shape.slots() - self.head, shape.slots())
    }

    /// The tick at which the entry at `place` expires, counted from the base: 1 at least.
    #[inline(always)]
    pub(crate) fn tick(self, place: u32, lanes: Lanes) -> u32 {
        self.times.up_to_one(place + 1, lanes) - place
    }

    /// Adds an entry that expires at `tick`, 1 to T, and no other later; the bucket must not be full.
    #[inline(always)]
    pub(crate) fn append(&mut self, line: &mut CacheLine, print: u32, tick: u32, shape: BucketShape) {
        let count = self.count();
        self.times = self.times.or(W::of(1).up(tick - 1 + count));
        write_print(line, self.slot(count, shape), print, shape);
        self.write(line, shape);
    }

    /// Adds an entry that expires at `tick`, 1 to T, behind all that expire then or sooner; the bucket must not be full.
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

    /// Takes out the entry at `place`.
    pub(crate) fn remove(&mut self, line: &mut CacheLine, place: u32, shape: BucketShape, lanes: Lanes) {
        let at = self.times.up_to_one(place + 1, lanes) - 1;
        for later in place + 1..self.count() {
            let moved = read_print(line, self.slot(later, shape), shape);
            write_print(line, self.slot(later - 1, shape), moved, shape);
        }
        self.times = self.times.low(at).or(self.times.down(at + 1).up(at));
        self.write(line, shape);
    }

    /// The fingerprint of the entry at `place`.
    pub(crate) fn print(self, line: &CacheLine, place: u32, shape: BucketShape) -> u32 {
        read_print(line, self.slot(place, shape), shape)
    }

    /// Every entry, the oldest first: its fingerprint and its tick.
    pub(crate) fn entries(
        self,
        line: &CacheLine,
        shape: BucketShape,
        lanes: Lanes,
    ) -> impl Iterator<Item = (u32, u32)> {
        (0..self.count()).map(move |place| (self.print(line, place, shape), self.tick(place, lanes)))
    }
}

/// Whether a filter of this shape, in which entries expire within `reach` ticks, may have written `line`.
pub(crate) fn is_bucket<W: TimeWord>(line: &CacheLine, shape: BucketShape, reach: u64) -> bool {
    let ring = Ring::<W>::read(line, shape);
    let zeros = ring.times.len() - ring.count();
    ring.head < shape.slots() && ring.count() <= shape.slots() && u64::from(zeros) < reach
}

#[inline(always)]
fn wrapped(slot: u32, slots: u32) -> u32 {
    if slot >= slots { slot - slots } else { slot }
}

/// A bit for every entry of a bucket whose fingerprint is `print`.
#[inline(always)]
pub(crate) fn matches<W: TimeWord>(
    ring: Ring<W>,
    line: &CacheLine,
    print: u32,
    shape: BucketShape,
    lanes: Lanes,
) -> u64 {
    match equal_slots(line, print, shape, lanes) {
        // Of most events there is none, and then nothing more is to be known.
        0 => 0,
        equal => equal & ring.occupied(shape),
    }
}

/// A bit for every slot whose fingerprint is `print`, whether it holds an entry or not.
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

/// 57 bits at least of a bucket, from bit `start` on.
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
