//! The shape of a filter slice: how many cells, how many positions an event has, and where they may lie.
//!
//! Promises: a [`Geometry`] that exists is valid, so kernels need not check it again. Must not know: what a cell
//! holds, windows.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::arch::LINE_BYTES;
use crate::buckets::{BucketShape, PRINT_BITS_MAX, PRINT_BITS_MIN, Pair, REGION_BUCKETS, REGION_BYTES};

/// Most positions an event may have.
pub const HASHES_MAX: u32 = 16;

/// Most cells of one filter (2^40): the statistics of the positions are tested up to here.
pub const CELLS_MAX: u64 = 1 << 40;

/// Where the positions of one event may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Anywhere in the slice, as in the papers: their formulas hold exactly.
    Classic,
    /// Position `i` lies in the `i`-th of k equal parts (M05 5.2.1, "separate hash spaces").
    Partitioned,
    /// All positions in one block of 1, 2 or 4 cache lines: one or few cache misses an event, at a higher rate
    /// of false positives, because blocks fill unevenly.
    Blocked {
        /// Cache lines of 64 bytes a block: 1, 2 or 4.
        lines: u8,
    },
    /// One fingerprint in one of two buckets of a cache line each, both in one region of 1,024 buckets (kind `cuckoo`).
    Buckets {
        /// Bits of a bucket that say when its entries expire: 64 or 128.
        time_bits: u8,
    },
}

/// Why a shape is impossible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// The number of positions is outside `1..=16`.
    #[error("{0} positions an event: choose 1 to {HASHES_MAX}")]
    Hashes(u32),
    /// The number of cells is 0 or above 2^40.
    #[error("{0} cells: choose 1 to {CELLS_MAX}")]
    Cells(u64),
    /// A cell width that no kind uses.
    #[error("{0} bits a cell: choose 1, 8 or 16")]
    CellBits(u32),
    /// Fingerprints of a width that buckets do not have.
    #[error("fingerprints of {0} bits: choose {PRINT_BITS_MIN} to {PRINT_BITS_MAX}")]
    PrintBits(u32),
    /// More or less than one fingerprint an event.
    #[error("{0} fingerprints an event: a filter of buckets has one")]
    Prints(u32),
    /// More buckets than can be numbered together with their fingerprints.
    #[error("{cells} cells with fingerprints of {print_bits} bits: choose fewer, or a higher rate")]
    Buckets {
        /// Cells asked for.
        cells: u64,
        /// Bits of a fingerprint.
        print_bits: u32,
    },
    /// Times of a width that buckets do not have.
    #[error("{0} bits of a bucket for times: choose 64 or 128")]
    TimeBits(u8),
    /// A block size that the layout does not have.
    #[error("blocks of {0} cache lines: choose 1, 2 or 4")]
    Lines(u8),
    /// More positions than two hash words can place in a block.
    #[error("{hashes} positions in blocks of {block_cells} cells: this layout places at most {most}")]
    BlockedHashes {
        /// Positions asked for.
        hashes: u32,
        /// Cells of a block.
        block_cells: u64,
        /// Positions that fit.
        most: u32,
    },
}

/// Cells, positions an event, cell width, layout.
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
    /// A shape with at least `cells` cells of `cell_bits` bits (1, 8 or 16): rounded up to whole blocks, or to
    /// equal parts, where the layout has them.
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

    /// Cells of a region of buckets.
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

    /// Cells of a block of `lines` cache lines.
    pub fn block_cells_of(lines: u8, cell_bits: u32) -> Result<u64, GeometryError> {
        match lines {
            1 | 2 | 4 => Ok(u64::from(lines) * (LINE_BYTES as u64) * 8 / u64::from(cell_bits)),
            _ => Err(GeometryError::Lines(lines)),
        }
    }

    /// Most positions that two 64-bit words can place in a block of `block_cells` (a power of two) cells.
    pub fn blocked_hashes_max(block_cells: u64) -> u32 {
        (2 * (64 / block_cells.trailing_zeros())).min(HASHES_MAX)
    }

    /// Cells of the slice (m).
    pub fn cells(&self) -> u64 {
        self.cells
    }

    /// Positions of an event (k).
    pub fn hashes(&self) -> u32 {
        self.hashes
    }

    /// Bits a cell: 1, 8 or 16, or those of a fingerprint.
    pub fn cell_bits(&self) -> u32 {
        self.cell_bits
    }

    /// Where the positions of an event may lie.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Cells that the positions of one event are spread over: a block, a region of buckets, or everything.
    pub fn block_cells(&self) -> u64 {
        match self.layout {
            Layout::Blocked { lines } => u64::from(lines) * (LINE_BYTES as u64) * 8 / u64::from(self.cell_bits),
            Layout::Classic | Layout::Partitioned => self.cells,
            Layout::Buckets { time_bits } => {
                REGION_BUCKETS as u64 * u64::from(BucketShape::new(self.cell_bits, time_bits).slots())
            }
        }
    }

    /// Every position of an event is below this: the cells, or every fingerprint in every bucket.
    pub fn positions(&self) -> u64 {
        match self.layout {
            Layout::Buckets { .. } => (self.blocks() * REGION_BUCKETS as u64) << self.cell_bits,
            Layout::Classic | Layout::Partitioned | Layout::Blocked { .. } => self.cells,
        }
    }

    /// The bytes of the memory that an event with this position needs first.
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

    /// Blocks of the slice, or regions of buckets; 1 where the layout has none.
    pub fn blocks(&self) -> u64 {
        self.cells / self.block_cells()
    }

    /// Bytes that the cells take.
    pub fn bytes(&self) -> u64 {
        match self.layout {
            Layout::Buckets { .. } => self.blocks() * REGION_BYTES as u64,
            Layout::Classic | Layout::Partitioned | Layout::Blocked { .. } => {
                (self.cells * u64::from(self.cell_bits)).div_ceil(8)
            }
        }
    }
}
