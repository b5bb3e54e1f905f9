//! The background sweep: expired codes are emptied before the wheel comes round to them.
//!
//! In every unit of time one part of the timers is visited, so that all are visited once a period of
//! `sweep_period_units`. A timer visited just before it expires is visited again one period later: what is stored lies
//! within `now - lateness - slack - period - 1 ..= now + span`, which [`super::Timers::new`] keeps shorter than the
//! wheel. Within a unit the part is swept in steps that batches pay for; what is left when the unit ends is done then.

use super::wheel::{Span, Timer};
use super::{CellKind, Timers};
use crate::arch::{Instructions, compiled_for};
use crate::generation::Generation;

#[allow(private_bounds)]
impl<T: Timer> Timers<T> {
    /// Finishes the part of unit `now` and all parts up to unit `next`.
    pub(super) fn sweep_to(&self, generation: &mut Generation, now: u64, next: u64) {
        let units = next - now;
        if units >= self.sweep_period_units {
            let len = generation.memory.bytes().len();
            self.clear(generation, 0, len, now, next);
        } else {
            let (cursor, end) = (generation.swept_bytes, self.part_start(generation, now + 1));
            self.clear(generation, cursor, end, now, next);
            for unit in now + 1..next {
                let (start, end) = self.part(generation, unit);
                self.clear(generation, start, end, now, next);
            }
        }
        generation.swept_bytes = self.part(generation, next).0;
    }

    /// Sweeps at most `budget_bytes` of the rest of the part of unit `now`.
    pub(super) fn sweep_some(&self, generation: &mut Generation, now: u64, budget_bytes: usize) {
        let cursor = generation.swept_bytes;
        let budget_bytes = budget_bytes.next_multiple_of(2);
        let end = self.part(generation, now).1.min(cursor.saturating_add(budget_bytes));
        self.clear(generation, cursor, end, now, now);
        generation.swept_bytes = end;
    }

    /// First byte of the part of `unit`, and the first after it.
    fn part(&self, generation: &Generation, unit: u64) -> (usize, usize) {
        (self.part_start(generation, unit) % generation.memory.bytes().len().max(1), self.part_end(generation, unit))
    }

    fn part_end(&self, generation: &Generation, unit: u64) -> usize {
        self.boundary(generation, unit % self.sweep_period_units + 1)
    }

    /// Where the part of `unit` starts; the end of the memory where a period starts anew.
    fn part_start(&self, generation: &Generation, unit: u64) -> usize {
        match unit % self.sweep_period_units {
            0 => generation.memory.bytes().len(),
            index => self.boundary(generation, index),
        }
    }

    fn boundary(&self, generation: &Generation, index: u64) -> usize {
        let bytes = generation.memory.bytes().len() as u128 * u128::from(index) / u128::from(self.sweep_period_units);
        (bytes as usize).next_multiple_of(2).min(generation.memory.bytes().len())
    }

    /// Empties the timers in `start..end` that no event judged from unit `next` on can find alive. The codes are those
    /// of unit `now`.
    fn clear(&self, generation: &mut Generation, start: usize, end: usize, now: u64, next: u64) {
        if start >= end {
            return;
        }
        let kept_above = next.saturating_sub(self.window.lateness_units + Self::SLACK_UNITS);
        let span = Span::of::<T>(kept_above, self.window.expiry(now));
        let timers = T::of(&mut generation.memory.bytes_mut()[start..end]);
        let emptied = compiled_for(Instructions::Widest, || T::retain(timers, span));
        generation.used_cells = generation.used_cells.saturating_sub(emptied);
    }
}
