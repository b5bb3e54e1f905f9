//! Small counters that grow by extensions from a common pool (Cheng et al., section 4).
//!
//! A counter is a number whose digits are stored in several places. The lowest digit is stored in the cell of the
//! counter. Each extension holds one further digit of 4 bits.
//!
//! The extensions of 64 neighbouring cells form one chain, and a lookup table points to the chain of every 64 cells. In
//! a chain, the lower digits of a cell come before its higher digits.
//!
//! Chains are shared by 64 cells to save memory. A separate chain for each cell would need a hash table with 32 bits
//! for every extended cell, whereas the table of shared chains needs half a bit per cell. The shared chains are still
//! short as long as few cells are extended.
//!
//! After a call that sets a counter, the counter holds the requested value, or the call reports that the counter cannot
//! hold it. Extensions whose digits have become zero return to the pool.
//!
//! This module does not depend on epochs.

use std::io;

use super::pool::{DIGIT_BITS, Extension, Pool};
use super::rule::Decay;
use crate::arch::prefetch_line;
use crate::body::{invalid, memory_bytes};
use crate::memory::CellMemory;
use crate::packed::PackedCells;

const BLOCK_CELLS: usize = 64;
const DIGIT_MAX: u32 = (1 << DIGIT_BITS) - 1;

/// Counters of 4 or 8 bits with extensions, up to 32 bits in total.
pub(super) struct ExtendedCells {
    base: PackedCells,
    cells: u64,
    /// Number of the first extension in the chain of each block of 64 cells, or 0 if the block has no extensions. The
    /// numbers are little-endian.
    table: CellMemory,
    pool: Pool,
}

impl ExtendedCells {
    pub(super) const MAX: u32 = u32::MAX;
    /// Number of bytes that [`Self::write`] writes in addition to the bytes in use.
    pub(super) const HEADER_BYTES: u64 = Pool::HEADER_BYTES;

    pub(super) fn zeroed(cells: u64, base_bits: u32, extensions: u32) -> io::Result<Self> {
        Ok(Self {
            base: PackedCells::zeroed(cells, base_bits)?,
            cells,
            table: CellMemory::zeroed(memory_bytes(cells.div_ceil(BLOCK_CELLS as u64) * 4)?)?,
            pool: Pool::new(extensions)?,
        })
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, index: usize) {
        self.base.prefetch(index);
        prefetch_line(&self.table.bytes()[index / BLOCK_CELLS * 4]);
    }

    fn chain(&self, block: usize) -> u32 {
        u32::from_le_bytes(self.table.bytes().as_chunks::<4>().0[block])
    }

    fn set_chain(&mut self, block: usize, id: u32) {
        self.table.bytes_mut().as_chunks_mut::<4>().0[block] = id.to_le_bytes();
    }

    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> u32 {
        let block = index / BLOCK_CELLS;
        let cell = (index % BLOCK_CELLS) as u8;
        let mut parts = u32::from(self.base.get(index));
        let mut shift = self.base.bits();
        let mut id = self.chain(block);
        while id != 0 {
            let extension = self.pool.get(id);
            if extension.cell == cell {
                parts |= u32::from(extension.digit) << shift;
                shift += DIGIT_BITS;
            }
            id = extension.next;
        }
        parts
    }

    /// Raises a counter to `parts`, which must be at least its present value. If the pool has no free extension, the
    /// counter gets the greatest value that its digits can hold, and the method returns `false`.
    pub(super) fn set(&mut self, index: usize, parts: u32) -> bool {
        let block = index / BLOCK_CELLS;
        let cell = (index % BLOCK_CELLS) as u8;
        let mut rest = parts >> self.base.bits();
        self.base.set(index, parts as u8 & self.base.max());
        let mut id = self.chain(block);
        let mut last = 0;
        while id != 0 {
            let mut extension = self.pool.get(id);
            if extension.cell == cell {
                extension.digit = (rest & DIGIT_MAX) as u8;
                rest >>= DIGIT_BITS;
                self.pool.put(id, extension);
            }
            last = id;
            id = extension.next;
        }
        while rest != 0 {
            let digit = (rest & DIGIT_MAX) as u8;
            let Some(fresh) = self.pool.take(Extension { cell, digit, next: 0 }) else {
                self.saturate(index);
                return false;
            };
            self.link(block, last, fresh);
            last = fresh;
            rest >>= DIGIT_BITS;
        }
        true
    }

    /// Inserts `id` after `last` in the chain of `block`, or at the start of the chain if `last` is 0.
    fn link(&mut self, block: usize, last: u32, id: u32) {
        if last == 0 {
            self.set_chain(block, id);
        } else {
            let before = self.pool.get(last);
            self.pool.put(last, Extension { next: id, ..before });
        }
    }

    /// Sets all digits of the counter to their greatest value.
    fn saturate(&mut self, index: usize) {
        self.base.set(index, self.base.max());
        let mut id = self.chain(index / BLOCK_CELLS);
        while id != 0 {
            let extension = self.pool.get(id);
            if usize::from(extension.cell) == index % BLOCK_CELLS {
                self.pool.put(id, Extension { digit: DIGIT_MAX as u8, ..extension });
            }
            id = extension.next;
        }
    }

    /// Applies one step of decay to every counter. Returns whether any counter changed.
    pub(super) fn step(&mut self, decay: &Decay) -> bool {
        let table = self.base_steps(decay);
        let block_bytes = BLOCK_CELLS * self.base.bits() as usize / 8;
        let mut changed = false;
        for block in 0..self.table.bytes().len() / 4 {
            if self.chain(block) != 0 {
                changed |= self.step_chained(block, decay);
                continue;
            }
            for byte in &mut self.base.bytes_mut()[block * block_bytes..(block + 1) * block_bytes] {
                let decayed = table[usize::from(*byte)];
                changed |= decayed != *byte;
                *byte = decayed;
            }
        }
        changed
    }

