//! A batch of events in the form of their positions. Clients and nodes send positions to each other instead of digests.
//!
//! - Every position lies within the shape for which the batch was created. A slice of that shape can therefore process
//!   the batch without checking positions again.
//! - Positions that are pushed for a digest are exactly the positions of that digest.
//!
//! This module does not depend on how positions travel between nodes.

use std::fmt;
use std::io;
use std::ops::Range;

use thiserror::Error;

use crate::events::Events;
use crate::probe::{Offsets, SpreadOffsets, bucket_position};
use crate::{BlockProbe, Digest, Geometry, Kind, Layout};

/// Shape of the positions of an event: how many positions there are, and where they may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeShape {
    /// `hashes` positions anywhere in `cells` cells.
    Spread {
        /// Number of cells. For buckets, every combination of a bucket and a fingerprint counts as a cell.
        cells: u64,
        /// Number of positions per event, 1 to 16.
        hashes: u32,
    },
    /// `hashes` positions in one of `blocks` blocks of `2^offset_bits` cells.
    Blocked {
        /// Number of blocks.
        blocks: u64,
        /// Bits of a position within its block.
        offset_bits: u32,
        /// Number of positions per event, 1 to 16.
        hashes: u32,
    },
}

/// Reason why an event cannot be added to a batch by its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProbeError {
    /// A position or block lies outside the shape of the batch.
    #[error("position {at} is outside the filter: it must be below {range}")]
    Outside {
        /// Invalid position or block.
        at: u64,
        /// Upper bound (exclusive) of valid positions or blocks.
        range: u64,
    },
    /// An event of the batch has another number of positions.
    #[error("{given} positions were given for an event, and events of this shape have {hashes}")]
    Count {
        /// Number of positions that were given.
        given: usize,
        /// Number of positions that an event has.
        hashes: u32,
    },
    /// The batch has another shape: its events have separate positions instead of a block, or the reverse.
    #[error("the positions do not fit a batch of shape {0}: derive them from the filter's definition")]
    Shape(ProbeShape),
}

/// Reason why a slice rejects a call. The slice is unchanged.
#[derive(Debug, Error)]
pub enum AskError {
    /// The positions were derived for another slice.
    #[error("positions of another shape ({given}, the slice has {slice}): derive them from the filter's definition")]
    Shape {
        /// Shape of the batch.
        given: ProbeShape,
        /// Shape of the slice.
        slice: ProbeShape,
    },
    /// The batch does not contain these events.
    #[error("events {start}..{end} do not exist in a batch of {events} events")]
    Range {
        /// Index of the first requested event.
        start: usize,
        /// Index after the last requested event.
        end: usize,
        /// Number of events in the batch.
        events: usize,
    },
    /// Each generation of cells would need different positions.
    #[error(
        "a filter whose generations grow in size cannot be asked by positions: give its capacity, or growth of ratio 1"
    )]
    Grows,
    /// The kind answers with verdicts, so the slice cannot count and estimate frequencies.
    #[error("kind {0} detects duplicates and does not estimate frequencies: use kind decaying")]
    NoFrequencies(Kind),
    /// The system has too little memory to keep positions.
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
    /// Returns the shape of the positions in a slice of `geometry`.
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

    /// Returns the number of positions per event.
    pub fn hashes(&self) -> u32 {
        match self {
            Self::Spread { hashes, .. } | Self::Blocked { hashes, .. } => *hashes,
        }
    }
}

/// Batch of events in the form of their positions. All events have the same shape and are in the order of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probes {
    shape: ProbeShape,
    /// Events of a blocked shape.
    blocks: Vec<BlockProbe>,
    /// Events of a spread shape, with `hashes` positions each.
    positions: Vec<u64>,
}

impl Probes {
    /// Creates a batch without events.
    pub fn new(shape: ProbeShape) -> Self {
        Self { shape, blocks: Vec::new(), positions: Vec::new() }
    }

    /// Removes all events and changes the shape. The batch keeps its memory.
    pub fn reset(&mut self, shape: ProbeShape) {
        self.shape = shape;
        self.blocks.clear();
        self.positions.clear();
    }

    /// Returns the shape of the events.
    pub fn shape(&self) -> ProbeShape {
        self.shape
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        match self.shape {
            ProbeShape::Spread { hashes, .. } => self.positions.len() / hashes.max(1) as usize,
            ProbeShape::Blocked { .. } => self.blocks.len(),
        }
    }

    /// Returns whether the batch has no events.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.positions.is_empty()
    }

    /// Adds the event of `digest`. The shape of `geometry` must be the shape of the batch.
    #[inline]
    pub fn push_digest(&mut self, digest: Digest, geometry: &Geometry) {
        debug_assert_eq!(self.shape, ProbeShape::of(geometry), "all positions of a list must have the same shape");
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
    /// Returns [`ProbeError`] if a position lies outside the shape, if the number of positions is wrong, or if the batch
    /// has another shape. The event is not added in that case.
    #[inline]
    pub fn push_positions(&mut self, positions: &[u64]) -> Result<(), ProbeError> {
        let ProbeShape::Spread { cells, hashes } = self.shape else { return Err(ProbeError::Shape(self.shape)) };
        if positions.len() != hashes as usize {
            return Err(ProbeError::Count { given: positions.len(), hashes });
        }
        match positions.iter().find(|position| **position >= cells) {
            Some(outside) => Err(ProbeError::Outside { at: *outside, range: cells }),
            None => {
                self.positions.extend_from_slice(positions);
                Ok(())
            }
        }
    }

    /// Adds an event of a blocked shape. Bits of the words beyond the last position are ignored.
    ///
    /// # Errors
    /// Returns [`ProbeError`] if the block lies outside the shape, or if the batch has another shape.
    #[inline]
    pub fn push_block(&mut self, probe: BlockProbe) -> Result<(), ProbeError> {
        let ProbeShape::Blocked { blocks, .. } = self.shape else { return Err(ProbeError::Shape(self.shape)) };
        if probe.block >= blocks {
            return Err(ProbeError::Outside { at: probe.block, range: blocks });
        }
        self.blocks.push(probe);
        Ok(())
    }

    /// Returns the events in `range`, if the batch has the shape of the slice.
    pub(crate) fn in_shape(&self, range: Range<usize>, slice: ProbeShape) -> Result<Probed<'_>, AskError> {
        if self.shape != slice {
            return Err(AskError::Shape { given: self.shape, slice });
        }
        let Range { start, end } = range;
        Probed::new(self, range).ok_or(AskError::Range { start, end, events: self.len() })
    }

    /// Returns the positions of the event with index `index` in a batch of a spread shape.
    #[inline]
    pub fn positions(&self, index: usize) -> &[u64] {
        let hashes = self.shape.hashes() as usize;
        self.positions.get(index * hashes..(index + 1) * hashes).unwrap_or(&[])
    }

    /// Returns the event with index `index` of a batch of a blocked shape.
    #[inline]
    pub fn block(&self, index: usize) -> Option<BlockProbe> {
        self.blocks.get(index).copied()
    }
}

/// Events of a batch of positions whose shape has been compared with that of the slice.
#[derive(Clone, Copy)]
pub(crate) struct Probed<'a> {
    probes: &'a Probes,
    start: usize,
    count: usize,
}

impl<'a> Probed<'a> {
    /// Returns the events in `range`, or `None` if the batch does not contain them.
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
