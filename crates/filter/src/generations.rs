//! Kind `generations`: a filter for jumping windows that stores one bit per generation, next to each other in a word
//! (Metwally et al. 2005, section 3.3, with a layout that needs fewer memory accesses).
//!
//! A jumping window of length W is divided into Q jumps, and each jump is a generation. Each cell is a word of B bits.
//! An event of jump `g` sets bit `g mod B` in the words at its k positions.
//!
//! A lookup reads one word per position and combines the words with a bitwise AND. The event is found if the result
//! contains a bit of a live generation. The current generation and Q full ones are alive (`span = Q + 1`), so an event
//! is remembered for a time between W and W + W/Q.
//!
//! At any time, at least one bit of each word belongs to no live generation. Lookups ignore this bit. A sweep clears it
//! in all cells, in small steps, so that the next generation can use it. The sweep is complete before that generation
//! begins.
//!
//! Every event that is judged at `j < t + span` finds an event of jump `t`.
//!
//! This module does not depend on the length of a jump.

use std::marker::PhantomData;

use crate::cell_kind::{CellKind, Density, Pass, Recorded, Recording, density_of};
use crate::generation::Generation;
use crate::kernel::{CellRule, Element};
use crate::probe::Offsets;
use crate::unit_number::UnitNumber;
use crate::{Stamp, WindowRule};

/// Word of 8 or 16 generation bits.
pub(crate) trait Word: Element {
    const BITS: u32;

    fn bits(self) -> u32;

    fn from_bits(bits: u32) -> Self;
}

impl Word for u8 {
    const BITS: u32 = 8;

    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(self)
    }

    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        bits as u8
    }
}

impl Word for [u8; 2] {
    const BITS: u32 = 16;

    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(u16::from_le_bytes(self))
    }

    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        (bits as u16).to_le_bytes()
    }
}

/// Words of 8 generations, for windows of up to Q = 6 full jumps.
pub type Generations8 = Generations<u8>;
/// Words of 16 generations, for windows of up to Q = 14 full jumps.
pub type Generations16 = Generations<[u8; 2]>;

/// Words of generation bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generations<W> {
    window: WindowRule,
    width: PhantomData<W>,
}

#[allow(private_bounds)]
impl<W: Word> Generations<W> {
    /// Creates the kind for `window`. Returns `None` unless `span + lateness` is at least 1 and less than the number of
    /// bits in a word.
    pub fn new(window: WindowRule) -> Option<Self> {
        let reach = window.span_units.checked_add(window.lateness_units)?;
        (window.span_units > 0 && reach < u64::from(W::BITS)).then_some(Self { window, width: PhantomData })
    }

    fn bit(unit: UnitNumber) -> u32 {
        1 << (unit.0 % u64::from(W::BITS))
    }

    /// Returns the bits of the generations `first..=last`. Generations wrap around within the word.
    #[inline]
    fn mask(first: UnitNumber, last: UnitNumber) -> u32 {
        // A stamp from another clock may lie further back than a word has bits.
        let first = first.max(last.before(u64::from(W::BITS) - 1));
        if first > last {
            return 0;
        }
        let ones = (2 << last.since(first)) - 1;
        let turned = ones << (first.0 % u64::from(W::BITS));
        (turned | turned >> W::BITS) & ((1 << W::BITS) - 1)
    }

    /// Returns the generations that an event judged at `judged` can find. These are the generations recorded in
    /// `judged - span + 1` or later.
    fn alive_for(&self, judged: UnitNumber, now: UnitNumber) -> u32 {
        Self::mask(judged.after(1).before(self.window.span_units), now)
    }

    /// Returns the generations that events from unit `now` on can still find.
    fn kept_at(&self, now: UnitNumber, newest: UnitNumber) -> u32 {
        Self::mask(now.after(1).before(self.window.span_units + self.window.lateness_units), newest)
    }

    /// Returns the unit at which the oldest live generation of a mask leaves the window.
    fn expiry_of(&self, held: u32, now: UnitNumber) -> UnitNumber {
        let first = now.before(u64::from(W::BITS) - 1);
        let mut units = (first.0..=now.0).map(UnitNumber);
        let oldest = units.find(|unit| held & Self::bit(*unit) != 0);
        oldest.map_or(UnitNumber::NEVER, |unit| self.window.expiry(unit))
    }

    fn keep(words: &mut [u8], kept: u32) {
        let kept = W::from_bits(kept).bits();
        for word in W::of(words) {
            *word = W::from_bits(word.bits() & kept);
        }
    }
}

/// Rule that first tests the words of an event, and then sets its bits if the event is new.
pub(crate) struct WordRule<'a, W> {
    pass: Pass<'a>,
    words: &'a Generations<W>,
    now: UnitNumber,
    stamp: Stamp,
    alive: u32,
    bit: u32,
    recorded: Recorded,
}

impl<W: Word> WordRule<'_, W> {
    #[inline(always)]
    fn look_from(&mut self, stamp: Stamp) {
        if stamp != self.stamp {
            self.stamp = stamp;
            self.alive = self.words.alive_for(stamp.judged, self.now);
            self.bit = Generations::<W>::bit(stamp.unit);
        }
    }

    #[inline(always)]
    fn set(&mut self, words: &mut [W], offsets: impl Offsets) {
        let bit = self.bit;
        offsets.for_each(|position| words[position] = W::from_bits(words[position].bits() | bit));
        self.recorded.events += 1;
    }
}

impl<W: Word> CellRule for WordRule<'_, W> {
    type Element = W;
    const CELL_BITS: u32 = W::BITS;

    #[inline(always)]
    fn touch(&mut self, index: usize, words: &mut [W], offsets: impl Offsets) -> bool {
        self.look_from(self.pass.stamps[index]);
        let mut held = self.alive;
        offsets.for_each(|position| held &= words[position].bits());
        let found = held != 0;
        if !found && self.pass.record == Recording::Everything {
            self.set(words, offsets);
        }
        found
    }
}

