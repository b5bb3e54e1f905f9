//! The layout of a bucket of 64 bytes: how many fingerprints it has, how many ticks it can distinguish, and where these
//! values lie.
//!
//! The layout of a bucket is calculated from two numbers: the number of bits in a fingerprint, and the number of bits
//! for times. Some pairs of numbers have no layout. The calculation can still not fail, because a geometry with such a
//! pair is rejected when it is created.
//!
//! This module does not depend on the content of a bucket.

/// Minimum number of bits in a fingerprint.
pub const PRINT_BITS_MIN: u32 = 10;
/// Maximum number of bits in a fingerprint.
pub const PRINT_BITS_MAX: u32 = 32;

/// Number of buckets in a region. Both buckets of an event lie in the same region, so no entry ever moves from one
/// region to another.
pub const REGION_BUCKETS: usize = 1024;
/// Number of cache lines in a region: its buckets, and one further line for entries that found no room.
pub(crate) const REGION_LINES: usize = REGION_BUCKETS + 1;
/// Size of a cache line, and of a bucket, in bytes.
pub(crate) const BUCKET_BYTES: usize = 64;
/// Bytes of a bucket.
pub(crate) type CacheLine = [u8; BUCKET_BYTES];
/// Cache lines of a region.
pub(crate) type RegionLines = [CacheLine; REGION_LINES];
/// Size of a region in bytes.
pub(crate) const REGION_BYTES: usize = REGION_LINES * BUCKET_BYTES;

/// Upper bound of the ticks that a bucket can distinguish. The maximum is 108 ticks, with fingerprints of 32 bits and
/// 128 bits for times.
pub(crate) const TICKS_MAX: usize = 128;

/// Number of bits of a bucket that store the tick of its last maintenance.
pub(crate) const BASE_BITS: u32 = 5;

/// Layout of a bucket, from its lowest bit:
///
/// ```text
/// times | head | base | a byte of every fingerprint | the next byte | ... | a bit of every fingerprint | the next bit ...
/// ```
///
/// A bucket stores its fingerprints and their times separately. The fingerprints lie in a ring of S slots, in the order
/// of their expiry, starting at slot `head`. They are stored byte by byte, because a single processor instruction can
/// then compare the same byte of all fingerprints.
///
/// The times are stored in unary code, with a 1 for each entry and a 0 at the end of each tick. For example, `11010`
/// stands for two entries that expire in the first tick, one entry that expires in the second tick, and no entry in the
/// third tick. The last tick needs no 0 at its end, so the times of S slots and T ticks take S + T - 1 bits. An expired
/// tick is removed by shifting these bits.
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

/// Location of an event in the buckets: its position in unpacked form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) region: usize,
    /// Number of the bucket within the region.
    pub(crate) bucket: usize,
    pub(crate) print: u32,
}

impl Pair {
    /// Splits `position` into region, bucket and fingerprint, from the highest bit down.
    #[inline(always)]
    pub(crate) fn of(position: u64, print_bits: u32) -> Self {
        let bucket = position >> print_bits;
        Self {
            region: (bucket / REGION_BUCKETS as u64) as usize,
            bucket: bucket as usize % REGION_BUCKETS,
            print: (position & (u64::MAX >> (u64::BITS - print_bits))) as u32,
        }
    }

    /// Returns both buckets of the event, as numbers within the region.
    #[inline(always)]
    pub(crate) fn buckets(self) -> [usize; 2] {
        // The bucket is already in range. The remainder tells the compiler so, which removes later bounds checks.
        let bucket = self.bucket % REGION_BUCKETS;
        [bucket, BucketShape::partner(bucket, self.print)]
    }

    /// Returns the numbers of the cache lines of both buckets in the memory of the generation.
    pub(crate) fn lines(self) -> [usize; 2] {
        self.buckets().map(|bucket| self.region * REGION_LINES + bucket)
    }
}

impl BucketShape {
    /// Returns the layout of buckets with fingerprints of `print_bits` bits and `time_bits` bits for times.
    pub const fn new(print_bits: u32, time_bits: u8) -> Self {
        let time_bits = time_bits as u32;
        Self { print_bits, time_bits, slots: (8 * BUCKET_BYTES as u32 - time_bits) / print_bits }
    }

    /// Returns the number of bits in a fingerprint (F).
    pub const fn print_bits(&self) -> u32 {
        self.print_bits
    }

    /// Returns the number of fingerprints in a bucket (S).
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the number of ticks by which the entries of one bucket may differ (T).
    pub const fn ticks(&self) -> u32 {
        self.unary_bits() + 1 - self.slots
    }

    /// Returns the number of bits for the unary times, which are the time bits without head and base.
    pub(crate) const fn unary_bits(&self) -> u32 {
        self.time_bits - BASE_BITS - self.head_bits()
    }

    /// Returns the number of bits for the number of a slot.
    pub(crate) const fn head_bits(&self) -> u32 {
        u32::BITS - (self.slots - 1).leading_zeros()
    }

    /// Returns a mask with one bit for every slot.
    pub(crate) const fn all_slots(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.slots)
    }

    /// Returns the number of whole bytes in a fingerprint.
    pub(crate) const fn columns(&self) -> u32 {
        self.print_bits / 8
    }

    /// Returns the byte at which column `column` begins. A column has one byte of each fingerprint.
    pub(crate) const fn column_start(&self, column: u32) -> usize {
        (self.time_bits / 8 + column * self.slots) as usize
    }

    /// Returns the index of the first bit of bit plane `bit` within the bucket. A bit plane contains the same bit of
    /// every fingerprint. Only the bits of a fingerprint that do not fill a whole byte are stored in planes.
    pub(crate) const fn plane_start(&self, bit: u32) -> usize {
        8 * self.column_start(self.columns()) + ((bit - 8 * self.columns()) * self.slots) as usize
    }

    /// Returns a mask of the bits of a fingerprint.
    pub(crate) const fn print_mask(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.print_bits)
    }

    /// Returns the other of the two buckets of an event with the given fingerprint, within the same region. The
    /// function never returns `b` itself, and it is its own inverse: `partner(partner(b)) = b`.
    ///
    /// ```
    /// use firstseen_filter::BucketShape;
    /// let partner = BucketShape::partner(17, 0xBEEF);
    /// assert!(partner != 17 && partner < 1024 && BucketShape::partner(partner, 0xBEEF) == 17);
    /// ```
    #[inline(always)]
    pub const fn partner(bucket: usize, print: u32) -> usize {
        // The highest bits of the product depend on all bits of the fingerprint.
        let mixed = print.wrapping_mul(0x9E37_79B1) >> (u32::BITS - REGION_BUCKETS.trailing_zeros());
        bucket ^ (mixed as usize | 1)
    }
}

/// Returns the cache lines of a generation's memory, or of whole regions of it.
pub(crate) fn lines_of(memory: &[u8]) -> &[CacheLine] {
    memory.as_chunks::<BUCKET_BYTES>().0
}

/// Returns the regions of a generation's memory.
pub(crate) fn regions_of(memory: &[u8]) -> &[RegionLines] {
    lines_of(memory).as_chunks().0
}

/// Returns the regions of a generation's memory as mutable references.
pub(crate) fn regions_of_mut(memory: &mut [u8]) -> &mut [RegionLines] {
    memory.as_chunks_mut::<BUCKET_BYTES>().0.as_chunks_mut().0
}
