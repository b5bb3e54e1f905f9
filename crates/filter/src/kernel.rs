//! Processes the events of a batch at the cells of one slice in three steps: locate, prefetch, touch.
//!
//! The kernel tests and sets the cells of a batch event by event, in order. A batch therefore gets the same answers as
//! the same events would get one by one. The kernel allocates no memory.

use crate::arch::{Instructions, Lanes, Work, compiled_for, prefetch, prefetch_line};
use crate::buckets::{Pair, RegionLines, regions_of_mut};
use crate::events::Events;
use crate::probe::{BlockOffsets, Offsets};
use crate::{BlockProbe, Geometry, Layout};

/// Number of events whose cells are prefetched together, while the cells of the previous group are tested and set. The
/// number is large enough to hide the latency of a cache miss, and small enough for the cells to stay in the
/// first-level cache.
const GROUP: usize = 8;

/// Elements of the memory: bytes for bits and 8-bit cells, pairs of bytes (little-endian) for 16-bit cells.
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

/// Rule by which one kind of filter reads and changes the cells of one event.
pub(crate) trait CellRule {
    type Element: Element;
    const CELL_BITS: u32;

    /// Reads the cells of the event with index `index`, changes them if the kind requires it, and returns whether the
    /// event was found.
    fn touch(&mut self, index: usize, cells: &mut [Self::Element], offsets: impl Offsets) -> bool;
}

/// Rule by which a kind reads and changes the two buckets of one event.
pub(crate) trait PairRule {
    /// Returns the number of bits in a fingerprint.
    fn print_bits(&self) -> u32;

    /// Tests one event in its two buckets and returns whether the event was found. If the kind requires it, the call
    /// also changes the buckets, for example to record the event. The event has the index `index` in its batch and the
    /// fingerprint `print`, and its buckets are the pair `pair` of the region `lines`. `PRINT_BITS` is the number of
    /// bits in a fingerprint, or 0 if this number is not known at compile time.
    fn touch<const PRINT_BITS: u32>(
        &mut self,
        index: usize,
        lines: &mut RegionLines,
        pair: [usize; 2],
        print: u32,
        lanes: Lanes,
    ) -> bool;
}

/// Processing of all events of a batch by one kind.
pub(crate) trait Walk {
    /// Touches the cells of every event in order. `found[i]` tells whether event `i` was found.
    fn walk<E: Events>(
        &mut self,
        instructions: Instructions,
        memory: &mut [u8],
        geometry: &Geometry,
        events: E,
        found: &mut [bool],
    );
}

impl<R: CellRule> Walk for R {
    fn walk<E: Events>(
        &mut self,
        instructions: Instructions,
        memory: &mut [u8],
        geometry: &Geometry,
        events: E,
        found: &mut [bool],
    ) {
        compiled_for(instructions, |_| match (geometry.layout(), R::CELL_BITS) {
            (Layout::Classic | Layout::Partitioned | Layout::Buckets { .. }, _) => {
                spread(memory, geometry, events, self, found)
            }
            (Layout::Blocked { lines: 1 }, 1) => blocked::<R, E, 64, 9>(memory, geometry, events, self, found),
            (Layout::Blocked { lines: 2 }, 1) => blocked::<R, E, 128, 10>(memory, geometry, events, self, found),
            (Layout::Blocked { .. }, 1) => blocked::<R, E, 256, 11>(memory, geometry, events, self, found),
            (Layout::Blocked { lines: 1 }, 8) => blocked::<R, E, 64, 6>(memory, geometry, events, self, found),
            (Layout::Blocked { lines: 2 }, 8) => blocked::<R, E, 128, 7>(memory, geometry, events, self, found),
            (Layout::Blocked { .. }, 8) => blocked::<R, E, 256, 8>(memory, geometry, events, self, found),
            (Layout::Blocked { lines: 1 }, _) => blocked::<R, E, 64, 5>(memory, geometry, events, self, found),
            (Layout::Blocked { lines: 2 }, _) => blocked::<R, E, 128, 6>(memory, geometry, events, self, found),
            (Layout::Blocked { .. }, _) => blocked::<R, E, 256, 7>(memory, geometry, events, self, found),
        });
    }
}

/// Processes a batch like [`Walk::walk`], at the two buckets of every event.
pub(crate) fn run_pairs<R: PairRule, E: Events>(
    instructions: Instructions,
    memory: &mut [u8],
    geometry: &Geometry,
    events: E,
    rule: &mut R,
    found: &mut [bool],
) {
    let region_count = geometry.blocks();
    compiled_for(instructions, PairedWalk { regions: regions_of_mut(memory), region_count, events, rule, found });
}

/// State of a pass over the pairs of buckets of a batch.
struct PairedWalk<'a, R, E> {
    regions: &'a mut [RegionLines],
    region_count: u64,
    events: E,
    rule: &'a mut R,
    found: &'a mut [bool],
}

impl<R: PairRule, E: Events> PairedWalk<'_, R, E> {
    #[inline(always)]
    fn with<const PRINT_BITS: u32>(self, lanes: Lanes) {
        let Self { regions, region_count, events, rule, found } = self;
        let print_bits = if PRINT_BITS == 0 { rule.print_bits() } else { PRINT_BITS };
        walk(events, found, Paired::<R, PRINT_BITS> { regions, region_count, print_bits, rule, lanes });
    }
}

