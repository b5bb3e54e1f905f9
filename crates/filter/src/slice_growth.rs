//! How a slice opens generations when it is full, and drops those in which nothing is alive.
//!
//! Promises: no generation gets more than [`Growth`] gives it room for. Must not know: what a generation's cells are.

use std::io;

use crate::cell_kind::CellKind;
use crate::generation::Generation;
use crate::generation_number::GenerationNumber;
use crate::growth::{GENERATIONS_MAX, Growth};
use crate::slice::CellSlice;
use crate::unit_number::UnitNumber;

#[allow(private_bounds)]
impl<K: CellKind> CellSlice<K> {
    /// Events that may be recorded before the newest generation is full; opens another one first where it is. 0 where
    /// it may not grow any more.
    pub(crate) fn make_room(&mut self) -> u64 {
        let Some(growth) = self.growth else { return u64::MAX };
        let room = self.room_in_newest(&growth);
        if room > 0 {
            return room;
        }
        let limit = growth.generations_max.min(GENERATIONS_MAX) as usize;
        if self.stack.len() >= limit {
            return 0;
        }
        match self.open_generation() {
            Ok(()) => self.room_in_newest(&growth),
            // A lack of memory is as good a reason to refuse as a limit.
            Err(_) => 0,
        }
    }

    /// Events that may be recorded before the slice is full, in the newest generation and in those that it may still open.
    pub(crate) fn room_ahead(&mut self) -> u64 {
        let room = self.make_room();
        let number = self.newest_generation();
        let Some(growth) = self.growth else { return room };
        let left = u64::from(growth.generations_max.min(GENERATIONS_MAX)).saturating_sub(self.stack.len() as u64);
        let capacities = (1..=left).map(|ahead| growth.capacity_of(number.after(ahead)));
        capacities.fold(room, u64::saturating_add)
    }

    /// Opens an empty generation, which takes new events from now on. Batches do so by themselves; slices that share
    /// events and are asked by position must all open one together.
    ///
    /// # Errors
    /// Where the system refuses the memory.
    pub fn open_generation(&mut self) -> io::Result<()> {
        let number = self.newest_generation().after(1);
        let geometry = self.growth.map_or(Some(self.base), |growth| growth.geometry(&self.base, number));
        self.stack.push(Generation::new(geometry.ok_or(io::ErrorKind::OutOfMemory)?)?);
        Ok(())
    }

    /// Takes the newest generation back, unless it is the only one: for the case that another slice could not open its
    /// own.
    pub fn close_generation(&mut self) {
        if self.stack.len() > 1 {
            self.stack.pop();
        }
    }

    /// The number of the newest generation since the slice was made.
    pub fn newest_generation(&self) -> GenerationNumber {
        self.oldest.after(self.stack.len() as u64).before(1)
    }

    pub(crate) fn room_in_newest(&self, growth: &Growth) -> u64 {
        let Some(newest) = self.stack.last() else { return 0 };
        growth.room(self.newest_generation(), &newest.geometry, &newest.live, self.now, newest.used_cells)
    }

    /// Drops every generation but the newest in which nothing is alive any more.
    pub(crate) fn drop_emptied(&mut self) {
        let dropped = self.emptied_at(self.now);
        self.stack.drain(..dropped);
        self.oldest = self.oldest.after(dropped as u64);
    }

    /// Units after which no lookup finds a recorded event: the window, the lateness, and the slack of batches.
    pub fn kept_units(&self) -> u64 {
        let window = self.kind.window();
        window.span_units.saturating_add(window.lateness_units).saturating_add(K::SLACK_UNITS)
    }

    /// How many of the oldest generations, but for the newest, hold nothing that an event walked from unit `now` on can
    /// find.
    pub(crate) fn emptied_at(&self, now: UnitNumber) -> usize {
        let kept_units = self.kept_units();
        let emptied =
            |generation: &Generation| generation.live.newest_unit().is_none_or(|unit| unit.after(kept_units) <= now);
        let older = &self.stack[..self.stack.len().saturating_sub(1)];
        older.iter().take_while(|generation| emptied(generation)).count()
    }
}
