//! The background sweep, which decides which part of the cells is visited in which unit.
//!
//! The cells are divided into parts, one for each unit of a period. In every unit the sweep visits one part, so it
//! visits all cells once per period. Batches visit a part in small steps. If a part has not been visited completely
//! when the unit ends, the rest is visited at that moment.
//!
//! This module does not depend on what a visit does.

use std::ops::Range;

use crate::generation::Generation;
use crate::unit_number::UnitNumber;

/// Sweep over all cells within `period_units`, in pieces of `grain_bytes`.
pub(crate) struct Sweep {
    pub(crate) period_units: u64,
    pub(crate) grain_bytes: usize,
}

impl Sweep {
    /// Returns the parts that must be visited when the time moves from unit `now` to unit `next`. These are the rest of
    /// the part of `now`, and the whole parts of all units between `now` and `next`. If at least a whole period has
    /// passed, the result contains all cells.
    pub(crate) fn parts_until(
        &self,
        generation: &mut Generation,
        now: UnitNumber,
        next: UnitNumber,
    ) -> Vec<Range<usize>> {
        let len = generation.memory.bytes().len();
        let parts = if next.since(now) >= self.period_units {
            std::iter::once(0..len).collect()
        } else {
            let rest = self.cursor(generation, now)..self.part_start(len, now.after(1));
            let between = (now.0 + 1..next.0).map(|unit| self.part(len, UnitNumber(unit)));
            std::iter::once(rest).chain(between).collect()
        };
        generation.swept_bytes = self.part(len, next).start;
        parts
    }

    /// Returns the next piece of the part of unit `now`, with at most `budget_bytes` bytes.
    pub(crate) fn step(&self, generation: &mut Generation, now: UnitNumber, budget_bytes: usize) -> Range<usize> {
        let cursor = self.cursor(generation, now);
        let budget_bytes = budget_bytes.next_multiple_of(self.grain_bytes);
        let part_end = self.part(generation.memory.bytes().len(), now).end;
        let end = part_end.min(cursor.saturating_add(budget_bytes)).max(cursor);
        generation.swept_bytes = end;
        cursor..end
    }

    /// Returns the position up to which the part of unit `now` has been swept. The position is stored in the
    /// generation, but the stored value may lie outside the part of `now`: while nothing is recorded, the sweep does
    /// not advance, and the stored position remains in an earlier part.
    ///
    /// The result is therefore limited to the part of `now`. Otherwise a cache line could be swept twice in one unit,
    /// or a range of swept bytes could end before it starts.
    fn cursor(&self, generation: &Generation, now: UnitNumber) -> usize {
        let part = self.part(generation.memory.bytes().len(), now);
        generation.swept_bytes.clamp(part.start, part.end)
    }

    fn part(&self, len: usize, unit: UnitNumber) -> Range<usize> {
        self.part_start(len, unit) % len.max(1)..self.boundary(len, unit.0 % self.period_units + 1)
    }

    /// Returns the offset at which the part of `unit` starts. At the start of a period the result is the end of the
    /// memory.
    fn part_start(&self, len: usize, unit: UnitNumber) -> usize {
        match unit.0 % self.period_units {
            0 => len,
            index => self.boundary(len, index),
        }
    }

    fn boundary(&self, len: usize, index: u64) -> usize {
        let bytes = len as u128 * u128::from(index) / u128::from(self.period_units);
        (bytes as usize).next_multiple_of(self.grain_bytes).min(len)
    }
}