    /// Returns a table with the result of one step of decay for each byte of cells without extensions. A byte contains
    /// one or two cells.
    fn base_steps(&self, decay: &Decay) -> [u8; 256] {
        std::array::from_fn(|byte| match self.base.bits() {
            4 => (decay.step(byte as u32 & 15) | decay.step(byte as u32 >> 4) << 4) as u8,
            _ => decay.step(byte as u32) as u8,
        })
    }

    fn step_chained(&mut self, block: usize, decay: &Decay) -> bool {
        let first = block * BLOCK_CELLS;
        let mut parts: [u32; BLOCK_CELLS] = std::array::from_fn(|cell| u32::from(self.base.get(first + cell)));
        let mut shifts = [self.base.bits(); BLOCK_CELLS];
        let mut id = self.chain(block);
        while id != 0 {
            let extension = self.pool.get(id);
            let cell = usize::from(extension.cell);
            parts[cell] |= u32::from(extension.digit) << shifts[cell];
            shifts[cell] += DIGIT_BITS;
            id = extension.next;
        }
        let mut changed = false;
        for (cell, parts) in parts.iter_mut().enumerate() {
            let decayed = decay.step(*parts);
            changed |= decayed != *parts;
            self.base.set(first + cell, decayed as u8 & self.base.max());
            *parts = decayed >> self.base.bits();
        }
        self.put_digits(block, parts);
        changed
    }

    /// Writes the digits above the base to the extensions, and returns the extensions above the highest digit to the
    /// pool.
    fn put_digits(&mut self, block: usize, mut rest: [u32; BLOCK_CELLS]) {
        let mut id = self.chain(block);
        let mut last = 0;
        while id != 0 {
            let mut extension = self.pool.get(id);
            let next = extension.next;
            let rest = &mut rest[usize::from(extension.cell)];
            if *rest == 0 {
                self.link(block, last, next);
                self.pool.give_back(id);
            } else {
                extension.digit = (*rest & DIGIT_MAX) as u8;
                *rest >>= DIGIT_BITS;
                self.pool.put(id, extension);
                last = id;
            }
            id = next;
        }
    }

    /// Returns the share of counters that are not zero. The value is estimated from a sample of the first `bytes_max`
    /// bytes of the base cells, but of at least one block of counters.
    pub(super) fn share_occupied(&self, bytes_max: usize) -> f64 {
        let block_bytes = BLOCK_CELLS * self.base.bits() as usize / 8;
        let blocks = (bytes_max / block_bytes).max(1).min(self.table.bytes().len() / 4);
        let extended: u64 = (0..blocks).map(|block| self.occupied_above_base(block)).sum();
        let cells = self.cells.min((blocks * BLOCK_CELLS) as u64);
        (self.base.occupied_in(blocks * block_bytes) + extended) as f64 / cells as f64
    }

    /// Returns the number of cells in the block whose base digit is zero while an extension is not.
    fn occupied_above_base(&self, block: usize) -> u64 {
        let mut counted = 0_u64;
        let mut id = self.chain(block);
        while id != 0 {
            let extension = self.pool.get(id);
            if self.base.get(block * BLOCK_CELLS + usize::from(extension.cell)) == 0 {
                counted |= 1 << extension.cell;
            }
            id = extension.next;
        }
        u64::from(counted.count_ones())
    }

    pub(super) fn extensions_used(&self) -> u32 {
        self.pool.used()
    }

    /// Returns the size in bytes of the base, the table and all extensions, whether or not they are in use.
    pub(super) fn bytes(&self) -> u64 {
        self.base.bytes().len() as u64 + self.table.bytes().len() as u64 + self.pool.bytes()
    }

    /// Returns the size in bytes of the base, the table and the extensions that were ever used. The operating system
    /// must provide this memory.
    pub(super) fn touched_bytes(&self) -> u64 {
        self.base.bytes().len() as u64 + self.table.bytes().len() as u64 + self.pool.touched_bytes()
    }

    pub(super) fn write(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        self.base.write(sink)?;
        sink.write_all(self.table.bytes())?;
        self.pool.write(sink)
    }

    pub(super) fn read(&mut self, source: &mut dyn io::Read) -> io::Result<()> {
        self.base.read(source)?;
        source.read_exact(self.table.bytes_mut())?;
        self.pool.read(source)?;
        self.check_chains()
    }

    /// Checks that all chains are valid. Every extension that was ever used must either be in exactly one chain, or be
    /// free exactly once. An extension in a chain must belong to an existing cell, and all digits of a cell together
    /// must fit into 32 bits.
    fn check_chains(&mut self) -> io::Result<()> {
        let mut visits = self.pool.visits();
        let digits_max = (u32::BITS - self.base.bits()) / DIGIT_BITS;
        for block in 0..self.table.bytes().len() / 4 {
            let mut digits = [0; BLOCK_CELLS];
            let mut id = self.chain(block);
            while id != 0 {
                visits.visit(id)?;
                let extension = self.pool.get(id);
                let cell = usize::from(extension.cell);
                if (block * BLOCK_CELLS + cell) as u64 >= self.cells {
                    return Err(invalid("an extension belongs to a cell past the last one"));
                }
                digits[cell] += 1;
                if digits[cell] > digits_max {
                    return Err(invalid("a counter has more digits than fit 32 bits"));
                }
                id = extension.next;
            }
        }
        self.pool.check_free(visits)
    }
}
