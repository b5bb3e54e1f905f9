//! The geometry of a filter slice: how many cells it has, how many positions an event has, and where the positions may
//! lie.
//!
//! A [`Geometry`] value is always valid, so the code that works on cells need not check it again.
//!
//! This module does not depend on windows or on the content of cells.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::arch::LINE_BYTES;
use crate::buckets::{BucketShape, PRINT_BITS_MAX, PRINT_BITS_MIN, Pair, REGION_BUCKETS, REGION_BYTES};

/// Maximum number of positions per event.
pub const HASHES_MAX: u32 = 16;

/// Maximum number of cells of a filter (2^40). The statistical tests of positions go up to this number.
pub const CELLS_MAX: u64 = 1 << 40;

/// Rule for where the positions of one event may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Classic layout: the positions may lie anywhere in the slice, as in the papers. The formulas of the papers hold
    /// exactly.
    Classic,
    /// Partitioned layout: position `i` lies in the `i`-th of k equal parts (Metwally et al. 2005, section 5.2.1,
    /// "separate hash spaces").
    Partitioned,
    /// Layout in which all positions of an event lie in one block of 1, 2 or 4 cache lines. An event therefore causes
    /// only one or a few cache misses. The false-positive rate is higher than in the classic layout, because blocks
    /// fill unevenly.
    Blocked {
        /// Number of cache lines of 64 bytes per block: 1, 2 or 4.
        lines: u8,
    },
    /// Layout of cuckoo filters, in which an event has a single fingerprint instead of several positions. The
    /// fingerprint lies in one of two buckets. Each bucket is a cache line, and both buckets lie in the same region of
    /// 1,024 buckets.
    Buckets {
        /// Number of bits of a bucket that store when its entries expire: 64 or 128.
        time_bits: u8,
    },
}

/// Reason why a geometry is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// The number of positions is outside `1..=16`.
    #[error("{0} positions per event: choose 1 to {HASHES_MAX}")]
    Hashes(u32),
    /// The number of cells is 0 or above 2^40.
    #[error("{0} cells: choose 1 to {CELLS_MAX}")]
    Cells(u64),
    /// No kind uses cells of this width.
    #[error("{0} bits per cell: choose 1, 8 or 16")]
    CellBits(u32),
    /// Buckets do not support fingerprints of this width.
    #[error("fingerprints of {0} bits: choose {PRINT_BITS_MIN} to {PRINT_BITS_MAX}")]
    PrintBits(u32),
    /// An event must have exactly one fingerprint.
    #[error("{0} fingerprints per event: a filter of buckets has exactly one")]
    Prints(u32),
    /// The number of buckets is too large to be encoded together with the fingerprints.
    #[error("{cells} cells with fingerprints of {print_bits} bits: choose fewer, or a higher rate")]
    Buckets {
        /// Requested number of cells.
        cells: u64,
        /// Bits per fingerprint.
        print_bits: u32,
    },
    /// Buckets do not support times of this width.
    #[error("{0} bits of a bucket for times: choose 64 or 128")]
    TimeBits(u8),
    /// The layout does not support blocks of this size.
    #[error("blocks of {0} cache lines: choose 1, 2 or 4")]
    Lines(u8),
    /// Two hash words cannot place this number of positions in a block.
    #[error("{hashes} positions in blocks of {block_cells} cells: this layout places at most {most}")]
    BlockedHashes {
        /// Requested number of positions.
        hashes: u32,
        /// Number of cells per block.
        block_cells: u64,
        /// Maximum number of positions.
        most: u32,
    },
}

/// Geometry of a filter slice: number of cells, positions per event, cell width and layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "RawGeometry", into = "RawGeometry")]
pub struct Geometry {
    cells: u64,
    hashes: u32,
    cell_bits: u32,
    layout: Layout,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGeometry {
    cells: u64,
    hashes: u32,
    cell_bits: u32,
    layout: Layout,
}

impl TryFrom<RawGeometry> for Geometry {
    type Error = GeometryError;

    fn try_from(raw: RawGeometry) -> Result<Self, GeometryError> {
        Self::new(raw.cells, raw.hashes, raw.cell_bits, raw.layout)
    }
}

impl From<Geometry> for RawGeometry {
    fn from(Geometry { cells, hashes, cell_bits, layout }: Geometry) -> Self {
        Self { cells, hashes, cell_bits, layout }
    }
}

impl Geometry {
    /// Creates a geometry with at least `cells` cells of `cell_bits` bits, which must be 1, 8 or 16. If the layout
    /// consists of blocks or of equal parts, the number of cells is rounded up to whole blocks or parts.
    ///
    /// ```
    /// use firstseen_filter::{Geometry, Layout};
    /// let geometry = Geometry::new(1000, 7, 1, Layout::Blocked { lines: 1 }).unwrap();
    /// assert_eq!((geometry.cells(), geometry.blocks()), (1024, 2));
    /// assert!(Geometry::new(1000, 17, 1, Layout::Classic).is_err());
    /// ```
    pub fn new(cells: u64, hashes: u32, cell_bits: u32, layout: Layout) -> Result<Self, GeometryError> {
        if !(1..=HASHES_MAX).contains(&hashes) {
            return Err(GeometryError::Hashes(hashes));
        }
        if !(1..=CELLS_MAX).contains(&cells) {
            return Err(GeometryError::Cells(cells));
        }
        if let Layout::Buckets { time_bits } = layout {
            let region_cells = Self::region_cells_of(hashes, cell_bits, time_bits)?;
            let cells = cells.next_multiple_of(region_cells);
            if cells / region_cells * REGION_BUCKETS as u64 > u64::MAX >> (cell_bits + 1) {
                return Err(GeometryError::Buckets { cells, print_bits: cell_bits });
            }
            return Ok(Self { cells, hashes, cell_bits, layout });
        }
        if ![1, 8, 16].contains(&cell_bits) {
            return Err(GeometryError::CellBits(cell_bits));
        }
        let unit = match layout {
            Layout::Classic => 1,
            Layout::Partitioned => u64::from(hashes),
            Layout::Blocked { lines } => {
                let block_cells = Self::block_cells_of(lines, cell_bits)?;
                let most = Self::blocked_hashes_max(block_cells);
                if hashes > most {
                    return Err(GeometryError::BlockedHashes { hashes, block_cells, most });
                }
                block_cells
            }
            Layout::Buckets { .. } => 1,
        };
        Ok(Self { cells: cells.next_multiple_of(unit), hashes, cell_bits, layout })
    }

