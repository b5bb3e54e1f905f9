//! The size of a stable filter.

use super::units::Sizing;
use super::{MEMORY_MIN_BYTES, SpecError};
use crate::definition::{CellDefinition, StableCells};
use crate::stable::StableShape;

/// Returns the number of cells of a stable filter. This is the number that the specification states, or the number that
/// fits into the stated memory. Otherwise it is ten times the number of events that the filter should remember well.
pub(super) fn fading(sizing: &Sizing<'_>) -> Result<CellDefinition, SpecError> {
    let spec = sizing.spec;
    let max = spec.stable_max.unwrap_or(1);
    let hashes = spec.hashes.unwrap_or(4);
    let cell_bits = (u8::BITS - max.leading_zeros()).next_power_of_two();
    let cells = match (spec.cells, spec.memory_bytes, spec.capacity_events) {
        (Some(cells), ..) => cells,
        // The cells are stored in whole lines of 512 cells.
        (None, Some(memory_bytes), _) => match memory_bytes / (64 * u64::from(cell_bits.max(1))) {
            0 => return Err(SpecError::Memory { bytes: memory_bytes, least: MEMORY_MIN_BYTES }),
            lines => lines.saturating_mul(512),
        },
        (None, None, Some(capacity)) => capacity.saturating_mul(10),
        (None, None, None) => return Err(SpecError::CapacityNeeded(spec.kind)),
    };
    let shape = match spec.stable_decrements {
        Some(decrements) => {
            let shape = StableShape { cells, hashes, max, decrements };
            shape.check()?;
            shape
        }
        None => StableShape::for_rate(cells, hashes, max, spec.rate)?,
    };
    Ok(CellDefinition::Stable(StableCells { shape, seed: spec.seed }))
}
