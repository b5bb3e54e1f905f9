//! Kind `timing`: one timer per cell, for sliding windows (Koloniari et al. 2011, section 4).
//!
//! A timer that is set in tick `t` expires at `t + span`. For an event that is tested as of tick `j`, the timer is
//! alive iff its expiry is above `j`. Setting a timer again never lowers its expiry. Otherwise an event that arrives
//! late could shorten the life of a timer, and the filter would forget an event too early.
//!
//! A lookup as of tick `j` finds every event that was recorded with an expiry above `j`. This also holds if events
//! arrive out of order, as long as none is later than the lateness allows.
//!
//! This module does not depend on the length of a tick.

mod sweep;
mod wheel;

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::cell_kind::{CellKind, Density, Pass, Recorded, Recording, density_of};
use crate::generation::Generation;
use crate::kernel::CellRule;
use crate::probe::Offsets;
use crate::unit_number::UnitNumber;
use crate::{HASHES_MAX, Stamp, WindowRule};
use wheel::{Span, Timer, View, code_of};

/// Occurrence of an event from which its window is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refresh {
    /// The window starts at the delivered occurrence. Duplicates change nothing.
    #[default]
    Fixed,
    /// The window starts at the last occurrence. Every duplicate restarts it.
    Refresh,
}

/// Timers of 8 bits.
pub type Timers8 = Timers<u8>;
/// Timers of 16 bits.
pub type Timers16 = Timers<[u8; 2]>;

/// Timers whose expiries are stored on a wheel of codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers<T> {
    window: WindowRule,
    refresh: Refresh,
    equal_timers: u32,
    sweep_period_units: u64,
    width: PhantomData<T>,
}

/// Minimum number of units over which a sweep of all timers may be spread.
const SWEEP_PERIOD_UNITS_MIN: u64 = 8;

#[allow(private_bounds)]
impl<T: Timer> Timers<T> {
    /// Greatest value of `span_units + lateness_units` that fits this wheel.
    pub const REACH_UNITS_MAX: u64 = T::CODES - 2 - SWEEP_PERIOD_UNITS_MIN - <Self as CellKind>::SLACK_UNITS;

    /// Creates the kind for `window`. Returns `None` if the window does not fit the wheel ([`Self::REACH_UNITS_MAX`]).
    ///
    /// The parameter `equal_timers` is the threshold k' of the equal-timers heuristic (Koloniari et al. 2011, section
    /// 4). A recorded event has set all its timers to the same expiry. With the heuristic, an event is a duplicate only
    /// if all its k timers are alive and at least k' of them are equal. This avoids false positives, whose timers were
    /// set by different events. It also causes false negatives, because later events may have changed the timers of a
    /// recorded event. The values 0 and 1 turn the heuristic off.
    pub fn new(window: WindowRule, refresh: Refresh, equal_timers: u32) -> Option<Self> {
        let reach = window.span_units.checked_add(window.lateness_units)?;
        let sweep_period_units = (T::CODES - 2 - Self::SLACK_UNITS).checked_sub(reach)?;
        (sweep_period_units >= SWEEP_PERIOD_UNITS_MIN && window.span_units > 0).then_some(Self {
            window,
            refresh,
            equal_timers,
            sweep_period_units,
            width: PhantomData,
        })
    }

    /// Returns the same kind with more frequent sweeps. Each timer is swept at least every `period_units` units, but
    /// never more often than every 8 units. Frequent sweeps are needed by a filter that grows when too many cells are
    /// used, because an expired timer counts as a used cell until a sweep clears it.
    #[must_use]
    pub(crate) fn swept_every(self, period_units: u64) -> Self {
        let sweep_period_units = self.sweep_period_units.min(period_units.max(SWEEP_PERIOD_UNITS_MIN));
        Self { sweep_period_units, ..self }
    }

    fn view(&self, judged: UnitNumber, now: UnitNumber) -> T::View {
        T::View::new(Span::of::<T>(judged, self.window.expiry(now)))
    }

    /// Returns the view of all timers that are alive at unit `now`, for an event that is as late as allowed.
    fn whole_view(&self, now: UnitNumber) -> T::View {
        self.view(now.before(self.window.lateness_units), now)
    }

