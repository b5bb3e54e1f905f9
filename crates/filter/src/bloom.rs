//! `bloom`: one bit in each cell; unbounded, or emptied at every landmark (M05 3.2, K11 2).
//!
//! Promises: an event recorded since the landmark is never unseen. Must not know: what makes a landmark; it is a unit
//! of the window, and a filter without a window has one unit that does not end.

use crate::cell_kind::{CellKind, Density, Pass, Recorded, Recording, density_of};
use crate::generation::Generation;
use crate::kernel::CellRule;
use crate::probe::Offsets;
use crate::unit_number::UnitNumber;
use crate::{Stamp, WindowRule};

/// Bits, emptied when the unit changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    window: WindowRule,
}

impl Bits {
    /// Bits that last for one unit: an event recorded in unit `t` expires at `t + 1`.
    pub fn new() -> Self {
        Self { window: WindowRule { span_units: 1, lateness_units: 0 } }
    }
}

impl Default for Bits {
    fn default() -> Self {
        Self::new()
    }
}

/// First-test-then-set over the bits of one event.
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

/// Sets all bits, and returns how many were not set.
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

    /// The rate is `(set bits / m)^k`; blocked: its mean over the blocks.
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

    /// Events of a unit that is over are gone.
    fn age_max_units(&self) -> u64 {
        0
    }

    fn used(&self, cells: &[u8]) -> u64 {
        cells.iter().map(|cell| u64::from(cell.count_ones())).sum()
    }
}
