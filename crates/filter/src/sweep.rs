//! The background sweep: which part of the cells is visited in which unit.
//!
//! Promises: in every unit one part of the cells is visited, so that all are visited once a period; what batches have not
//! paid for when a unit ends is due then. Must not know: what a visit does.

use std::ops::Range;

use crate::generation::Generation;
use crate::unit_number::UnitNumber;

/// A sweep over all cells within `period_units`, in pieces of `grain_bytes`.
pub(crate) struct Sweep {
    pub(crate) period_units: u64,
    pub(crate) grain_bytes: usize,
}

impl Sweep {
    /// The parts that are due when unit `now` ends and unit `next` begins: the rest of that of `now`, and those of the
    /// units between; everything where a whole period has passed.
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

    /// The next `budget_bytes` at most of the part of unit `now`.
    pub(crate) fn step(&self, generation: &mut Generation, now: UnitNumber, budget_bytes: usize) -> Range<usize> {
        let cursor = self.cursor(generation, now);
        let budget_bytes = budget_bytes.next_multiple_of(self.grain_bytes);
        let part_end = self.part(generation.memory.bytes().len(), now).end;
        let end = part_end.min(cursor.saturating_add(budget_bytes)).max(cursor);
        generation.swept_bytes = end;
        cursor..end
    }

    /// How far the part of unit `now` is swept. While nothing is recorded no time passes for a sweep, so that it may
    /// stand anywhere; no line may be swept twice as of one unit, nor a range that ends before it starts.
    fn cursor(&self, generation: &Generation, now: UnitNumber) -> usize {
        let part = self.part(generation.memory.bytes().len(), now);
        generation.swept_bytes.clamp(part.start, part.end)
    }

    fn part(&self, len: usize, unit: UnitNumber) -> Range<usize> {
        self.part_start(len, unit) % len.max(1)..self.boundary(len, unit.0 % self.period_units + 1)
    }

    /// Where the part of `unit` starts; the end of the memory where a period starts anew.
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
