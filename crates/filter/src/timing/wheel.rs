//! Absolute expiries on a wheel of codes.
//!
//! A timer is a cell that stores when it expires, in ticks. It has room for only a few bits, so it stores the code
//! `1 + expiry mod CODES` instead of the tick, or 0 if it is empty. The codes form a wheel: after `CODES` ticks, the same
//! codes are used again. A reader converts a code back to the only tick near the present time that has this code.
//!
//! Koloniari et al. 2011 store the remaining ticks and decrement every timer at every tick. With codes, no timer changes
//! as time passes. Instead, a sweep clears each expired timer before its code is used again.
//!
//! An expiry is read back exactly as it was stored, provided that all stored expiries lie in a range that is shorter
//! than the wheel.
//!
//! This module does not depend on events or on the positions of cells.

use crate::kernel::Element;
use crate::unit_number::UnitNumber;

/// Timer of 8 or 16 bits.
pub(crate) trait Timer: Element {
    /// Number of codes other than "empty".
    const CODES: u64;
    const BITS: u32;
    type View: View;

    fn code(self) -> u32;

    fn from_code(code: u32) -> Self;

    /// Clears every timer that is not alive in `span`, and returns the number of cleared timers.
    fn retain(timers: &mut [Self], span: Span) -> u64;
}

impl Timer for u8 {
    const CODES: u64 = u8::MAX as u64;
    const BITS: u32 = 8;
    type View = Table;

    #[inline(always)]
    fn code(self) -> u32 {
        u32::from(self)
    }

    #[inline(always)]
    fn from_code(code: u32) -> Self {
        code as u8
    }

    /// Clears timers in chunks, with arithmetic in the width of a timer, so that the compiler can use vector
    /// instructions.
    #[inline(always)]
    fn retain(timers: &mut [Self], span: Span) -> u64 {
        let base = span.base as u8;
        let alive = span.alive as u8;
        let (chunks, rest) = timers.as_chunks_mut::<64>();
        let emptied: u64 = chunks.iter_mut().map(|chunk| retain_few(chunk, base, alive)).sum();
        emptied + retain_few(rest, base, alive)
    }
}

/// Clears those of at most 255 timers that are not among the `alive` expiries after `base`. Returns the number of
/// cleared timers.
#[inline(always)]
fn retain_few(timers: &mut [u8], base: u8, alive: u8) -> u64 {
    let mut emptied = 0u8;
    for timer in timers.iter_mut() {
        let place = timer.wrapping_sub(1);
        let rank = place.wrapping_sub(base).wrapping_sub(u8::from(place < base));
        let kept = if rank < alive { *timer } else { 0 };
        emptied += u8::from(kept != *timer);
        *timer = kept;
    }
    u64::from(emptied)
}

impl Timer for [u8; 2] {
    const CODES: u64 = u16::MAX as u64;
    const BITS: u32 = 16;
    type View = Span;

    #[inline(always)]
    fn code(self) -> u32 {
        u32::from(u16::from_le_bytes(self))
    }

    #[inline(always)]
    fn from_code(code: u32) -> Self {
        (code as u16).to_le_bytes()
    }

    #[inline(always)]
    fn retain(timers: &mut [Self], span: Span) -> u64 {
        let mut emptied = 0;
        for timer in timers {
            let code = timer.code();
            let kept = if span.rank(code) > 0 { code } else { 0 };
            emptied += u64::from(kept != code);
            *timer = Self::from_code(kept);
        }
        emptied
    }
}

/// View of the wheel from one unit.
pub(crate) trait View: Copy {
    /// Creates the view of the timers that are alive for an event judged at `span.judged`.
    fn new(span: Span) -> Self;

    /// Returns the number of units from the judged unit to the expiry of `code`. Returns 0 if the timer is empty or
    /// expired.
    fn rank(&self, code: u32) -> u32;
}

