//! Derives the positions of an event from its digest.
//!
//! The positions depend only on the digest and the geometry. The page `docs/reference/hashing.md` describes the same
//! steps with test vectors.
//!
//! This module does not depend on the content of cells. Each layout has its own rule:
//!
//! - Classic: position `i` is `reduce(word(i), m)`.
//! - Partitioned: position `i` is `i (m/k) + reduce(word(i), m/k)`.
//! - Blocked: the block is `reduce(word(0), blocks)`. The offsets within the block have `log2(cells of a block)` bits
//!   each. They are read from the low end of `word(1)`, as many as fit completely, and then from `word(2)`.
//! - Buckets: the region is `reduce(word(0), regions)`. The bucket within the region and the fingerprint are the
//!   highest bits of `word(1)`. An event has a single position, which consists of the region, the bucket and the
//!   fingerprint, from the highest bit down.

use crate::buckets::REGION_BUCKETS;
use crate::{Digest, Geometry, Layout, reduce};

/// Positions of one event in a blocked layout, in packed form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockProbe {
    /// Number of the block that contains all positions.
    pub block: u64,
    /// Offsets within the block, packed from the low end. Each word contains as many offsets as fit completely.
    pub words: [u64; 2],
}

impl BlockProbe {
    /// Derives the positions of `digest` in a slice of `blocks` blocks.
    #[inline(always)]
    pub fn new(digest: Digest, blocks: u64) -> Self {
        Self { block: reduce(digest.word(0), blocks), words: [digest.word(1), digest.word(2)] }
    }

    /// Calls `visit` with the offset of every position within its block of `2^offset_bits` cells.
    pub(crate) fn for_each_offset(self, offset_bits: u32, hashes: u32, visit: impl FnMut(usize)) {
        let words = self.words;
        match offset_bits {
            5 => BlockOffsets::<5> { words, hashes }.for_each(visit),
            6 => BlockOffsets::<6> { words, hashes }.for_each(visit),
            7 => BlockOffsets::<7> { words, hashes }.for_each(visit),
            8 => BlockOffsets::<8> { words, hashes }.for_each(visit),
            9 => BlockOffsets::<9> { words, hashes }.for_each(visit),
            10 => BlockOffsets::<10> { words, hashes }.for_each(visit),
            _ => BlockOffsets::<11> { words, hashes }.for_each(visit),
        }
    }
}

/// Positions of one event in a form that is cheap to copy and to read twice, without deriving them from the digest
/// again.
pub(crate) trait Offsets: Copy {
    /// Calls `visit` with every position, in the order of the hash functions.
    fn for_each(self, visit: impl FnMut(usize));
}

/// Offsets within a block of `2^BITS` cells.
#[derive(Clone, Copy)]
pub(crate) struct BlockOffsets<const BITS: u32> {
    pub(crate) words: [u64; 2],
    pub(crate) hashes: u32,
}

impl<const BITS: u32> Offsets for BlockOffsets<BITS> {
    #[inline(always)]
    fn for_each(self, mut visit: impl FnMut(usize)) {
        let per_word = 64 / BITS;
        let mut left = self.hashes;
        for mut word in self.words {
            for _ in 0..left.min(per_word) {
                visit((word & ((1 << BITS) - 1)) as usize);
                word >>= BITS;
            }
            left = left.saturating_sub(per_word);
            if left == 0 {
                break;
            }
        }
    }
}

/// Returns the position of `digest` in a slice of `regions` regions of buckets.
#[inline(always)]
pub(crate) fn bucket_position(digest: Digest, regions: u64, print_bits: u32) -> u64 {
    let low_bits = REGION_BUCKETS.trailing_zeros() + print_bits;
    reduce(digest.word(0), regions) << low_bits | digest.word(1) >> (u64::BITS - low_bits)
}

/// Positions that may lie anywhere in `cells` cells. In a partitioned slice each position lies in its own part of
/// `cells` cells.
#[derive(Clone, Copy)]
pub(crate) struct SpreadOffsets {
    pub(crate) digest: Digest,
    pub(crate) cells: u64,
    pub(crate) part_stride: u64,
    pub(crate) hashes: u32,
}

impl SpreadOffsets {
    /// Returns the positions of `digest` in a classic or partitioned slice.
    #[inline(always)]
    pub(crate) fn new(digest: Digest, geometry: &Geometry) -> Self {
        let hashes = geometry.hashes();
        match geometry.layout() {
            Layout::Partitioned => {
                let part = geometry.cells() / u64::from(hashes);
                Self { digest, cells: part, part_stride: part, hashes }
            }
            _ => Self { digest, cells: geometry.cells(), part_stride: 0, hashes },
        }
    }
}

impl Offsets for SpreadOffsets {
    #[inline(always)]
    fn for_each(self, mut visit: impl FnMut(usize)) {
        for index in 0..self.hashes as usize {
            let offset = reduce(self.digest.word(index), self.cells);
            visit((offset + index as u64 * self.part_stride) as usize);
        }
    }
}

/// Positions that were derived on another node, such as positions from the network or positions that fall into a
/// vertical slice.
impl Offsets for &[u64] {
    #[inline(always)]
    fn for_each(self, mut visit: impl FnMut(usize)) {
        for position in self {
            visit(*position as usize);
        }
    }
}

/// Writes the k positions of `digest` in a slice of `geometry` to `positions`, in the order of the hash functions.
///
/// ```
/// use firstseen_filter::{FilterSecret, Geometry, Layout, positions_of};
/// let geometry = Geometry::new(1 << 20, 5, 1, Layout::Classic).unwrap();
/// let mut positions = Vec::new();
/// positions_of(FilterSecret::from_seed(1).digest(b"event"), &geometry, &mut positions);
/// assert_eq!(positions.len(), 5);
/// assert!(positions.iter().all(|position| *position < 1 << 20));
/// ```
pub fn positions_of(digest: Digest, geometry: &Geometry, positions: &mut Vec<u64>) {
    positions.clear();
    match geometry.layout() {
        Layout::Classic | Layout::Partitioned => {
            SpreadOffsets::new(digest, geometry).for_each(|position| positions.push(position as u64));
        }
        Layout::Blocked { .. } => {
            let probe = BlockProbe::new(digest, geometry.blocks());
            let base = probe.block * geometry.block_cells();
            let offset_bits = geometry.block_cells().trailing_zeros();
            probe.for_each_offset(offset_bits, geometry.hashes(), |offset| positions.push(base + offset as u64));
        }
        Layout::Buckets { .. } => positions.push(bucket_position(digest, geometry.blocks(), geometry.cell_bits())),
    }
}
