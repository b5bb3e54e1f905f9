//! The walk of a batch over the cells of one slice: find, prefetch, touch.
//!
//! Promises: events are touched one after the other in the order of the batch, so a batch answers like its events one
//! by one; no allocation. Must not know: what a cell means (a [`CellRule`] does), windows.

use crate::arch::{Instructions, compiled_for, prefetch, prefetch_line};
use crate::probe::{BlockOffsets, Offsets, SpreadOffsets};
use crate::{BlockProbe, Digest, Geometry, Layout};

/// Events between the prefetch of a cell and its use: enough to cover a miss, few enough to stay in the first cache.
const AHEAD: usize = 16;

/// What memory is an array of: bytes for bits and 8-bit cells, pairs of bytes (little-endian) for 16-bit cells.
pub(crate) trait Element: Copy + PartialEq {
    fn of(bytes: &mut [u8]) -> &mut [Self];
}

impl Element for u8 {
    #[inline(always)]
    fn of(bytes: &mut [u8]) -> &mut [u8] {
        bytes
    }
}

impl Element for [u8; 2] {
    #[inline(always)]
    fn of(bytes: &mut [u8]) -> &mut [[u8; 2]] {
        bytes.as_chunks_mut::<2>().0
    }
}

/// What one kind of filter does at the cells of one event.
pub(crate) trait CellRule {
    type Element: Element;
    const CELL_BITS: u32;

    /// Looks at the cells of event `index` of the batch, changes them where the kind says so, and tells whether the
    /// event was there.
    fn touch(&mut self, index: usize, cells: &mut [Self::Element], offsets: impl Offsets) -> bool;
}

/// Touches the cells of every digest in order; `found[i]` is what the rule says of event `i`.
pub(crate) fn run<R: CellRule>(
    instructions: Instructions,
    memory: &mut [u8],
    geometry: &Geometry,
    digests: &[Digest],
    rule: &mut R,
    found: &mut [bool],
) {
    compiled_for(instructions, || match (geometry.layout(), R::CELL_BITS) {
        (Layout::Classic | Layout::Partitioned, _) => spread(memory, geometry, digests, rule, found),
        (Layout::Blocked { lines: 1 }, 1) => blocked::<R, 64, 9>(memory, geometry, digests, rule, found),
        (Layout::Blocked { lines: 2 }, 1) => blocked::<R, 128, 10>(memory, geometry, digests, rule, found),
        (Layout::Blocked { .. }, 1) => blocked::<R, 256, 11>(memory, geometry, digests, rule, found),
        (Layout::Blocked { lines: 1 }, 8) => blocked::<R, 64, 6>(memory, geometry, digests, rule, found),
        (Layout::Blocked { lines: 2 }, 8) => blocked::<R, 128, 7>(memory, geometry, digests, rule, found),
        (Layout::Blocked { .. }, 8) => blocked::<R, 256, 8>(memory, geometry, digests, rule, found),
        (Layout::Blocked { lines: 1 }, _) => blocked::<R, 64, 5>(memory, geometry, digests, rule, found),
        (Layout::Blocked { lines: 2 }, _) => blocked::<R, 128, 6>(memory, geometry, digests, rule, found),
        (Layout::Blocked { .. }, _) => blocked::<R, 256, 7>(memory, geometry, digests, rule, found),
    });
}

#[inline(always)]
fn blocked<R: CellRule, const BYTES: usize, const OFFSET_BITS: u32>(
    memory: &mut [u8],
    geometry: &Geometry,
    digests: &[Digest],
    rule: &mut R,
    found: &mut [bool],
) {
    let blocks = memory.as_chunks_mut::<BYTES>().0;
    let (block_count, hashes) = (geometry.blocks(), geometry.hashes());
    walk(
        digests,
        found,
        blocks,
        |blocks, digest| {
            let probe = BlockProbe::new(digest, block_count);
            prefetch(&blocks[probe.block as usize]);
            probe
        },
        |blocks, probe: BlockProbe, index| {
            let offsets = BlockOffsets::<OFFSET_BITS> { words: probe.words, hashes };
            rule.touch(index, R::Element::of(&mut blocks[probe.block as usize]), offsets)
        },
    );
}

#[inline(always)]
fn spread<R: CellRule>(memory: &mut [u8], geometry: &Geometry, digests: &[Digest], rule: &mut R, found: &mut [bool]) {
    walk(
        digests,
        found,
        memory,
        |memory, digest| {
            SpreadOffsets::new(digest, geometry)
                .for_each(|position| prefetch_line(&memory[position * R::CELL_BITS as usize / 8]));
            digest
        },
        |memory, digest, index| rule.touch(index, R::Element::of(memory), SpreadOffsets::new(digest, geometry)),
    );
}

/// Runs `find` (locate and prefetch) [`AHEAD`] events before `touch`, so that memory works while we compute.
#[inline(always)]
fn walk<C: ?Sized, P: Copy + Default>(
    digests: &[Digest],
    found: &mut [bool],
    cells: &mut C,
    find: impl Fn(&C, Digest) -> P,
    mut touch: impl FnMut(&mut C, P, usize) -> bool,
) {
    assert_eq!(digests.len(), found.len(), "one answer an event");
    let mut ring = [P::default(); AHEAD];
    let lead = digests.len().min(AHEAD);
    for (slot, digest) in ring.iter_mut().zip(digests) {
        *slot = find(cells, *digest);
    }
    for index in 0..digests.len() - lead {
        let slot = &mut ring[index % AHEAD];
        let probe = std::mem::replace(slot, find(cells, digests[index + lead]));
        found[index] = touch(cells, probe, index);
    }
    for index in digests.len() - lead..digests.len() {
        found[index] = touch(cells, ring[index % AHEAD], index);
    }
}
