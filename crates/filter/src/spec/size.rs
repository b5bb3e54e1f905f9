//! The number of cells that each kind needs.

use super::units::Units;
use super::{FilterSpec, MEMORY_MIN_BYTES, SpecError};
use crate::kind::Windows;
use crate::rates::generations::JumpingLoad;
use crate::rates::{Size, blocked, generations, plain};
use crate::{Geometry, Layout};

/// Returns the layout of the cells. The default is a blocked layout, with blocks of as many cache lines as suit the
/// kind and the rate. Blocks fill unevenly, which costs more memory the lower the target rate is. For lower rates the
/// default therefore has larger blocks, and for the lowest rates it has no blocks.
pub(super) fn layout_of(spec: &FilterSpec) -> Layout {
    let lines = spec.kind.properties().block_lines;
    spec.layout.unwrap_or(match (lines, spec.rate) {
        (0, _) => Layout::Classic,
        (lines, 1e-3..) => Layout::Blocked { lines },
        (lines, 1e-4..) => Layout::Blocked { lines: 2 * lines },
        _ => Layout::Classic,
    })
}

/// Load that a slice must hold at a given rate.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// Number of live events in one generation of cells.
    pub(super) events: f64,
    /// Number of jumps of the window, if their generations share words. Otherwise 0.
    pub(super) jumps: u32,
    /// False-positive rate of one generation of cells.
    pub(super) rate: f64,
}

/// Returns the smallest geometry for `load`. The number of positions (k) is `hashes`, or the best number if that is
/// `None`.
pub(super) fn geometry(layout: Layout, cell_bits: u32, load: Load, hashes: Option<u32>) -> Result<Geometry, SpecError> {
    let Load { events, jumps, rate } = load;
    let hashes_given = hashes;
    if let Some(hashes) = hashes {
        // If no geometry of this layout can place that number of positions, there is no size to calculate.
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

/// Maximum size of a blocked layout, as a multiple of the size of the classic layout. Blocks make a filter faster but
/// larger. If the blocks are too small for the requested rate, there is no limit to the memory that they need, so the
/// planner rejects such a layout.
const BLOCKED_PART_MAX: u64 = 8;
/// Size in bytes up to which a blocked layout is accepted even if it exceeds the limit `BLOCKED_PART_MAX`. A filter for
/// a few events may consist of a single block, which can be many times as large as the classic layout. Its size in
/// bytes is still too small to matter.
const WASTED_BYTES_MIN: u64 = 64 << 10;

/// Returns the maximum number of events that the filter must hold at the same time if `capacity` events arrive per
/// window. The result may be greater than `capacity`. For example, a filter with a sliding window keeps events for up
/// to two units longer than the window, where a unit is the step in which the window counts time.
pub(super) fn live_events(spec: &FilterSpec, units: &Units, capacity: u64) -> f64 {
    let window_units = units.window_units as f64;
    match spec.kind.properties().windows {
        // The difference is the tick that an event shares with others, and the tick that rounding adds.
        Windows::Sliding => capacity as f64 * (window_units + 1.5) / window_units,
        // The jumps of a steady stream do not have equal numbers of events. The numbers vary by their square roots, and
        // the filter should not reject events because of this variation.
        Windows::Jumping => {
            let jump = capacity as f64 / window_units;
            (jump + 4.0 * jump.sqrt()) * window_units
        }
        _ => capacity as f64,
    }
}

/// Returns the greatest capacity whose cells take at most `memory_bytes`. The function finds it by binary search. This
/// is possible because a greater capacity never needs less memory.
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
