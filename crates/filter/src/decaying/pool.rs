//! The pool of extension counters.
//!
//! The memory of extensions that were never needed is never touched.
//!
//! This module does not depend on cells and chains.

use std::io;

use crate::body::{invalid, memory_bytes, read_u64, write_u64};
use crate::memory::CellMemory;

/// Number of bits of the counter in an extension.
pub(super) const DIGIT_BITS: u32 = 4;

const EXTENSION_BYTES: usize = 6;

/// Extension that holds one digit of a counter.
#[derive(Clone, Copy)]
pub(super) struct Extension {
    /// Number of the cell within its block of 64.
    pub(super) cell: u8,
    /// Value of the digit, below 16.
    pub(super) digit: u8,
    /// Number of the next extension in the chain or in the list of free extensions. 0 marks the end.
    pub(super) next: u32,
}

/// Pool of extensions, which are numbered from 1.
pub(super) struct Pool {
    memory: CellMemory,
    /// Number of extensions that were ever used. The memory after them is untouched.
    touched: u32,
    /// Number of the first extension in the list of returned extensions.
    free: u32,
    used: u32,
}

impl Pool {
    /// Number of bytes that [`Pool::write`] writes before the extensions.
    pub(super) const HEADER_BYTES: u64 = 16;

    pub(super) fn new(extensions: u32) -> io::Result<Self> {
        let memory = CellMemory::zeroed(memory_bytes(u64::from(extensions) * EXTENSION_BYTES as u64)?)?;
        Ok(Self { memory, touched: 0, free: 0, used: 0 })
    }

    fn slots(&self) -> &[[u8; EXTENSION_BYTES]] {
        self.memory.bytes().as_chunks().0
    }

    #[inline(always)]
    pub(super) fn get(&self, id: u32) -> Extension {
        let [cell, digit, next @ ..] = self.slots()[id as usize - 1];
        Extension { cell, digit, next: u32::from_le_bytes(next) }
    }

    #[inline(always)]
    pub(super) fn put(&mut self, id: u32, extension: Extension) {
        let slot = &mut self.memory.bytes_mut().as_chunks_mut::<EXTENSION_BYTES>().0[id as usize - 1];
        let [a, b, c, d] = extension.next.to_le_bytes();
        *slot = [extension.cell, extension.digit, a, b, c, d];
    }

    /// Stores `extension` and returns its number. Returns `None` if all extensions are in use.
    pub(super) fn take(&mut self, extension: Extension) -> Option<u32> {
        let id = if self.free != 0 {
            let id = self.free;
            self.free = self.get(id).next;
            id
        } else if (self.touched as usize) < self.slots().len() {
            self.touched += 1;
            self.touched
        } else {
            return None;
        };
        self.used += 1;
        self.put(id, extension);
        Some(id)
    }

    pub(super) fn give_back(&mut self, id: u32) {
        self.put(id, Extension { cell: 0, digit: 0, next: self.free });
        self.free = id;
        self.used -= 1;
    }

    pub(super) fn used(&self) -> u32 {
        self.used
    }

    pub(super) fn clear(&mut self) {
        self.memory.clear();
        self.touched = 0;
        self.free = 0;
        self.used = 0;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.memory.bytes().len() as u64
    }

    pub(super) fn touched_bytes(&self) -> u64 {
        u64::from(self.touched) * EXTENSION_BYTES as u64
    }

    pub(super) fn write(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        write_u64(sink, u64::from(self.touched))?;
        write_u64(sink, u64::from(self.free))?;
        sink.write_all(&self.memory.bytes()[..self.touched as usize * EXTENSION_BYTES])
    }

    /// Reads the extensions. The chains are not checked yet.
    pub(super) fn read(&mut self, source: &mut dyn io::Read) -> io::Result<()> {
        self.clear();
        let touched = read_u64(source)?;
        let free = read_u64(source)?;
        if touched > self.slots().len() as u64 || free > touched {
            return Err(invalid("more extensions than the pool has"));
        }
        self.touched = touched as u32;
        self.free = free as u32;
        source.read_exact(&mut self.memory.bytes_mut()[..touched as usize * EXTENSION_BYTES])?;
        if (1..=self.touched).any(|id| self.get(id).cell >= 64 || self.get(id).digit >> DIGIT_BITS != 0) {
            Err(invalid("an extension has an impossible cell or digit"))
        } else {
            Ok(())
        }
    }

    /// Returns an empty record of the extensions that a check has visited.
    pub(super) fn visits(&self) -> Visits {
        Visits { met: vec![0; (self.touched as usize).div_ceil(64)], touched: self.touched, count: 0 }
    }

    /// Visits the free extensions. Every extension that is not in a chain must be among them.
    pub(super) fn check_free(&mut self, mut visits: Visits) -> io::Result<()> {
        let in_chains = visits.count;
        let mut id = self.free;
        while id != 0 {
            visits.visit(id)?;
            id = self.get(id).next;
        }
        self.used = in_chains;
        if visits.count == self.touched { Ok(()) } else { Err(invalid("an extension is neither in a chain nor free")) }
    }
}

/// Record that allows each extension to be visited only once. It thereby detects a chain with a cycle, and two chains
/// that join.
pub(super) struct Visits {
    met: Vec<u64>,
    touched: u32,
    count: u32,
}

impl Visits {
    pub(super) fn visit(&mut self, id: u32) -> io::Result<()> {
        if id > self.touched {
            return Err(invalid("a chain leads out of the pool"));
        }
        let word = (id as usize - 1) / 64;
        let bit = 1 << ((id - 1) % 64);
        if self.met[word] & bit != 0 {
            return Err(invalid("an extension is in two places"));
        }
        self.met[word] |= bit;
        self.count += 1;
        Ok(())
    }
}