    /// Returns, for each timer, the number of units from the judged unit to the expiry of the timer. Batches look up
    /// this number in a table. This method computes it instead, because building a table is not worthwhile for the
    /// timers of a single event.
    fn ranks(
        &self,
        generation: &Generation,
        positions: &[u64],
        stamp: Stamp,
        now: UnitNumber,
    ) -> impl Iterator<Item = u32> {
        let span = Span::of::<T>(stamp.judged, self.window.expiry(now));
        let width = T::BITS as usize / 8;
        let bytes = generation.memory.bytes();
        positions.iter().map(move |position| {
            let start = *position as usize * width;
            span.rank(read_code(&bytes[start..start + width]))
        })
    }
}

/// Rule that first tests the timers of an event, and then sets them if the event is new.
pub(crate) struct TimerRule<'a, T: Timer> {
    pass: Pass<'a>,
    timers: &'a Timers<T>,
    now: UnitNumber,
    stamp: Stamp,
    view: T::View,
    code: u32,
    rank: u32,
    recorded: Recorded,
}

impl<T: Timer> TimerRule<'_, T> {
    #[inline(always)]
    fn look_from(&mut self, stamp: Stamp) {
        if stamp != self.stamp {
            self.stamp = stamp;
            self.view = self.timers.view(stamp.judged, self.now);
            self.code = code_of::<T>(self.timers.window.expiry(stamp.unit));
            self.rank = self.view.rank(self.code);
        }
    }

    #[inline(always)]
    fn all_alive(&self, cells: &[T], offsets: impl Offsets) -> bool {
        let mut least = u32::MAX;
        offsets.for_each(|position| least = least.min(self.view.rank(cells[position].code())));
        least > 0 && (self.timers.equal_timers <= 1 || largest_group(cells, offsets) >= self.timers.equal_timers)
    }

    #[inline(always)]
    fn raise(&mut self, cells: &mut [T], offsets: impl Offsets) {
        let mut used = 0;
        offsets.for_each(|position| {
            let cell = &mut cells[position];
            let old = cell.code();
            used += u64::from(old == 0);
            *cell = T::from_code(if self.view.rank(old) > self.rank { old } else { self.code });
        });
        self.recorded.cells += used;
    }
}

/// Returns the size of the largest group of an event's timers that have the same code.
fn largest_group<T: Timer>(cells: &[T], offsets: impl Offsets) -> u32 {
    let mut codes = [0; HASHES_MAX as usize];
    let mut len = 0;
    offsets.for_each(|position| {
        codes[len] = cells[position].code();
        len += 1;
    });
    let codes = &codes[..len];
    codes.iter().map(|code| codes.iter().filter(|other| *other == code).count() as u32).max().unwrap_or(0)
}

impl<T: Timer> CellRule for TimerRule<'_, T> {
    type Element = T;
    const CELL_BITS: u32 = T::BITS;

    #[inline(always)]
    fn touch(&mut self, index: usize, cells: &mut [T], offsets: impl Offsets) -> bool {
        self.look_from(self.pass.stamps[index]);
        let known = self.pass.is_known(index);
        let found = known || self.all_alive(cells, offsets);
        let refreshes = self.timers.refresh == Refresh::Refresh;
        let raises = match self.pass.record {
            Recording::Everything => !found || refreshes,
            Recording::Refreshes => found && !known && refreshes,
            Recording::Nothing => false,
        };
        if raises {
            self.raise(cells, offsets);
            self.recorded.events += u64::from(!found);
            self.recorded.refreshed |= found;
        }
        found
    }
}

impl<T: Timer> CellKind for Timers<T> {
    type Rule<'a>
        = TimerRule<'a, T>
    where
        T: 'a;
    const SLACK_UNITS: u64 = 4;

    fn window(&self) -> &WindowRule {
        &self.window
    }

    fn rule<'a>(&'a self, pass: Pass<'a>, now: UnitNumber) -> TimerRule<'a, T> {
        let stamp = Stamp::on_time(now);
        let view = self.view(now, now);
        let code = code_of::<T>(self.window.expiry(now));
        TimerRule { pass, timers: self, now, stamp, view, code, rank: view.rank(code), recorded: Recorded::default() }
    }

    fn recorded(rule: &TimerRule<'_, T>) -> Recorded {
        rule.recorded
    }

    fn advance(&self, generation: &mut Generation, now: UnitNumber, next: UnitNumber) {
        self.sweep_to(generation, now, next);
    }

