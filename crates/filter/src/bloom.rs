//! Kind `bloom`: a filter with one bit per cell, which cannot forget single events. The filter either keeps all events,
//! or is emptied as a whole at every landmark (Metwally et al. 2005, section 3.2; Koloniari et al. 2011, section 2).
//!
//! A window with landmarks is divided into units, and a landmark is the moment at which a new unit starts. For example,
//! if the landmarks are at midnight, each day is a unit. A lookup always finds an event that was recorded in the
//! present unit. A filter without a window has a single unit that never ends, so it finds every recorded event.
//!
//! This module does not depend on what causes a landmark.

use crate::cell_kind::{CellKind, Density, Pass, Recorded, Recording, density_of};
use crate::generation::Generation;
use crate::kernel::CellRule;
use crate::probe::Offsets;
use crate::unit_number::UnitNumber;
use crate::{Stamp, WindowRule};

/// Bits that are all cleared when the unit changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    window: WindowRule,
}

impl Bits {
    /// Creates the kind. Bits last for one unit, so that an event recorded in unit `t` expires at `t + 1`.
    pub fn new() -> Self {
        Self { window: WindowRule { span_units: 1, lateness_units: 0 } }
    }
}

impl Default for Bits {
    fn default() -> Self {
        Self::new()
    }
}

/// Rule that first tests the bits of an event, and then sets them if the event is new.
pub(crate) struct BitRule<'a> {
    pass: Pass<'a>,
    recorded: Recorded,
}

impl BitRule<'_> {
    #[inline(always)]
    fn set(&mut self, cells: &mut [u8], offsets: impl Offsets) {
        if self.pass.counts_cells {
            self.recorded.cells += set_counted(cells, offsets);
        } else {
            offsets.for_each(|position| cells[position >> 3] |= 1 << (position & 7));
        }
        self.recorded.events += 1;
    }
}

/// Sets all bits at the positions, and returns how many of them were not set before.
#[inline(always)]
fn set_counted(cells: &mut [u8], offsets: impl Offsets) -> u64 {
    let mut unset = 0;
    offsets.for_each(|position| {
        let byte = &mut cells[position >> 3];
        unset += u64::from(!(*byte >> (position & 7)) & 1);
        *byte |= 1 << (position & 7);
    });
    unset
}

#[inline(always)]
fn all_set(cells: &[u8], offsets: impl Offsets) -> bool {
    let mut all = 1;
    offsets.for_each(|position| all &= cells[position >> 3] >> (position & 7));
    all & 1 == 1
}

impl CellRule for BitRule<'_> {
    type Element = u8;
    const CELL_BITS: u32 = 1;

    #[inline(always)]
    fn touch(&mut self, index: usize, cells: &mut [u8], offsets: impl Offsets) -> bool {
        if self.pass.is_known(index) || all_set(cells, offsets) {
            return true;
        }
        if self.pass.record == Recording::Everything {
            self.set(cells, offsets);
        }
        false
    }
}

impl CellKind for Bits {
    type Rule<'a> = BitRule<'a>;
    const SLACK_UNITS: u64 = 0;

    fn window(&self) -> &WindowRule {
        &self.window
    }

    fn rule<'a>(&'a self, pass: Pass<'a>, _now: UnitNumber) -> BitRule<'a> {
        BitRule { pass, recorded: Recorded::default() }
    }

    fn recorded(rule: &BitRule<'_>) -> Recorded {
        rule.recorded
    }

    fn advance(&self, generation: &mut Generation, _now: UnitNumber, _next: UnitNumber) {
        generation.clear();
    }

    fn sweep(&self, _generation: &mut Generation, _now: UnitNumber, _budget_bytes: usize) {}

    /// Returns the density of the bits. The rate is `(set bits / m)^k`. For blocked layouts it is the mean over the
    /// blocks.
    fn density(&self, generation: &Generation, _now: UnitNumber, bytes_max: usize) -> Density {
        let geometry = &generation.geometry;
        let exponent = geometry.hashes() as i32;
        density_of(generation, bytes_max, 1, |bytes| {
            let ones: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
            let cells = geometry.cells().min(bytes.len() as u64 * 8);
            let fill = ones as f64 / cells as f64;
            Density { fill, rate: fill.powi(exponent) }
        })
    }

    fn sight(&self, generation: &Generation, positions: &[u64], stamp: Stamp, now: UnitNumber) -> (u16, UnitNumber) {
        let expiry = self.window.expiry(now);
        (u16::from(expiry > stamp.judged && all_set(generation.memory.bytes(), positions)), expiry)
    }

    fn set(&self, generation: &mut Generation, positions: &[u64], _stamp: Stamp, _now: UnitNumber) -> Option<Recorded> {
        Some(Recorded::one(set_counted(generation.memory.bytes_mut(), positions)))
    }

    fn merge(&self, cells: &mut [u8], others: &[u8], _then: UnitNumber, _now: UnitNumber) -> Option<u64> {
        let merged = cells.iter_mut().zip(others).map(|(cell, other)| {
            *cell |= other;
            u64::from(cell.count_ones())
        });
        Some(merged.sum())
    }

    fn lacks(&self, cells: &[u8], others: &[u8], _then: UnitNumber, _now: UnitNumber) -> bool {
        cells.iter().zip(others).any(|(cell, other)| other & !cell != 0)
    }

    /// Bits of an earlier unit have no meaning, so cells of different units cannot be merged.
    fn age_max_units(&self) -> u64 {
        0
    }

    fn used(&self, cells: &[u8]) -> u64 {
        cells.iter().map(|cell| u64::from(cell.count_ones())).sum()
    }
}
