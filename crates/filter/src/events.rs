//! Sources of events for a pass over a batch: digests, keys that are hashed during the pass, or positions that were
//! derived on another node.
//!
//! An event has the same cells each time the pass asks for it.
//!
//! This module does not depend on the content of cells.

use std::ops::Range;

use crate::probe::{Offsets, SpreadOffsets, bucket_position};
use crate::{BlockProbe, Digest, FilterSecret, Geometry, reduce};

/// Batch of events. A pass asks for them one by one, once for each generation of cells.
pub(crate) trait Events: Copy {
    /// Value from which the positions of an event in a classic or partitioned layout are derived. A batch needs this
    /// value twice: to prefetch the cells of the event, and later to test them. It computes the value once and stores
    /// it in between. The type should be small, because a batch stores the values of many events at a time.
    type Spread: Copy + Default;

    fn count(self) -> usize;

    fn part(self, range: Range<usize>) -> Self;

    /// Returns the positions of event `index` within its block, in a layout of `blocks` blocks. The positions are
    /// derived from one or two hash words, depending on how many bits they take. `second_word` says whether the second
    /// word is needed, so that it is not computed in vain.
    fn block(self, index: usize, blocks: u64, second_word: bool) -> BlockProbe;

    fn spread(self, index: usize) -> Self::Spread;

    /// Returns the positions in a classic or partitioned slice of `geometry`.
    fn offsets(spread: Self::Spread, geometry: &Geometry) -> impl Offsets;

    /// Returns the position of event `index` in a slice of `regions` regions of buckets, with fingerprints of
    /// `print_bits` bits.
    fn bucket_position(self, index: usize, regions: u64, print_bits: u32) -> u64;

    /// Returns the digest of event `index`, if it is known.
    fn digest(self, index: usize) -> Option<Digest>;
}

/// Events whose digests are known.
trait Digests: Copy {
    fn count(self) -> usize;

    fn part(self, range: Range<usize>) -> Self;

    fn at(self, index: usize) -> Digest;
}

impl<D: Digests> Events for D {
    type Spread = Digest;

    #[inline(always)]
    fn count(self) -> usize {
        Digests::count(self)
    }

    #[inline(always)]
    fn part(self, range: Range<usize>) -> Self {
        Digests::part(self, range)
    }

    #[inline(always)]
    fn block(self, index: usize, blocks: u64, second_word: bool) -> BlockProbe {
        let digest = self.at(index);
        // Most geometries need only one word for all positions. The second word then does not justify its
        // multiplication.
        let second = if second_word { digest.word(2) } else { 0 };
        BlockProbe { block: reduce(digest.word(0), blocks), words: [digest.word(1), second] }
    }

    #[inline(always)]
    fn spread(self, index: usize) -> Digest {
        self.at(index)
    }

    #[inline(always)]
    fn offsets(digest: Digest, geometry: &Geometry) -> impl Offsets {
        SpreadOffsets::new(digest, geometry)
    }

    #[inline(always)]
    fn bucket_position(self, index: usize, regions: u64, print_bits: u32) -> u64 {
        bucket_position(self.at(index), regions, print_bits)
    }

    #[inline(always)]
    fn digest(self, index: usize) -> Option<Digest> {
        Some(self.at(index))
    }
}

impl Digests for &[Digest] {
    #[inline(always)]
    fn count(self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn part(self, range: Range<usize>) -> Self {
        &self[range]
    }

    #[inline(always)]
    fn at(self, index: usize) -> Digest {
        self[index]
    }
}

/// Keys of events, together with the secret under which they are hashed. A pass over the cells hashes the next keys
/// while the processor waits for the memory of earlier events, so hashing takes hardly any additional time.
pub(crate) struct Hashed<'a, E> {
    pub(crate) secret: &'a FilterSecret,
    pub(crate) events: &'a [E],
}

impl<E> Clone for Hashed<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Hashed<'_, E> {}

impl<E: AsRef<[u8]>> Digests for Hashed<'_, E> {
    #[inline(always)]
    fn count(self) -> usize {
        self.events.len()
    }

    #[inline(always)]
    fn part(self, range: Range<usize>) -> Self {
        Self { events: &self.events[range], ..self }
    }

    #[inline(always)]
    fn at(self, index: usize) -> Digest {
        self.secret.digest(self.events[index].as_ref())
    }
}
