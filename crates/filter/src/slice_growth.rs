//! Opens generations when a slice is full, and drops generations in which no event is alive.
//!
//! A generation never receives more events than [`Growth`] allows.
//!
//! This module does not depend on the content of cells.

use std::io;

use crate::cell_kind::CellKind;
use crate::generation::Generation;
use crate::generation_number::GenerationNumber;
use crate::growth::{GENERATIONS_MAX, Growth};
use crate::slice::CellSlice;
use crate::unit_number::UnitNumber;

#[allow(private_bounds)]
impl<K: CellKind> CellSlice<K> {
    /// Returns the number of events that can be recorded before the newest generation is full. If that generation is
    /// full already, the call first opens another one. Returns 0 if the slice cannot grow any more.
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
            // If the system has too little memory, the slice rejects new events as it does at its limit.
            Err(_) => 0,
        }
    }

    /// Returns the number of events that can be recorded before the slice is full. The number includes the room in
    /// generations that may still open.
    pub(crate) fn room_ahead(&mut self) -> u64 {
        let room = self.make_room();
        let number = self.newest_generation();
        let Some(growth) = self.growth else { return room };
        let left = u64::from(growth.generations_max.min(GENERATIONS_MAX)).saturating_sub(self.stack.len() as u64);
        let capacities = (1..=left).map(|ahead| growth.capacity_of(number.after(ahead)));
        capacities.fold(room, u64::saturating_add)
    }

    /// Opens an empty generation, which receives all new events from now on. Batches open generations when they are
    /// needed. If slices share their events and are queried by positions, the caller must open a generation in all of
    /// them at the same time.
    ///
    /// # Errors
    /// Returns an error if the operating system does not provide the memory.
    pub fn open_generation(&mut self) -> io::Result<()> {
        let number = self.newest_generation().after(1);
        let geometry = self.growth.map_or(Some(self.base), |growth| growth.geometry(&self.base, number));
        self.stack.push(Generation::new(geometry.ok_or(io::ErrorKind::OutOfMemory)?)?);
        Ok(())
    }

    /// Removes the newest generation again, unless it is the only one. The caller uses this if another slice could not
    /// open its generation.
    pub fn close_generation(&mut self) {
        if self.stack.len() > 1 {
            self.stack.pop();
        }
    }

    /// Returns the number of the newest generation, counted from the creation of the slice.
    pub fn newest_generation(&self) -> GenerationNumber {
        self.oldest.after(self.stack.len() as u64).before(1)
    }

    pub(crate) fn room_in_newest(&self, growth: &Growth) -> u64 {
        let Some(newest) = self.stack.last() else { return 0 };
        growth.room(self.newest_generation(), &newest.geometry, &newest.live, self.now, newest.used_cells)
    }

    /// Drops every generation in which no event is alive, except the newest one.
    pub(crate) fn drop_emptied(&mut self) {
        let dropped = self.emptied_at(self.now);
        self.stack.drain(..dropped);
        self.oldest = self.oldest.after(dropped as u64);
    }

    /// Returns the number of units after which no lookup finds a recorded event: the window, the lateness, and the
    /// slack of batches.
    pub fn kept_units(&self) -> u64 {
        let window = self.kind.window();
        window.span_units.saturating_add(window.lateness_units).saturating_add(K::SLACK_UNITS)
    }

    /// Returns how many of the oldest generations hold no event that a lookup from unit `now` on can find. The newest
    /// generation is never counted.
    pub(crate) fn emptied_at(&self, now: UnitNumber) -> usize {
        let kept_units = self.kept_units();
        let emptied =
            |generation: &Generation| generation.live.newest_unit().is_none_or(|unit| unit.after(kept_units) <= now);
        let older = &self.stack[..self.stack.len().saturating_sub(1)];
        older.iter().take_while(|generation| emptied(generation)).count()
    }
}
