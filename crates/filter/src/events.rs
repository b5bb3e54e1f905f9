//! Where a walk takes its events from: digests, events that are hashed as the walk goes, or positions that somebody
//! else derived.
//!
//! Promises: an event has the same cells whenever the walk asks for it. Must not know: what cells hold.

use std::ops::Range;

use crate::probe::{Offsets, SpreadOffsets, bucket_position};
use crate::{BlockProbe, Digest, FilterSecret, Geometry, reduce};

/// A batch of events, asked for one by one, once for each generation of cells.
pub(crate) trait Events: Copy {
    /// The value from which the positions of an event in a spread layout follow: small, as it waits between prefetch
    /// and use.
    type Spread: Copy + Default;

    fn count(self) -> usize;

    fn part(self, range: Range<usize>) -> Self;

    /// Event `index` in a layout of `blocks` blocks. The second word is left out where it is not read.
    fn block(self, index: usize, blocks: u64, second_word: bool) -> BlockProbe;

    fn spread(self, index: usize) -> Self::Spread;

    /// The positions in a classic or partitioned slice of `geometry`.
    fn offsets(spread: Self::Spread, geometry: &Geometry) -> impl Offsets;

    /// The position of event `index` in a slice of `regions` regions of buckets with fingerprints of `print_bits` bits.
    fn bucket_position(self, index: usize, regions: u64, print_bits: u32) -> u64;

    /// The digest of event `index`, where it is known.
    fn digest(self, index: usize) -> Option<Digest>;
}

/// Events of which the digest is known.
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
        // Most geometries place all positions with one word; then the other is not worth its multiplication.
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

/// Events under a secret. They are hashed between two touches of memory, and not before the walk, in the time that
/// memory needs anyway.
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
