//! The memory that holds cells.
//!
//! The memory of a filter is zeroed and aligned to cache lines. The operating system provides its pages as they are
//! first touched, and uses huge pages if it supports them. Huge pages matter for speed: without them, random access to
//! a filter of 100 MB misses the address cache (TLB) at every cell.
//!
//! This module does not depend on the meaning of a cell.

use memmap2::{Advice, MmapMut};

use crate::arch::LINE_BYTES;

/// Zeroed array of bytes that is aligned to cache lines.
pub(crate) struct CellMemory {
    map: MmapMut,
    len_bytes: usize,
}

impl CellMemory {
    /// Reserves `len_bytes` bytes. Returns an error if the operating system does not provide the address space.
    pub(crate) fn zeroed(len_bytes: usize) -> std::io::Result<Self> {
        let map = MmapMut::map_anon(len_bytes.next_multiple_of(LINE_BYTES).max(LINE_BYTES))?;
        // Huge pages are a hint. Without them the filter works, but more slowly.
        #[cfg(target_os = "linux")]
        let _ = map.advise(Advice::HugePage);
        Ok(Self { map, len_bytes })
    }

    /// Sets every byte to zero. The memory is returned to the operating system, which provides it again page by page.
    pub(crate) fn clear(&mut self) {
        match Self::zeroed(self.len_bytes) {
            Ok(fresh) => *self = fresh,
            Err(_) => self.bytes_mut().fill(0),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map[..self.len_bytes]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[..self.len_bytes]
    }
}