impl<W: Word> CellKind for Generations<W> {
    type Rule<'a>
        = WordRule<'a, W>
    where
        W: 'a;
    const SLACK_UNITS: u64 = 0;

    fn window(&self) -> &WindowRule {
        &self.window
    }

    fn rule<'a>(&'a self, pass: Pass<'a>, now: UnitNumber) -> WordRule<'a, W> {
        let stamp = Stamp::on_time(now);
        let alive = self.alive_for(now, now);
        let bit = Self::bit(now);
        WordRule { pass, words: self, now, stamp, alive, bit, recorded: Recorded::default() }
    }

    fn recorded(rule: &WordRule<'_, W>) -> Recorded {
        rule.recorded
    }

    /// Moves the words to a later unit. All dead bits must be cleared everywhere before one of them becomes the bit of
    /// the current generation.
    fn advance(&self, generation: &mut Generation, now: UnitNumber, next: UnitNumber) {
        let start = if next == now.after(1) { generation.swept_bytes } else { 0 };
        let kept = if next == now.after(1) { self.kept_at(now, now) } else { self.kept_at(next, now) };
        match kept {
            // If no generation is kept, as at the first event or after a long silence, the memory is cleared as a whole
            // instead of word by word.
            0 => generation.memory.clear(),
            kept => Self::keep(&mut generation.memory.bytes_mut()[start..], kept),
        }
        generation.swept_bytes = 0;
    }

    fn sweep(&self, generation: &mut Generation, now: UnitNumber, budget_bytes: usize) {
        let start = generation.swept_bytes;
        let bytes = generation.memory.bytes_mut();
        let end = start.saturating_add(budget_bytes.next_multiple_of(2)).min(bytes.len());
        Self::keep(&mut bytes[start..end], self.kept_at(now, now));
        generation.swept_bytes = end;
    }

    /// Returns the density of the words. A cell counts as a bit of a live generation. The false-positive rate is `1 -
    /// product over live generations of (1 - fill^k)`. In blocked layouts, the result is the mean over the blocks.
    fn density(&self, generation: &Generation, now: UnitNumber, bytes_max: usize) -> Density {
        let alive = self.alive_for(now, now);
        let exponent = generation.geometry.hashes() as i32;
        let width = W::BITS as usize / 8;
        density_of(generation, bytes_max, width, |bytes| {
            let mut set = [0u64; 16];
            for word in bytes.chunks_exact(width) {
                let word = read_word(word) & alive;
                for (generation, count) in set.iter_mut().enumerate() {
                    *count += u64::from(word >> generation & 1);
                }
            }
            let words = (bytes.len() / width) as f64;
            let cells = words * f64::from(alive.count_ones().max(1));
            let misses = set.iter().map(|count| 1.0 - (*count as f64 / words).powi(exponent));
            Density { fill: set.iter().sum::<u64>() as f64 / cells, rate: 1.0 - misses.product::<f64>() }
        })
    }

    fn sight(&self, generation: &Generation, positions: &[u64], stamp: Stamp, now: UnitNumber) -> (u16, UnitNumber) {
        let width = W::BITS as usize / 8;
        let bytes = generation.memory.bytes();
        let held = positions.iter().fold(self.alive_for(stamp.judged, now), |held, position| {
            let start = *position as usize * width;
            held & read_word(&bytes[start..start + width])
        });
        (held as u16, self.expiry_of(held, now))
    }

    fn set(&self, generation: &mut Generation, positions: &[u64], stamp: Stamp, _now: UnitNumber) -> Option<Recorded> {
        let bit = Self::bit(stamp.unit);
        let words = W::of(generation.memory.bytes_mut());
        positions.for_each(|position| words[position] = W::from_bits(words[position].bits() | bit));
        Some(Recorded::one(0))
    }

    fn merge(&self, cells: &mut [u8], others: &[u8], then: UnitNumber, now: UnitNumber) -> Option<u64> {
        let kept = self.kept_at(now, now);
        let kept_of_others = self.kept_at(now, then);
        let width = W::BITS as usize / 8;
        for (word, other) in W::of(cells).iter_mut().zip(others.chunks_exact(width)) {
            *word = W::from_bits(word.bits() & kept | read_word(other) & kept_of_others);
        }
        Some(0)
    }

    fn lacks(&self, cells: &[u8], others: &[u8], then: UnitNumber, now: UnitNumber) -> bool {
        let kept = self.kept_at(now, then);
        let width = W::BITS as usize / 8;
        let mut pairs = cells.chunks_exact(width).zip(others.chunks_exact(width));
        pairs.any(|(word, other)| read_word(other) & kept & !read_word(word) != 0)
    }

    fn age_max_units(&self) -> u64 {
        self.window.span_units
    }

    fn used(&self, _: &[u8]) -> u64 {
        0
    }
}

fn read_word(word: &[u8]) -> u32 {
    word.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks_hold_their_generations<W: Word>() {
        for last in (0..70_u64).chain([1 << 40]) {
            for first in last.saturating_sub(70)..last + 3 {
                let held =
                    (first..=last).fold(0, |mask, generation| mask | Generations::<W>::bit(UnitNumber(generation)));
                let mask = Generations::<W>::mask(UnitNumber(first), UnitNumber(last));
                assert_eq!(mask, held, "{first}..={last} in {} bits", W::BITS);
            }
        }
    }

    #[test]
    fn a_mask_has_the_bits_of_its_generations() {
        masks_hold_their_generations::<u8>();
        masks_hold_their_generations::<[u8; 2]>();
    }
}
