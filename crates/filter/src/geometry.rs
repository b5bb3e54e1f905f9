//! The shape of a filter slice: how many cells, how many positions an event has, and where they may lie.
//!
//! Promises: a [`Geometry`] that exists is valid, so kernels need not check it again. Must not know: what a cell
//! holds, windows.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::arch::LINE_BYTES;

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
        };
        Ok(Self { cells: cells.next_multiple_of(unit), hashes, cell_bits, layout })
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

    /// Bits a cell: 1, 8 or 16.
    pub fn cell_bits(&self) -> u32 {
        self.cell_bits
    }

    /// Where the positions of an event may lie.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Cells that the positions of one event are spread over: a block, or everything.
    pub fn block_cells(&self) -> u64 {
        match self.layout {
            Layout::Blocked { lines } => u64::from(lines) * (LINE_BYTES as u64) * 8 / u64::from(self.cell_bits),
            Layout::Classic | Layout::Partitioned => self.cells,
        }
    }

    /// Blocks of the slice; 1 where the layout has none.
    pub fn blocks(&self) -> u64 {
        self.cells / self.block_cells()
    }

    /// Bytes that the cells take.
    pub fn bytes(&self) -> u64 {
        (self.cells * u64::from(self.cell_bits)).div_ceil(8)
    }
}
