//! A [`CellSlice`] in parts: what a copy of it on a disk or another node is made of, and made from.
//!
//! Promises: parts taken one after the other, while the slice goes on, and everything set since the first of them, put in
//! in the same order, give a slice that knows all that this one knows; parts that come twice change nothing. No part
//! that comes from outside makes a slice larger than its definition lets it be. Must not know: how parts travel.

use std::io;
use std::ops::Range;

use thiserror::Error;

use crate::cell_kind::CellKind;
use crate::generation::LiveEvents;
use crate::generation_number::GenerationNumber;
use crate::growth::GENERATIONS_MAX;
use crate::slice::CellSlice;
use crate::unit_number::UnitNumber;
use crate::{ProbeShape, Probes, Stamp};

/// Cells that are counted at once.
const COUNT_BYTES: usize = 64 << 10;

/// A bound above every number that a slice comes to, and far from where sums of two overflow.
const COUNT_MAX: u64 = 1 << 62;

/// The state of a slice beside its cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceOutline {
    /// The greatest unit that it has seen.
    pub unit: UnitNumber,
    /// The number of its oldest generation.
    pub oldest: GenerationNumber,
    /// Events alive in each of its generations, the oldest first.
    pub live: Vec<LiveEvents>,
}

/// A run of cells of one generation as they were at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellRun {
    /// The number of the generation.
    pub generation: GenerationNumber,
    /// The unit of the slice then: cells mean nothing without it.
    pub unit: UnitNumber,
    /// The first byte of the generation's memory.
    pub start_bytes: u64,
    /// The bytes.
    pub cells: Vec<u8>,
}

/// Why a part is not put in; the slice is as it was.
#[derive(Debug, Error)]
pub enum PartError {
    /// The part belongs to another slice, or comes out of order.
    #[error("no part of this slice, or out of order: {0}")]
    Misfit(&'static str),
    /// The slice holds as many events as it can: those of the part that found room are in.
    #[error("the slice has no room for all events of the part: wait until some have expired")]
    Full,
    /// The system refuses the memory.
    #[error("no memory for another generation of cells: {0}")]
    Memory(#[from] io::Error),
}

#[allow(private_bounds)]
impl<K: CellKind> CellSlice<K> {
    /// The slice's state beside its cells.
    pub fn outline(&self) -> SliceOutline {
        let live = self.stack.iter().map(|generation| generation.live.clone()).collect();
        SliceOutline { unit: self.now, oldest: self.oldest, live }
    }

    /// Takes up the outline of a slice of the same definition.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn put_outline(&mut self, outline: &SliceOutline) -> Result<(), PartError> {
        let SliceOutline { unit, oldest, live } = outline;
        if !(1..=self.generations_max()).contains(&live.len()) || oldest.0 > COUNT_MAX || *unit > UnitNumber::LAST {
            return Err(PartError::Misfit("generations"));
        }
        if live.iter().any(|live| live.newest_unit() > Some(*unit)) {
            return Err(PartError::Misfit("events of a time to come"));
        }
        self.advance(*unit);
        // Generations that are gone there go here, too.
        while self.oldest < *oldest && self.stack.len() > 1 {
            self.stack.remove(0);
            self.oldest = self.oldest.after(1);
        }
        if self.oldest < *oldest {
            if self.growth.is_some_and(|growth| !growth.keeps_shape()) {
                return Err(PartError::Misfit("generations that have grown"));
            }
            self.stack[0].clear();
            self.oldest = *oldest;
        }
        let newest = oldest.after(live.len() as u64).before(1);
        self.open_up_to(newest)?;
        for (number, live) in (oldest.0..).zip(live) {
            if let Some(index) = self.index_of(GenerationNumber(number)) {
                let mine = &mut self.stack[index].live;
                mine.merge(live);
                mine.advance(&self.kind.counted(), self.now);
            }
        }
        Ok(())
    }

    /// The cells of generation `number` from byte `start_bytes` on, `bytes_max` bytes at most, or one run of the kind
    /// where that is more; none where the generation has no more.
    pub fn cell_run(&self, number: GenerationNumber, start_bytes: u64, bytes_max: usize) -> Option<CellRun> {
        let cells = self.stack[self.index_of(number)?].memory.bytes();
        let start = usize::try_from(start_bytes).ok().filter(|start| *start < cells.len())?;
        let runs = (bytes_max / K::RUN_BYTES).max(1);
        let end = start.saturating_add(runs.saturating_mul(K::RUN_BYTES)).min(cells.len());
        Some(CellRun { generation: number, unit: self.now, start_bytes, cells: cells[start..end].to_vec() })
    }

    /// Adds the live cells of `run`, which may be a little older than the slice. A run of a generation that is gone
    /// here adds nothing.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn put_cells(&mut self, run: &CellRun) -> Result<(), PartError> {
        self.catch_up(run)?;
        if run.generation < self.oldest {
            return Ok(());
        }
        self.open_up_to(run.generation)?;
        match self.place_of(run)? {
            Some((index, cells)) => self.merge_cells(index, cells, run),
            None => Err(PartError::Misfit("cells of a generation that cannot be open")),
        }
    }

