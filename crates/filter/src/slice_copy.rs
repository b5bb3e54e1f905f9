//! Splits a [`CellSlice`] into parts, and assembles a copy from parts. Copies on disks and on other nodes are made in
//! this way.
//!
//! - Parts can be taken one after the other while the slice continues to record events. A copy that receives these
//!   parts, and all events recorded since the first part, in the same order knows everything that the slice knows.
//! - A part that arrives twice changes nothing.
//! - A part from an untrusted source never makes a slice larger than its definition allows.
//!
//! This module does not depend on how parts travel between nodes.

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

/// Number of bytes of cells that are counted at a time.
const COUNT_BYTES: usize = 64 << 10;

/// Upper bound of all numbers in a valid part. The bound is far below the point where the sum of two numbers overflows.
const COUNT_MAX: u64 = 1 << 62;

/// State of a slice without its cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceOutline {
    /// Greatest unit of any event so far.
    pub unit: UnitNumber,
    /// Number of the oldest generation.
    pub oldest: GenerationNumber,
    /// Live events of each generation, oldest first.
    pub live: Vec<LiveEvents>,
}

/// Run of consecutive cells of one generation, as they were at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellRun {
    /// Number of the generation.
    pub generation: GenerationNumber,
    /// Unit of the slice when the run was taken. Cells have no meaning without this unit.
    pub unit: UnitNumber,
    /// Offset of the first byte in the memory of the generation.
    pub start_bytes: u64,
    /// Bytes of the cells.
    pub cells: Vec<u8>,
}

