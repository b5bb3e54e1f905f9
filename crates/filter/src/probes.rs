//! A batch of events as their positions, which travel instead of digests.
//!
//! Promises: every position is inside the shape that the batch was made for, so a slice of that shape can be walked
//! without checking again; positions pushed for a digest are those of the digest. Must not know: how positions travel.

use std::fmt;
use std::io;
use std::ops::Range;

use thiserror::Error;

use crate::events::Events;
use crate::probe::{Offsets, SpreadOffsets, bucket_position};
use crate::{BlockProbe, Digest, Geometry, HASHES_MAX, Kind, Layout};

/// Where the positions of an event may lie, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeShape {
    /// `hashes` positions anywhere in `cells` cells.
    Spread {
        /// Cells; in buckets, every fingerprint in every bucket counts as one.
        cells: u64,
        /// Positions an event, 1 to 16.
        hashes: u32,
    },
    /// `hashes` positions in one of `blocks` blocks of `2^offset_bits` cells.
    Blocked {
        /// Blocks.
        blocks: u64,
        /// Bits of a position within its block.
        offset_bits: u32,
        /// Positions an event, 1 to 16.
        hashes: u32,
    },
}

/// Why a probe does not fit its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a position outside the filter: {at} of {range}")]
pub struct ProbeError {
    /// The value that was found.
    pub at: u64,
    /// The bound that it must be below.
    pub range: u64,
}

/// Why a slice does not answer a call; nothing was touched.
#[derive(Debug, Error)]
pub enum AskError {
    /// The positions were derived for another slice.
    #[error("positions of another shape ({given}, the slice has {slice}): derive them from the filter's definition")]
    Shape {
        /// The shape of the batch.
        given: ProbeShape,
        /// The shape of the slice.
        slice: ProbeShape,
    },
    /// The batch has no such events.
    #[error("events {start}..{end} of a batch of {events}")]
    Range {
        /// First event asked for.
        start: usize,
        /// The one after the last.
        end: usize,
        /// Events of the batch.
        events: usize,
    },
    /// Each generation of cells would need positions of its own.
    #[error(
        "a filter whose generations grow in size cannot be asked by positions: give its capacity, or growth of ratio 1"
    )]
    Grows,
    /// Only frequencies can be counted and estimated.
    #[error("kind {0} tells duplicates, not frequencies: use kind decaying")]
    NoFrequencies(Kind),
    /// The system refuses the memory to keep positions.
    #[error("no memory to keep positions ({0}): use a shorter window")]
    Memory(#[from] io::Error),
}

impl fmt::Display for ProbeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spread { cells, hashes } => write!(f, "{hashes} in {cells} cells"),
            Self::Blocked { blocks, offset_bits, hashes } => {
                write!(f, "{hashes} in one of {blocks} blocks of 2^{offset_bits} cells")
            }
        }
    }
}

impl ProbeShape {
    /// The shape of events in a slice of `geometry`.
    pub fn of(geometry: &Geometry) -> Self {
        let hashes = geometry.hashes();
        match geometry.layout() {
            Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => {
                Self::Spread { cells: geometry.positions(), hashes }
            }
            Layout::Blocked { .. } => {
                let offset_bits = geometry.block_cells().trailing_zeros();
                Self::Blocked { blocks: geometry.blocks(), offset_bits, hashes }
            }
        }
    }

    /// Positions an event.
    pub fn hashes(&self) -> u32 {
        match self {
            Self::Spread { hashes, .. } | Self::Blocked { hashes, .. } => *hashes,
        }
    }
}

/// Events of one shape, in the order of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probes {
    shape: ProbeShape,
    /// The events of a blocked shape.
    blocks: Vec<BlockProbe>,
    /// The events of a spread shape: `hashes` positions for each.
    positions: Vec<u64>,
}

impl Probes {
    /// A batch without events.
    pub fn new(shape: ProbeShape) -> Self {
        Self { shape, blocks: Vec::new(), positions: Vec::new() }
    }

    /// Forgets the events and takes another shape; keeps the memory.
    pub fn reset(&mut self, shape: ProbeShape) {
        self.shape = shape;
        self.blocks.clear();
        self.positions.clear();
    }

    /// The shape of every event.
    pub fn shape(&self) -> ProbeShape {
        self.shape
    }

