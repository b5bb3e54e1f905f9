//! The background sweep of timers, which clears expired codes before the wheel comes round to them.
//!
//! The wheel of timers reuses the code of an expiry after one turn, so the sweep must clear each expired timer before
//! that. In the worst case, the sweep visits a timer just before the timer expires, and visits it again only one period
//! later. An expired timer can therefore remain for one period, and all stored expiries lie within `now - lateness -
//! slack - period - 1 ..= now + span`. [`super::Timers::new`] ensures that this range is shorter than one turn of the
//! wheel.

use std::ops::Range;

use super::wheel::{Span, Timer};
use super::{CellKind, Timers};
use crate::arch::{Instructions, compiled_for};
use crate::generation::Generation;
use crate::sweep::Sweep;
use crate::unit_number::UnitNumber;

#[allow(private_bounds)]
impl<T: Timer> Timers<T> {
    fn sweep_plan(&self) -> Sweep {
        Sweep { period_units: self.sweep_period_units, grain_bytes: 2 }
    }

    /// Finishes the part of unit `now` and all parts up to unit `next`.
    pub(super) fn sweep_to(&self, generation: &mut Generation, now: UnitNumber, next: UnitNumber) {
        let parts = self.sweep_plan().parts_until(generation, now, next);
        parts.into_iter().for_each(|part| self.clear(generation, part, now, next));
    }

    /// Sweeps the rest of the part of unit `now`, but at most `budget_bytes`.
    pub(super) fn sweep_some(&self, generation: &mut Generation, now: UnitNumber, budget_bytes: usize) {
        let part = self.sweep_plan().step(generation, now, budget_bytes);
        self.clear(generation, part, now, now);
    }

    /// Clears the timers of `part` that no event judged from unit `next` on can find alive. The codes of the timers are
    /// relative to unit `now`.
    fn clear(&self, generation: &mut Generation, part: Range<usize>, now: UnitNumber, next: UnitNumber) {
        if part.is_empty() {
            return;
        }
        let kept_above = next.before(self.window.lateness_units + Self::SLACK_UNITS);
        let span = Span::of::<T>(kept_above, self.window.expiry(now));
        let timers = T::of(&mut generation.memory.bytes_mut()[part]);
        let emptied = compiled_for(Instructions::Widest, |_| T::retain(timers, span));
        generation.used_cells = generation.used_cells.saturating_sub(emptied);
    }
}