/// Reason why a part was not added. The slice is unchanged, except in the case of [`Self::Full`].
#[derive(Debug, Error)]
pub enum PartError {
    /// The part belongs to another slice, or arrives out of order.
    #[error("the part does not belong to this slice, or arrived out of order: {0}")]
    Misfit(&'static str),
    /// The slice is full. The events of the part for which there was room have been added.
    #[error("the slice has no room for all events of the part: wait until some have expired")]
    Full,
    /// The operating system does not provide the memory.
    #[error("no memory for another generation of cells: {0}")]
    Memory(#[from] io::Error),
}

#[allow(private_bounds)]
impl<K: CellKind> CellSlice<K> {
    /// Returns the state of the slice without its cells.
    pub fn outline(&self) -> SliceOutline {
        let live = self.stack.iter().map(|generation| generation.live.clone()).collect();
        SliceOutline { unit: self.now, oldest: self.oldest, live }
    }

    /// Applies the outline of another copy of this slice. The outline lists the generations of the other copy, and the
    /// numbers of live events in them. This slice moves its window forward to the unit of the outline. It drops old
    /// generations and opens new ones until it has the same generations as the other copy, and then merges the numbers
    /// of live events.
    ///
    /// # Errors
    /// Returns [`PartError`] if the outline does not fit.
    pub fn put_outline(&mut self, outline: &SliceOutline) -> Result<(), PartError> {
        let SliceOutline { unit, oldest, live } = outline;
        if !(1..=self.generations_max()).contains(&live.len()) || oldest.0 > COUNT_MAX || *unit > UnitNumber::LAST {
            return Err(PartError::Misfit("an invalid number of generations or unit"));
        }
        if live.iter().any(|live| live.newest_unit() > Some(*unit)) {
            return Err(PartError::Misfit("events later than the unit of the outline"));
        }
        self.advance(*unit);
        // Generations that the other copy has dropped are dropped in this slice as well.
        while self.oldest < *oldest && self.stack.len() > 1 {
            self.stack.remove(0);
            self.oldest = self.oldest.after(1);
        }
        if self.oldest < *oldest {
            if self.growth.is_some_and(|growth| !growth.keeps_shape()) {
                return Err(PartError::Misfit("generations that have grown in size"));
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

    /// Returns a run of cells of generation `number`, starting at byte `start_bytes`. The run has at most `bytes_max`
    /// bytes, but at least the smallest run that this kind allows. Returns `None` if the generation has no cells from
    /// this byte on.
    pub fn cell_run(&self, number: GenerationNumber, start_bytes: u64, bytes_max: usize) -> Option<CellRun> {
        let cells = self.stack[self.index_of(number)?].memory.bytes();
        let start = usize::try_from(start_bytes).ok().filter(|start| *start < cells.len())?;
        let runs = (bytes_max / K::RUN_BYTES).max(1);
        let end = start.saturating_add(runs.saturating_mul(K::RUN_BYTES)).min(cells.len());
        Some(CellRun { generation: number, unit: self.now, start_bytes, cells: cells[start..end].to_vec() })
    }

    /// Adds the live cells of `run`, a part of another copy's cells, to this slice. The clock of the other copy may be
    /// slightly behind the clock of this slice. If this slice has already dropped the generation of the run, the call
    /// has no effect, because all events of that generation have expired.
    ///
    /// # Errors
    /// Returns [`PartError`] if the run does not fit.
    pub fn put_cells(&mut self, run: &CellRun) -> Result<(), PartError> {
        self.catch_up(run)?;
        if run.generation < self.oldest {
            return Ok(());
        }
        self.open_up_to(run.generation)?;
        match self.place_of(run)? {
            Some((index, cells)) => self.merge_cells(index, cells, run),
            None => Err(PartError::Misfit("cells of a generation that is not open")),
        }
    }

    /// Returns whether `run` contains live cells that are missing in an open generation of this slice.
    ///
    /// # Errors
    /// Returns [`PartError`] if the run does not fit.
    pub fn lacks_cells(&mut self, run: &CellRun) -> Result<bool, PartError> {
        self.catch_up(run)?;
        let Some((index, cells)) = self.place_of(run)? else { return Ok(false) };
        Ok(self.kind.lacks(&self.stack[index].memory.bytes()[cells], &run.cells, run.unit, self.now))
    }

    /// Adds the live cells of `run` that are missing in this slice. Missing cells belong to events that another copy of
    /// the slice has recorded and this one has not. Returns whether any cells were missing.
    ///
    /// # Errors
    /// Returns [`PartError`] if the run does not fit.
    pub fn put_missing_cells(&mut self, run: &CellRun) -> Result<bool, PartError> {
        let lacks = self.lacks_cells(run)?;
        if let Some((index, cells)) = self.place_of(run)?.filter(|_| lacks) {
            let merged = self.merge_cells(index, cells, run);
            // The units of the added events are unknown, but none of them is after the present unit.
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
        // A generation without recorded events is never swept. Its cells would then stay until their units occur again.
        if generation.live.newest_unit().is_none() && run.cells.iter().any(|byte| *byte != 0) {
            generation.live.refresh(self.now);
        }
        used.map(|_| ()).ok_or(PartError::Full)
    }

    /// Advances the slice, so that it is not older than `run`.
    fn catch_up(&mut self, run: &CellRun) -> Result<(), PartError> {
        if run.unit.after(self.kind.age_max_units()) < self.now || run.unit > UnitNumber::LAST {
            return Err(PartError::Misfit("cells that are too old"));
        }
        self.advance(run.unit);
        Ok(())
    }

    /// Returns the index of the generation of `run` in this slice and the range of its bytes. Returns `None` if the
    /// generation is not open.
    fn place_of(&self, run: &CellRun) -> Result<Option<(usize, Range<usize>)>, PartError> {
        let Some(index) = self.index_of(run.generation) else { return Ok(None) };
        let start = usize::try_from(run.start_bytes).unwrap_or(usize::MAX);
        let end = start.saturating_add(run.cells.len());
        let len = self.stack[index].memory.bytes().len();
        let has_boundaries = [start, end].into_iter().all(|at| at.is_multiple_of(K::RUN_BYTES) || at == len);
        if end > len || !has_boundaries {
            Err(PartError::Misfit("cells beyond the end"))
        } else if !self.kind.can_hold(&run.cells, run.unit) {
            Err(PartError::Misfit("invalid cells, or cells that live on for longer than its window"))
        } else {
            Ok(Some((index, start..end)))
        }
    }

    /// Records an event in generation `number`. If that generation is newer than all generations of the slice, the call
    /// opens it. The call has no effect if the slice has already dropped the generation. The call has no effect either
    /// if the event expired so long ago that no lookup can match it, even a lookup that is late.
    ///
    /// # Errors
    /// Returns [`PartError`] if the event does not fit.
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

    /// Counts the used cells again. Call this method after all parts have been added.
    pub fn recount(&mut self) {
        let nothing = vec![0; COUNT_BYTES.next_multiple_of(K::RUN_BYTES)];
        for generation in &mut self.stack {
            generation.used_cells = 0;
            for run in generation.memory.bytes_mut().chunks_mut(nothing.len()) {
                generation.used_cells += self.kind.merge(run, &nothing, self.now, self.now).unwrap_or(0);
            }
        }
    }

    /// Returns the maximum number of generations that a copied slice may have at once. The limit by which the filter
    /// itself grows does not apply to copies. A copy may exceed that limit, because it may keep a generation that other
    /// slices have already dropped.
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
    /// Writes the positions of the event with index `index` in a slice of this shape to `positions`.
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

    /// Adds the event with index `index` of `other`, which must have the shape of this batch.
    pub fn push_from(&mut self, other: &Self, index: usize) {
        debug_assert_eq!(self.shape(), other.shape(), "both lists of positions must have the same shape");
        match other.block(index) {
            Some(probe) => drop(self.push_block(probe)),
            None => drop(self.push_positions(other.positions(index))),
        }
    }
}

#[cfg(test)]
mod tests;