/// Range of the live expiries `judged + 1 ..= greatest` on a wheel. It recognizes the codes of this range by
/// arithmetic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    codes: u32,
    base: u32,
    alive: u32,
}

impl Span {
    #[inline]
    pub(crate) fn of<T: Timer>(judged: UnitNumber, greatest: UnitNumber) -> Self {
        let base = ((judged.0 + 1) % T::CODES) as u32;
        Self { codes: T::CODES as u32, base, alive: greatest.since(judged).min(T::CODES) as u32 }
    }
}

impl View for Span {
    #[inline(always)]
    fn new(span: Span) -> Self {
        span
    }

    /// Returns the rank of `code`. An empty timer (code 0) wraps to a place beyond every wheel.
    #[inline(always)]
    fn rank(&self, code: u32) -> u32 {
        let place = code.wrapping_sub(1);
        let rank = place.wrapping_sub(self.base);
        let rank = if place < self.base { rank.wrapping_add(self.codes) } else { rank };
        if rank < self.alive { rank + 1 } else { 0 }
    }
}

/// Table of the ranks of all codes of an 8-bit wheel. It replaces the arithmetic by one load per timer.
#[derive(Clone, Copy)]
pub(crate) struct Table([u8; 256]);

impl View for Table {
    #[inline]
    fn new(span: Span) -> Self {
        let mut ranks = [0; 256];
        let first = span.base as usize + 1;
        let before_wrap = (256 - first).min(span.alive as usize);
        for (place, rank) in ranks[first..first + before_wrap].iter_mut().enumerate() {
            *rank = place as u8 + 1;
        }
        for (place, rank) in ranks[1..].iter_mut().enumerate().take(span.alive as usize - before_wrap) {
            *rank = (place + before_wrap) as u8 + 1;
        }
        Self(ranks)
    }

    #[inline(always)]
    fn rank(&self, code: u32) -> u32 {
        u32::from(self.0[(code & 0xFF) as usize])
    }
}

/// Returns the code of an absolute expiry.
#[inline(always)]
pub(crate) fn code_of<T: Timer>(expiry: UnitNumber) -> u32 {
    (expiry.0 % T::CODES) as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads_back<T: Timer>(span_units: u64, behind_units: u64) {
        for judged in (0..1200).chain(u64::from(u16::MAX) - 300..u64::from(u16::MAX) + 300) {
            let judged = UnitNumber(judged);
            let view = T::View::new(Span::of::<T>(judged, judged.after(span_units)));
            for rank in 1..=span_units {
                assert_eq!(u64::from(view.rank(code_of::<T>(judged.after(rank)))), rank);
            }
            for expired in (judged.before(behind_units).0..=judged.0).map(UnitNumber) {
                assert_eq!(view.rank(code_of::<T>(expired)), 0, "{expired} seen from {judged}");
            }
            assert_eq!(view.rank(0), 0, "empty");
        }
    }

    #[test]
    fn every_expiry_in_range_reads_back_around_the_whole_wheel() {
        reads_back::<u8>(200, 54);
        reads_back::<u8>(254, 0);
        reads_back::<[u8; 2]>(900, 300);
    }

    fn retains<T: Timer>() {
        for judged in [0, 7, 100, 250, 254, 255, 256, 300, 65_400, 65_534, 65_535, 65_600].map(UnitNumber) {
            let span = Span::of::<T>(judged, judged.after(150));
            let view = T::View::new(span);
            let mut timers: Vec<T> = (0..=T::CODES as u32).map(T::from_code).collect();
            let emptied = T::retain(&mut timers, span);
            for (code, timer) in (0..).zip(&timers) {
                assert_eq!(timer.code(), if view.rank(code) > 0 { code } else { 0 });
            }
            assert_eq!(emptied, T::CODES - 150);
        }
    }

    #[test]
    fn a_sweep_keeps_what_a_view_finds_alive() {
        retains::<u8>();
        retains::<[u8; 2]>();
    }
}