    fn sweep(&self, generation: &mut Generation, now: UnitNumber, budget_bytes: usize) {
        self.sweep_some(generation, now, budget_bytes);
    }

    /// Returns the density of the timers. The rate is `(alive timers / m)^k`. For blocked layouts it is the mean over
    /// the blocks.
    fn density(&self, generation: &Generation, now: UnitNumber, bytes_max: usize) -> Density {
        let view = self.view(now, now);
        let exponent = generation.geometry.hashes() as i32;
        let width = T::BITS as usize / 8;
        density_of(generation, bytes_max, width, |bytes| {
            let cells = bytes.chunks_exact(width);
            let len = cells.len();
            let alive = cells.filter(|cell| view.rank(read_code(cell)) > 0).count();
            let fill = alive as f64 / len as f64;
            Density { fill, rate: fill.powi(exponent) }
        })
    }

    fn sight(&self, generation: &Generation, positions: &[u64], stamp: Stamp, now: UnitNumber) -> (u16, UnitNumber) {
        match self.ranks(generation, positions, stamp, now).min() {
            Some(0) => (0, UnitNumber::NEVER),
            Some(rank) => (1, stamp.judged.after(u64::from(rank))),
            None => (1, UnitNumber::NEVER),
        }
    }

    fn set(&self, generation: &mut Generation, positions: &[u64], stamp: Stamp, now: UnitNumber) -> Option<Recorded> {
        let span = Span::of::<T>(stamp.judged, self.window.expiry(now));
        let code = code_of::<T>(self.window.expiry(stamp.unit));
        let rank = span.rank(code);
        let mut used = 0;
        let timers = T::of(generation.memory.bytes_mut());
        for position in positions {
            let timer = &mut timers[*position as usize];
            let old = timer.code();
            used += u64::from(old == 0);
            *timer = T::from_code(if span.rank(old) > rank { old } else { code });
        }
        Some(Recorded::one(used))
    }

    fn push_expiries(
        &self,
        generation: &Generation,
        positions: &[u64],
        stamp: Stamp,
        now: UnitNumber,
        expiries: &mut Vec<UnitNumber>,
    ) {
        let ranks = self.ranks(generation, positions, stamp, now);
        expiries.extend(ranks.map(|rank| match rank {
            0 => UnitNumber::FIRST,
            rank => stamp.judged.after(u64::from(rank)),
        }));
    }

    fn merge(&self, cells: &mut [u8], others: &[u8], then: UnitNumber, now: UnitNumber) -> Option<u64> {
        let view = self.whole_view(now);
        let view_then = self.whole_view(then);
        let width = T::BITS as usize / 8;
        let merged = T::of(cells).iter_mut().zip(others.chunks_exact(width)).map(|(cell, other)| {
            let mine = cell.code();
            let other = alive_then(&view_then, other);
            let later = if view.rank(mine) >= view.rank(other) { mine } else { other };
            let used = view.rank(later) > 0;
            *cell = T::from_code(if used { later } else { 0 });
            u64::from(used)
        });
        Some(merged.sum())
    }

    fn lacks(&self, cells: &[u8], others: &[u8], then: UnitNumber, now: UnitNumber) -> bool {
        let view = self.whole_view(now);
        let view_then = self.whole_view(then);
        let width = T::BITS as usize / 8;
        let mut pairs = cells.chunks_exact(width).zip(others.chunks_exact(width));
        pairs.any(|(mine, other)| view.rank(alive_then(&view_then, other)) > view.rank(read_code(mine)))
    }

    fn age_max_units(&self) -> u64 {
        self.sweep_period_units
    }

    fn used(&self, cells: &[u8]) -> u64 {
        let width = T::BITS as usize / 8;
        cells.chunks_exact(width).map(|cell| u64::from(read_code(cell) != 0)).sum()
    }
}

/// Returns the code of a timer that was copied from another memory, or 0 if the timer had already expired when it was
/// copied. The check is necessary because the wheel of timers reuses its codes. Since the copy was made, the wheel may
/// have turned so far that the old code stands for an expiry in the future, and the expired timer would appear to be
/// alive.
fn alive_then(view_then: &impl View, cell: &[u8]) -> u32 {
    let code = read_code(cell);
    if view_then.rank(code) > 0 { code } else { 0 }
}

fn read_code(cell: &[u8]) -> u32 {
    cell.iter().rev().fold(0, |code, byte| code << 8 | u32::from(*byte))
}
