//! What a bucket of 64 bytes holds: how many fingerprints, for how many ticks, and where they lie.
//!
//! Promises: everything follows from two numbers, the bits of a fingerprint and the bits for times, so a geometry that
//! exists is a shape. Must not know: what is in a bucket.

/// Bits of the shortest fingerprints.
pub const PRINT_BITS_MIN: u32 = 10;
/// Bits of the longest fingerprints.
pub const PRINT_BITS_MAX: u32 = 32;

/// Buckets of a region: both buckets of an event lie in one, so nothing ever moves from one region to another.
pub const REGION_BUCKETS: usize = 1024;
/// Lines of a region: its buckets, and one more for entries that found no room.
pub(crate) const REGION_LINES: usize = REGION_BUCKETS + 1;
/// Bytes of a cache line, and of a bucket.
pub(crate) const BUCKET_BYTES: usize = 64;
/// The bytes of a bucket.
pub(crate) type CacheLine = [u8; BUCKET_BYTES];
/// The lines of a region.
pub(crate) type RegionLines = [CacheLine; REGION_LINES];
/// Bytes of a region.
pub(crate) const REGION_BYTES: usize = REGION_LINES * BUCKET_BYTES;

/// More ticks than any bucket tells apart: the most are 108, with 32-bit fingerprints and 128 bits for times.
pub(crate) const TICKS_MAX: usize = 128;

/// Bits of a bucket that say at which tick it was looked after last.
pub(crate) const BASE_BITS: u32 = 5;

/// The layout of a bucket, from its lowest bit:
///
/// ```text
/// times | head | base | a byte of every fingerprint | the next byte | ... | a bit of every fingerprint | the next bit ...
/// ```
///
/// The fingerprints lie in a ring of S slots in order of expiry, from slot `head` on. The times are unary: a 1 for each
/// entry, a 0 where a tick ends, so they take S + T - 1 bits for S slots and T ticks. To let a tick expire is a shift.
/// Fingerprints lie byte by byte, as one instruction compares a byte of all of them.
///
/// ```
/// use firstseen_filter::BucketShape;
/// let shape = BucketShape::new(16, 64);
/// assert_eq!((shape.slots(), shape.ticks()), (28, 27));
/// let nearly_exact = BucketShape::new(32, 64);
/// assert_eq!((nearly_exact.slots(), nearly_exact.ticks()), (14, 42));
/// let fine = BucketShape::new(16, 128);
/// assert_eq!((fine.slots(), fine.ticks()), (24, 95));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketShape {
    print_bits: u32,
    time_bits: u32,
    slots: u32,
}

/// Where an event is: its position, unpacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) region: usize,
    /// Within the region.
    pub(crate) bucket: usize,
    pub(crate) print: u32,
}

impl Pair {
    /// Region, bucket and fingerprint, from the highest bit of `position` down.
    #[inline(always)]
    pub(crate) fn of(position: u64, print_bits: u32) -> Self {
        let bucket = position >> print_bits;
        Self {
            region: (bucket / REGION_BUCKETS as u64) as usize,
            bucket: bucket as usize % REGION_BUCKETS,
            print: (position & (u64::MAX >> (u64::BITS - print_bits))) as u32,
        }
    }

    /// Both buckets, within the region.
    #[inline(always)]
    pub(crate) fn buckets(self) -> [usize; 2] {
        // The bucket is below that already; said once more, nothing checks it again.
        let bucket = self.bucket % REGION_BUCKETS;
        [bucket, BucketShape::partner(bucket, self.print)]
    }

    /// The lines of the memory that both buckets are.
    pub(crate) fn lines(self) -> [usize; 2] {
        self.buckets().map(|bucket| self.region * REGION_LINES + bucket)
    }
}

impl BucketShape {
    /// Buckets of fingerprints of `print_bits` bits, with `time_bits` bits for their times.
    pub const fn new(print_bits: u32, time_bits: u8) -> Self {
        let time_bits = time_bits as u32;
        Self { print_bits, time_bits, slots: (8 * BUCKET_BYTES as u32 - time_bits) / print_bits }
    }

    /// Bits of a fingerprint (F).
    pub const fn print_bits(&self) -> u32 {
        self.print_bits
    }

    /// Fingerprints of a bucket (S).
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Ticks that entries of one bucket may differ by (T).
    pub const fn ticks(&self) -> u32 {
        self.unary_bits() + 1 - self.slots
    }

    /// Bits for the unary times: what head and base leave.
    pub(crate) const fn unary_bits(&self) -> u32 {
        self.time_bits - BASE_BITS - self.head_bits()
    }

    /// Bits that number the slots.
    pub(crate) const fn head_bits(&self) -> u32 {
        u32::BITS - (self.slots - 1).leading_zeros()
    }

    /// A bit for every slot.
    pub(crate) const fn all_slots(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.slots)
    }

    /// Whole bytes of a fingerprint.
    pub(crate) const fn columns(&self) -> u32 {
        self.print_bits / 8
    }

    /// The byte at which column `column` begins.
    pub(crate) const fn column_start(&self, column: u32) -> usize {
        (self.time_bits / 8 + column * self.slots) as usize
    }

    /// The bit of the bucket at which the plane of the fingerprints' bit `bit` begins, beyond their whole bytes.
    pub(crate) const fn plane_start(&self, bit: u32) -> usize {
        8 * self.column_start(self.columns()) + ((bit - 8 * self.columns()) * self.slots) as usize
    }

    /// The bits of a fingerprint.
    pub(crate) const fn print_mask(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.print_bits)
    }

    /// The other bucket of an event with this fingerprint, within the region: `partner(partner(b)) = b`, never b itself.
    ///
    /// ```
    /// use firstseen_filter::BucketShape;
    /// let partner = BucketShape::partner(17, 0xBEEF);
    /// assert!(partner != 17 && partner < 1024 && BucketShape::partner(partner, 0xBEEF) == 17);
    /// ```
    #[inline(always)]
    pub const fn partner(bucket: usize, print: u32) -> usize {
        // The highest bits of a product depend on all bits of the fingerprint.
        let mixed = print.wrapping_mul(0x9E37_79B1) >> (u32::BITS - REGION_BUCKETS.trailing_zeros());
        bucket ^ (mixed as usize | 1)
    }
}

/// The lines of a generation's memory, or of whole regions of it.
pub(crate) fn lines_of(memory: &[u8]) -> &[CacheLine] {
    memory.as_chunks::<BUCKET_BYTES>().0
}

/// Its regions.
pub(crate) fn regions_of(memory: &[u8]) -> &[RegionLines] {
    lines_of(memory).as_chunks().0
}

/// The same, to be changed.
pub(crate) fn regions_of_mut(memory: &mut [u8]) -> &mut [RegionLines] {
    memory.as_chunks_mut::<BUCKET_BYTES>().0.as_chunks_mut().0
}