impl<R: PairRule, E: Events> Work for PairedWalk<'_, R, E> {
    type Output = ();

    /// Runs the code with the number of bits in a fingerprint as a constant. The layout of a bucket depends on this
    /// number, so the compiler can produce faster code if it knows the number. There is such a version of the code for
    /// each number that is common at the usual false-positive rates, and a general version for all other numbers.
    #[inline(always)]
    fn run(self, lanes: Lanes) {
        match self.rule.print_bits() {
            14 => self.with::<14>(lanes),
            16 => self.with::<16>(lanes),
            32 => self.with::<32>(lanes),
            _ => self.with::<0>(lanes),
        }
    }
}

#[inline(always)]
fn blocked<R: CellRule, E: Events, const BYTES: usize, const OFFSET_BITS: u32>(
    memory: &mut [u8],
    geometry: &Geometry,
    events: E,
    rule: &mut R,
    found: &mut [bool],
) {
    let blocks = memory.as_chunks_mut::<BYTES>().0;
    let block_count = geometry.blocks();
    let hashes = geometry.hashes();
    walk(events, found, Blocked::<R, BYTES, OFFSET_BITS> { blocks, block_count, hashes, rule });
}

#[inline(always)]
fn spread<R: CellRule, E: Events>(memory: &mut [u8], geometry: &Geometry, events: E, rule: &mut R, found: &mut [bool]) {
    walk(events, found, Spread { memory, geometry, rule });
}

/// Steps of processing an event in one layout.
trait Steps<E: Events> {
    /// Location of the cells of an event.
    type Probe: Copy + Default;

    fn locate(&self, events: E, index: usize) -> Self::Probe;

    fn fetch(&self, probe: Self::Probe);

    fn touch(&mut self, probe: Self::Probe, index: usize) -> bool;
}

struct Blocked<'a, R, const BYTES: usize, const OFFSET_BITS: u32> {
    blocks: &'a mut [[u8; BYTES]],
    block_count: u64,
    hashes: u32,
    rule: &'a mut R,
}

impl<R: CellRule, E: Events, const BYTES: usize, const OFFSET_BITS: u32> Steps<E>
    for Blocked<'_, R, BYTES, OFFSET_BITS>
{
    type Probe = BlockProbe;

    #[inline(always)]
    fn locate(&self, events: E, index: usize) -> BlockProbe {
        events.block(index, self.block_count, self.hashes > 64 / OFFSET_BITS)
    }

    #[inline(always)]
    fn fetch(&self, probe: BlockProbe) {
        prefetch(&self.blocks[probe.block as usize]);
    }

    #[inline(always)]
    fn touch(&mut self, probe: BlockProbe, index: usize) -> bool {
        let offsets = BlockOffsets::<OFFSET_BITS> { words: probe.words, hashes: self.hashes };
        self.rule.touch(index, R::Element::of(&mut self.blocks[probe.block as usize]), offsets)
    }
}

struct Spread<'a, R> {
    memory: &'a mut [u8],
    geometry: &'a Geometry,
    rule: &'a mut R,
}

impl<R: CellRule, E: Events> Steps<E> for Spread<'_, R> {
    type Probe = E::Spread;

    #[inline(always)]
    fn locate(&self, events: E, index: usize) -> E::Spread {
        events.spread(index)
    }

    #[inline(always)]
    fn fetch(&self, probe: E::Spread) {
        E::offsets(probe, self.geometry)
            .for_each(|position| prefetch_line(&self.memory[position * R::CELL_BITS as usize / 8]));
    }

    #[inline(always)]
    fn touch(&mut self, probe: E::Spread, index: usize) -> bool {
        self.rule.touch(index, R::Element::of(self.memory), E::offsets(probe, self.geometry))
    }
}

struct Paired<'a, R, const PRINT_BITS: u32> {
    regions: &'a mut [RegionLines],
    region_count: u64,
    print_bits: u32,
    rule: &'a mut R,
    lanes: Lanes,
}

impl<R: PairRule, E: Events, const PRINT_BITS: u32> Steps<E> for Paired<'_, R, PRINT_BITS> {
    type Probe = Pair;

    #[inline(always)]
    fn locate(&self, events: E, index: usize) -> Pair {
        Pair::of(events.bucket_position(index, self.region_count, self.print_bits), self.print_bits)
    }

    #[inline(always)]
    fn fetch(&self, probe: Pair) {
        let lines = &self.regions[probe.region];
        probe.buckets().into_iter().for_each(|bucket| prefetch(&lines[bucket]));
    }

    #[inline(always)]
    fn touch(&mut self, probe: Pair, index: usize) -> bool {
        self.rule.touch::<PRINT_BITS>(index, &mut self.regions[probe.region], probe.buckets(), probe.print, self.lanes)
    }
}

/// Locates and prefetches one group of events before it touches the previous group, so that memory accesses and
/// computation overlap.
///
/// The function issues all prefetches of a group directly one after the other, without other work between them. The
/// reason is that the processor must translate an address before it can load the memory there. It translates several
/// addresses at the same time, but only if their prefetches are a few instructions apart.
#[inline(always)]
fn walk<E: Events, S: Steps<E>>(events: E, found: &mut [bool], mut steps: S) {
    let count = events.count();
    assert_eq!(count, found.len(), "each event needs one answer");
    let mut probes = [S::Probe::default(); 2 * GROUP];
    for start in (0..count + GROUP).step_by(GROUP) {
        let ahead = start.min(count);
        let next = count.min(start + GROUP);
        for index in ahead..next {
            probes[index % (2 * GROUP)] = steps.locate(events, index);
        }
        for index in ahead..next {
            steps.fetch(probes[index % (2 * GROUP)]);
        }
        for index in start.saturating_sub(GROUP)..ahead {
            found[index] = steps.touch(probes[index % (2 * GROUP)], index);
        }
    }
}