    /// Returns the number of cells in a region of buckets.
    fn region_cells_of(hashes: u32, print_bits: u32, time_bits: u8) -> Result<u64, GeometryError> {
        if hashes != 1 {
            return Err(GeometryError::Prints(hashes));
        }
        if !(PRINT_BITS_MIN..=PRINT_BITS_MAX).contains(&print_bits) {
            return Err(GeometryError::PrintBits(print_bits));
        }
        if ![64, 128].contains(&time_bits) {
            return Err(GeometryError::TimeBits(time_bits));
        }
        Ok(REGION_BUCKETS as u64 * u64::from(BucketShape::new(print_bits, time_bits).slots()))
    }

    /// Returns the number of cells in a block of `lines` cache lines.
    pub fn block_cells_of(lines: u8, cell_bits: u32) -> Result<u64, GeometryError> {
        match lines {
            1 | 2 | 4 => Ok(u64::from(lines) * (LINE_BYTES as u64) * 8 / u64::from(cell_bits)),
            _ => Err(GeometryError::Lines(lines)),
        }
    }

    /// Returns the maximum number of positions per event in a block of `block_cells` cells. The limit exists because
    /// all positions of an event are derived from two hash words of 64 bits, and a position in a larger block takes
    /// more of these bits. The number of cells must be a power of two.
    pub fn blocked_hashes_max(block_cells: u64) -> u32 {
        (2 * (64 / block_cells.trailing_zeros())).min(HASHES_MAX)
    }

    /// Returns the number of cells of the slice (m).
    pub fn cells(&self) -> u64 {
        self.cells
    }

    /// Returns the number of positions per event (k).
    pub fn hashes(&self) -> u32 {
        self.hashes
    }

    /// Returns the bits per cell: 1, 8 or 16, or the bits of a fingerprint.
    pub fn cell_bits(&self) -> u32 {
        self.cell_bits
    }

    /// Returns the layout, which says where the positions of an event may lie.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the number of cells among which the positions of one event are chosen. Depending on the layout, these
    /// are the cells of a block, of a region of buckets, or of the whole slice.
    pub fn block_cells(&self) -> u64 {
        match self.layout {
            Layout::Blocked { lines } => u64::from(lines) * (LINE_BYTES as u64) * 8 / u64::from(self.cell_bits),
            Layout::Classic | Layout::Partitioned => self.cells,
            Layout::Buckets { time_bits } => {
                REGION_BUCKETS as u64 * u64::from(BucketShape::new(self.cell_bits, time_bits).slots())
            }
        }
    }

    /// Returns the number of different positions, so all positions of events are below this number. In most layouts a
    /// position is a cell, and the result is the number of cells. In the layout of cuckoo filters, a position is a
    /// combination of a bucket and a fingerprint, and the result is the number of such combinations.
    pub fn positions(&self) -> u64 {
        match self.layout {
            Layout::Buckets { .. } => (self.blocks() * REGION_BUCKETS as u64) << self.cell_bits,
            Layout::Classic | Layout::Partitioned | Layout::Blocked { .. } => self.cells,
        }
    }

    /// Returns the offsets of the bytes that a test of this position reads first.
    pub(crate) fn bytes_at(&self, position: u64) -> impl Iterator<Item = usize> {
        let starts = match self.layout {
            Layout::Buckets { .. } => {
                let pair = Pair::of(position, self.cell_bits);
                pair.lines().map(|line| Some(line * LINE_BYTES))
            }
            Layout::Classic | Layout::Partitioned | Layout::Blocked { .. } => {
                [Some(position as usize * self.cell_bits as usize / 8), None]
            }
        };
        starts.into_iter().flatten()
    }

    /// Returns the number of blocks or of regions of buckets. The result is 1 if the layout has neither.
    pub fn blocks(&self) -> u64 {
        self.cells / self.block_cells()
    }

    /// Returns the size of the cells in bytes.
    pub fn bytes(&self) -> u64 {
        match self.layout {
            Layout::Buckets { .. } => self.blocks() * REGION_BYTES as u64,
            Layout::Classic | Layout::Partitioned | Layout::Blocked { .. } => {
                (self.cells * u64::from(self.cell_bits)).div_ceil(8)
            }
        }
    }
}
