//! Saves the state of a [`CellSlice`] as bytes, and restores it. The bytes contain everything that determines the
//! slice's answers, except for the definition of the slice.
//!
//! A restored slice gives the same answers as the saved slice would have given from then on.
//!
//! This module does not depend on frames and checksums (see [`crate::snapshot`]).

use std::io::{self, Read, Write};

use crate::Geometry;
use crate::body::{invalid, read_u64, write_u64};
use crate::cell_kind::CellKind;
use crate::generation::{Generation, LiveEvents};
use crate::generation_number::GenerationNumber;
use crate::growth::GENERATIONS_MAX;
use crate::slice::CellSlice;
use crate::unit_number::UnitNumber;

/// Upper bound of all numbers in a valid state. The bound is far below the point where the sum of two numbers
/// overflows.
const COUNT_MAX: u64 = 1 << 62;

#[allow(private_bounds)]
impl<K: CellKind> CellSlice<K> {
    /// Writes the state of the slice.
    ///
    /// # Errors
    /// Returns the errors of `sink`.
    pub fn write_body(&self, sink: &mut dyn Write) -> io::Result<()> {
        write_u64(sink, self.now.0)?;
        write_u64(sink, self.oldest.0)?;
        write_u64(sink, self.stack.len() as u64)?;
        for generation in &self.stack {
            write_u64(sink, generation.geometry.cells())?;
            write_u64(sink, u64::from(generation.geometry.hashes()))?;
            write_u64(sink, generation.used_cells)?;
            write_u64(sink, generation.swept_bytes as u64)?;
            generation.live.write(sink)?;
            sink.write_all(generation.memory.bytes())?;
        }
        Ok(())
    }

    /// Replaces the state of the slice by a saved state of a slice with the same definition. After an error the slice
    /// is empty.
    ///
    /// # Errors
    /// Returns `InvalidData` if the bytes are not a valid state of such a slice, and the errors of `source`.
    pub fn read_body(&mut self, source: &mut dyn Read) -> io::Result<()> {
        // The first generation is read into the memory that the slice already has. Otherwise reading would need twice
        // the memory of the filter.
        let mut first = self.stack.drain(..).next();
        let read = self.read_state(source, &mut first);
        if read.is_err() {
            (self.now, self.oldest) = (UnitNumber::FIRST, GenerationNumber::FIRST);
            first = self.stack.drain(..).next().or(first);
            let mut empty = match first {
                Some(generation) if generation.geometry == self.base => generation,
                _ => Generation::new(self.base)?,
            };
            empty.clear();
            self.stack.push(empty);
        }
        read
    }

    fn read_state(&mut self, source: &mut dyn Read, first: &mut Option<Generation>) -> io::Result<()> {
        let now = UnitNumber(read_u64(source)?);
        let oldest = read_u64(source)?;
        let generations = read_u64(source)?;
        let most = self.growth.map_or(1, |growth| u64::from(growth.generations_max.min(GENERATIONS_MAX)));
        if !(1..=most).contains(&generations) || oldest > COUNT_MAX {
            return Err(invalid("more generations than the filter may have"));
        }
        if now > UnitNumber::LAST {
            return Err(invalid("a unit beyond the last valid one"));
        }
        for number in oldest..oldest + generations {
            let generation = self.read_generation(source, GenerationNumber(number), now, first)?;
            if generation.live.newest_unit() > Some(now) {
                return Err(invalid("live events later than the present unit"));
            }
            self.stack.push(generation);
        }
        (self.now, self.oldest) = (now, GenerationNumber(oldest));
        Ok(())
    }

    /// Reads generation `number` as it was at unit `now`.
    fn read_generation(
        &self,
        source: &mut dyn Read,
        number: GenerationNumber,
        now: UnitNumber,
        first: &mut Option<Generation>,
    ) -> io::Result<Generation> {
        let cells = read_u64(source)?;
        let hashes = read_u64(source)?;
        let expected = self.growth.map_or(Some(self.base), |growth| growth.geometry(&self.base, number));
        let expected = expected.ok_or_else(|| invalid("a generation larger than the maximum"))?;
        // The sizes follow from the definition, but through floating-point functions, whose results may be rounded
        // differently on other machines.
        let slack = if expected == self.base { 0 } else { expected.cells() / 1024 };
        if cells.abs_diff(expected.cells()) > slack || hashes != u64::from(expected.hashes()) {
            return Err(invalid("a generation of another size than the filter's"));
        }
        let geometry = Geometry::new(cells, expected.hashes(), expected.cell_bits(), expected.layout())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let mut generation = match first.take() {
            Some(generation) if generation.geometry == geometry => generation,
            _ => Generation::new(geometry)?,
        };
        generation.used_cells = read_u64(source)?;
        if generation.used_cells > cells {
            return Err(invalid("more used cells than there are cells"));
        }
        generation.swept_bytes = usize::try_from(read_u64(source)?).unwrap_or(usize::MAX);
        if generation.swept_bytes > generation.memory.bytes().len()
            || !generation.swept_bytes.is_multiple_of(K::SWEEP_BYTES)
        {
            return Err(invalid("a sweep beyond the end of the cells"));
        }
        let units_max = self.kind.window().span_units.saturating_add(self.kind.window().lateness_units);
        generation.live = LiveEvents::read(source, units_max.saturating_add(2))?;
        source.read_exact(generation.memory.bytes_mut())?;
        let cells = generation.memory.bytes();
        if !self.kind.can_hold(cells, now) {
            return Err(invalid("invalid cells, or cells that live on for longer than its window"));
        }
        if K::COUNTS_ALONE && self.kind.used(cells) != generation.used_cells {
            return Err(invalid("a number of used cells that differs from the cells"));
        }
        Ok(generation)
    }
}

impl LiveEvents {
    /// Writes the counts of live events.
    ///
    /// # Errors
    /// Returns the errors of `sink`.
    pub fn write(&self, sink: &mut dyn Write) -> io::Result<()> {
        write_u64(sink, self.newest_unit().map_or(0, |unit| unit.after(1).0))?;
        write_u64(sink, self.by_unit().len() as u64)?;
        self.by_unit().try_for_each(|(unit, events)| write_u64(sink, unit.0).and_then(|()| write_u64(sink, events)))
    }

    /// Reads counts that [`Self::write`] wrote. They may have at most `units_max` units.
    ///
    /// # Errors
    /// Returns `InvalidData` if the bytes are not valid counts, and the errors of `source`.
    pub fn read(source: &mut dyn Read, units_max: u64) -> io::Result<Self> {
        let newest_unit = read_u64(source)?.checked_sub(1).map(UnitNumber);
        let units = read_u64(source)?;
        if units > units_max {
            return Err(invalid("more units of live events than the window has"));
        }
        let mut live = Self::default();
        let mut previous = None;
        for _ in 0..units {
            let unit = UnitNumber(read_u64(source)?);
            let events = read_u64(source)?;
            if previous.is_some_and(|previous| unit <= previous) || events == 0 || newest_unit < Some(unit) {
                return Err(invalid("units of live events out of order"));
            }
            if live.total().checked_add(events).is_none_or(|total| total > COUNT_MAX) {
                return Err(invalid("too many live events"));
            }
            live.record(unit, events);
            previous = Some(unit);
        }
        Ok(live.with_newest_unit(newest_unit))
    }
}
