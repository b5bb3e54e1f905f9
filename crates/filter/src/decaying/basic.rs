//! The counters of the basic storage: 16 bits each.
//!
//! After a call that sets a counter, the counter holds the requested value, or the call reports that the counter cannot
//! hold it.
//!
//! This module does not depend on rules for decay over more than one step.
//!
//! This module does not depend on decay rules beyond a single step.

use std::io;

use super::rule::Decay;
use crate::arch::prefetch_line;
use crate::body::memory_bytes;
use crate::memory::CellMemory;

/// Counters of 16 bits, in little-endian order.
pub(super) struct BasicCells(CellMemory);

impl BasicCells {
    pub(super) const MAX: u32 = u16::MAX as u32;

    pub(super) fn zeroed(cells: u64) -> io::Result<Self> {
        Ok(Self(CellMemory::zeroed(memory_bytes(cells * 2)?)?))
    }

    fn cells(&self) -> &[[u8; 2]] {
        self.0.bytes().as_chunks::<2>().0
    }

    fn cells_mut(&mut self) -> &mut [[u8; 2]] {
        self.0.bytes_mut().as_chunks_mut::<2>().0
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, index: usize) {
        prefetch_line(&self.0.bytes()[index * 2]);
    }

    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> u32 {
        u32::from(u16::from_le_bytes(self.cells()[index]))
    }

    /// Sets a counter to `parts`. Returns `false` if the counter cannot hold this value and now has a smaller one.
    #[inline(always)]
    pub(super) fn set(&mut self, index: usize, parts: u32) -> bool {
        self.cells_mut()[index] = (parts.min(Self::MAX) as u16).to_le_bytes();
        parts <= Self::MAX
    }

    /// Applies one step of decay to every counter. Returns whether any counter changed.
    pub(super) fn step(&mut self, decay: &Decay) -> bool {
        let mut changed = false;
        for cell in self.cells_mut() {
            let parts = u16::from_le_bytes(*cell);
            let decayed = decay.step(u32::from(parts)) as u16;
            changed |= decayed != parts;
            *cell = decayed.to_le_bytes();
        }
        changed
    }

    /// Returns the share of counters that are not zero. The value is estimated from the first `bytes_max` bytes, but at
    /// least one counter.
    pub(super) fn share_occupied(&self, bytes_max: usize) -> f64 {
        let cells = self.cells();
        let looked_at = &cells[..(bytes_max / 2).max(1).min(cells.len())];
        looked_at.iter().filter(|cell| **cell != [0; 2]).count() as f64 / looked_at.len() as f64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.bytes().len() as u64
    }

    pub(super) fn write(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        sink.write_all(self.0.bytes())
    }

    pub(super) fn read(&mut self, source: &mut dyn io::Read) -> io::Result<()> {
        source.read_exact(self.0.bytes_mut())
    }
}