    /// Events.
    pub fn len(&self) -> usize {
        match self.shape {
            ProbeShape::Spread { hashes, .. } => self.positions.len() / hashes.max(1) as usize,
            ProbeShape::Blocked { .. } => self.blocks.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.positions.is_empty()
    }

    /// Adds the event of `digest` in a slice of `geometry`, whose shape must be that of the batch.
    #[inline]
    pub fn push_digest(&mut self, digest: Digest, geometry: &Geometry) {
        debug_assert_eq!(self.shape, ProbeShape::of(geometry), "positions of one shape");
        match self.shape {
            ProbeShape::Spread { .. } if matches!(geometry.layout(), Layout::Buckets { .. }) => {
                self.positions.push(bucket_position(digest, geometry.blocks(), geometry.cell_bits()));
            }
            ProbeShape::Spread { .. } => {
                SpreadOffsets::new(digest, geometry).for_each(|position| self.positions.push(position as u64));
            }
            ProbeShape::Blocked { blocks, .. } => self.blocks.push(BlockProbe::new(digest, blocks)),
        }
    }

    /// Adds an event of a spread shape.
    ///
    /// # Errors
    /// [`ProbeError`] where a position is outside, or their number is not that of the shape; nothing is added then.
    #[inline]
    pub fn push_positions(&mut self, positions: &[u64]) -> Result<(), ProbeError> {
        let ProbeShape::Spread { cells, hashes } = self.shape else { return Err(ProbeError { at: 0, range: 0 }) };
        if positions.len() != hashes as usize {
            return Err(ProbeError { at: positions.len() as u64, range: u64::from(HASHES_MAX) });
        }
        match positions.iter().find(|position| **position >= cells) {
            Some(outside) => Err(ProbeError { at: *outside, range: cells }),
            None => {
                self.positions.extend_from_slice(positions);
                Ok(())
            }
        }
    }

    /// Adds an event of a blocked shape. Bits of the words beyond the positions of an event say nothing.
    ///
    /// # Errors
    /// [`ProbeError`] where the block is outside.
    #[inline]
    pub fn push_block(&mut self, probe: BlockProbe) -> Result<(), ProbeError> {
        let ProbeShape::Blocked { blocks, .. } = self.shape else { return Err(ProbeError { at: 0, range: 0 }) };
        if probe.block >= blocks {
            return Err(ProbeError { at: probe.block, range: blocks });
        }
        self.blocks.push(probe);
        Ok(())
    }

    /// The events in `range`, if their shape is that of a slice.
    pub(crate) fn in_shape(&self, range: Range<usize>, slice: ProbeShape) -> Result<Probed<'_>, AskError> {
        if self.shape != slice {
            return Err(AskError::Shape { given: self.shape, slice });
        }
        let Range { start, end } = range;
        Probed::new(self, range).ok_or(AskError::Range { start, end, events: self.len() })
    }

    /// The positions of event `index` of a spread shape.
    #[inline]
    pub fn positions(&self, index: usize) -> &[u64] {
        let hashes = self.shape.hashes() as usize;
        self.positions.get(index * hashes..(index + 1) * hashes).unwrap_or(&[])
    }

    /// Event `index` of a blocked shape.
    #[inline]
    pub fn block(&self, index: usize) -> Option<BlockProbe> {
        self.blocks.get(index).copied()
    }
}

/// Events of a batch of positions, whose shape is that of the slice.
#[derive(Clone, Copy)]
pub(crate) struct Probed<'a> {
    probes: &'a Probes,
    start: usize,
    count: usize,
}

impl<'a> Probed<'a> {
    /// The events in `range`; `None` where the batch has no such.
    pub(crate) fn new(probes: &'a Probes, range: Range<usize>) -> Option<Self> {
        let Range { start, end } = range;
        (start <= end && end <= probes.len()).then_some(Self { probes, start, count: end.saturating_sub(start) })
    }
}

impl<'a> Events for Probed<'a> {
    type Spread = &'a [u64];

    #[inline(always)]
    fn count(self) -> usize {
        self.count
    }

    #[inline(always)]
    fn part(self, range: Range<usize>) -> Self {
        Self { probes: self.probes, start: self.start + range.start, count: range.len() }
    }

    #[inline(always)]
    fn block(self, index: usize, _blocks: u64, _second_word: bool) -> BlockProbe {
        self.probes.block(self.start + index).unwrap_or_default()
    }

    #[inline(always)]
    fn spread(self, index: usize) -> &'a [u64] {
        self.probes.positions(self.start + index)
    }

    #[inline(always)]
    fn offsets(positions: &'a [u64], _geometry: &Geometry) -> impl Offsets {
        positions
    }

    #[inline(always)]
    fn bucket_position(self, index: usize, _regions: u64, _print_bits: u32) -> u64 {
        self.spread(index).first().copied().unwrap_or_default()
    }

    #[inline(always)]
    fn digest(self, _index: usize) -> Option<Digest> {
        None
    }
}