    /// Whether live cells of `run` are missing in a generation that is open here.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn lacks_cells(&mut self, run: &CellRun) -> Result<bool, PartError> {
        self.catch_up(run)?;
        let Some((index, cells)) = self.place_of(run)? else { return Ok(false) };
        Ok(self.kind.lacks(&self.stack[index].memory.bytes()[cells], &run.cells, run.unit, self.now))
    }

    /// Adds the cells that [`Self::lacks_cells`] has found, of events that the slice does not know; returns whether
    /// there were any.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn put_missing_cells(&mut self, run: &CellRun) -> Result<bool, PartError> {
        let lacks = self.lacks_cells(run)?;
        if let Some((index, cells)) = self.place_of(run)?.filter(|_| lacks) {
            let merged = self.merge_cells(index, cells, run);
            // Their unit is not known, but it is none after this one.
            self.stack[index].live.refresh(self.now);
            merged?;
        }
        Ok(lacks)
    }

    fn merge_cells(&mut self, index: usize, cells: Range<usize>, run: &CellRun) -> Result<(), PartError> {
        let generation = &mut self.stack[index];
        let cells = &mut generation.memory.bytes_mut()[cells];
        let used_before = self.kind.used(cells);
        let used = self.kind.merge(cells, &run.cells, run.unit, self.now);
        let used_now = used.unwrap_or_else(|| self.kind.used(cells));
        generation.used_cells = (generation.used_cells + used_now).saturating_sub(used_before);
        // Where nothing was recorded nothing is swept, and cells would stay until their units come round again.
        if generation.live.newest_unit().is_none() && run.cells.iter().any(|byte| *byte != 0) {
            generation.live.refresh(self.now);
        }
        used.map(|_| ()).ok_or(PartError::Full)
    }

    /// The slice is not older than `run` from now on.
    fn catch_up(&mut self, run: &CellRun) -> Result<(), PartError> {
        if run.unit.after(self.kind.age_max_units()) < self.now || run.unit > UnitNumber::LAST {
            return Err(PartError::Misfit("cells of a time that is over"));
        }
        self.advance(run.unit);
        Ok(())
    }

    /// The generation of `run` and its bytes there; none where the generation is not open.
    fn place_of(&self, run: &CellRun) -> Result<Option<(usize, Range<usize>)>, PartError> {
        let Some(index) = self.index_of(run.generation) else { return Ok(None) };
        let start = usize::try_from(run.start_bytes).unwrap_or(usize::MAX);
        let end = start.saturating_add(run.cells.len());
        let len = self.stack[index].memory.bytes().len();
        let has_boundaries = [start, end].into_iter().all(|at| at.is_multiple_of(K::RUN_BYTES) || at == len);
        if end > len || !has_boundaries {
            Err(PartError::Misfit("cells beyond the end"))
        } else if !self.kind.can_hold(&run.cells, run.unit) {
            Err(PartError::Misfit("cells that no filter writes, or that live on for longer than its window"))
        } else {
            Ok(Some((index, start..end)))
        }
    }

    /// Records an event in generation `number`, which opens where it is newer than all; does nothing where the
    /// generation is gone, or the event has expired for every lookup that may still come.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn put_event(&mut self, number: GenerationNumber, positions: &[u64], stamp: Stamp) -> Result<(), PartError> {
        let range = self.base.positions();
        if stamp.unit > UnitNumber::LAST || positions.iter().any(|position| *position >= range) {
            return Err(PartError::Misfit("an event of another slice"));
        }
        self.advance(stamp.unit);
        self.open_up_to(number)?;
        let rule = self.kind.window();
        let is_over = rule.expiry(stamp.unit).after(rule.lateness_units) <= self.now;
        if self.index_of(number).is_some() && !is_over && !self.set_generation(number, positions, stamp) {
            return Err(PartError::Full);
        }
        Ok(())
    }

    /// Counts the cells in use anew, when all parts are in.
    pub fn recount(&mut self) {
        let nothing = vec![0; COUNT_BYTES.next_multiple_of(K::RUN_BYTES)];
        for generation in &mut self.stack {
            generation.used_cells = 0;
            for run in generation.memory.bytes_mut().chunks_mut(nothing.len()) {
                generation.used_cells += self.kind.merge(run, &nothing, self.now, self.now).unwrap_or(0);
            }
        }
    }

    /// The most generations that there may be at a time, for a slice that shares events: it may hold a generation for
    /// longer than others do.
    fn generations_max(&self) -> usize {
        self.growth.map_or(1, |_| GENERATIONS_MAX as usize)
    }

    fn open_up_to(&mut self, number: GenerationNumber) -> Result<(), PartError> {
        let most = self.generations_max();
        while self.newest_generation() < number {
            if self.stack.len() >= most {
                return Err(PartError::Misfit("more generations than the filter may have"));
            }
            self.open_generation()?;
        }
        Ok(())
    }
}

impl Probes {
    /// Writes the positions of event `index` in a slice of this shape to `positions`.
    pub fn unpack(&self, index: usize, positions: &mut Vec<u64>) {
        positions.clear();
        match (self.shape(), self.block(index)) {
            (ProbeShape::Blocked { offset_bits, hashes, .. }, Some(probe)) => {
                let base = probe.block << offset_bits;
                probe.for_each_offset(offset_bits, hashes, |offset| positions.push(base + offset as u64));
            }
            _ => positions.extend_from_slice(self.positions(index)),
        }
    }

    /// Adds event `index` of `other`, whose shape must be that of this batch.
    pub fn push_from(&mut self, other: &Self, index: usize) {
        debug_assert_eq!(self.shape(), other.shape(), "positions of one shape");
        match other.block(index) {
            Some(probe) => drop(self.push_block(probe)),
            None => drop(self.push_positions(other.positions(index))),
        }
    }
}

#[cfg(test)]
mod tests;
