//! How many cells each kind needs.

use super::units::Units;
use super::{FilterSpec, MEMORY_MIN_BYTES, SpecError};
use crate::kind::Windows;
use crate::rates::generations::JumpingLoad;
use crate::rates::{Size, blocked, generations, plain};
use crate::{Geometry, Layout};

/// The default layout: blocks of as many lines as the kind has. The
/// lower the rate, the more the unevenness of blocks costs: then blocks are larger, and at last there are none.
pub(super) fn layout_of(spec: &FilterSpec) -> Layout {
    let lines = spec.kind.properties().block_lines;
    spec.layout.unwrap_or(match (lines, spec.rate) {
        (0, _) => Layout::Classic,
        (lines, 1e-3..) => Layout::Blocked { lines },
        (lines, 1e-4..) => Layout::Blocked { lines: 2 * lines },
        _ => Layout::Classic,
    })
}

/// The load that a slice must hold at a rate.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// Events alive at once in one generation of cells.
    pub(super) events: f64,
    /// Jumps of a window whose generations share words; 0 where they do not.
    pub(super) jumps: u32,
    /// The rate of one generation of cells.
    pub(super) rate: f64,
}

/// The least geometry for `load`, with k given or the best.
pub(super) fn geometry(layout: Layout, cell_bits: u32, load: Load, hashes: Option<u32>) -> Result<Geometry, SpecError> {
    let Load { events, jumps, rate } = load;
    let hashes_given = hashes;
    if let Some(hashes) = hashes {
        // Positions that no geometry of this layout can place have no size either.
        Geometry::new(1, hashes, cell_bits, layout)?;
    }
    let jumping = JumpingLoad { events, jumps };
    let size = match (layout, jumps > 0, hashes) {
        (Layout::Blocked { lines }, jumping_window, hashes) => {
            let block_cells = Geometry::block_cells_of(lines, cell_bits)?;
            match (jumping_window, hashes) {
                (false, None) => blocked::size(block_cells, events, rate),
                (false, Some(hashes)) => blocked::size_with(block_cells, events, rate, hashes),
                (true, None) => generations::size_blocked(block_cells, jumping, rate),
                (true, Some(hashes)) => generations::size_blocked_with(block_cells, jumping, rate, hashes),
            }
        }
        (_, false, None) => plain::size(events, rate),
        (_, false, Some(hashes)) => plain::size_with(events, rate, hashes),
        (_, true, None) => generations::size_classic(jumping, rate),
        (_, true, Some(hashes)) => generations::size_classic_with(jumping, rate, hashes),
    };
    let Size { cells, hashes, .. } = size?;
    let geometry = Geometry::new(cells, hashes, cell_bits, layout)?;
    if geometry.bytes() > WASTED_BYTES_MIN && matches!(layout, Layout::Blocked { .. }) {
        let classic = self::geometry(Layout::Classic, cell_bits, load, hashes_given)?;
        if geometry.bytes() / BLOCKED_PART_MAX > classic.bytes() {
            let bytes = geometry.bytes() as f64 / events;
            let classic_bytes = classic.bytes() as f64 / events;
            return Err(SpecError::Layout { rate, bytes, classic_bytes });
        }
    }
    Ok(geometry)
}

/// A layout in blocks may take so many times the memory of the classic one. It is chosen for speed, and where its
/// blocks are too small for the rate, the speed would cost any amount of memory.
const BLOCKED_PART_MAX: u64 = 8;
/// One block for a few events may take more than that, and costs nothing.
const WASTED_BYTES_MIN: u64 = 64 << 10;

/// Events that are alive at once where one window brings `capacity`: events that are kept a unit or two too long count
/// too.
pub(super) fn live_events(spec: &FilterSpec, units: &Units, capacity: u64) -> f64 {
    let window_units = units.window_units as f64;
    match spec.kind.properties().windows {
        // The tick that an event shares with others, and the one that rounding adds.
        Windows::Sliding => capacity as f64 * (window_units + 1.5) / window_units,
        // Jumps of a steady stream are not equal but scatter by their roots; none of them should be refused for that.
        Windows::Jumping => {
            let jump = capacity as f64 / window_units;
            (jump + 4.0 * jump.sqrt()) * window_units
        }
        _ => capacity as f64,
    }
}

/// The greatest capacity whose cells take at most `memory_bytes`, found by halving: sizes grow with capacity.
pub(super) fn capacity_within(
    memory_bytes: u64,
    bytes_of: impl Fn(u64) -> Result<u64, SpecError>,
) -> Result<u64, SpecError> {
    let mut fits = 0;
    let mut too_many = memory_bytes.saturating_mul(8).max(1);
    while too_many - fits > 1 + fits / 1024 {
        let middle = fits + (too_many - fits) / 2;
        match bytes_of(middle) {
            Ok(bytes) if bytes <= memory_bytes => fits = middle,
            Err(wasteful @ SpecError::Layout { .. }) => return Err(wasteful),
            _ => too_many = middle,
        }
    }
    if fits < 16 { Err(SpecError::Memory { bytes: memory_bytes, least: MEMORY_MIN_BYTES }) } else { Ok(fits) }
}
