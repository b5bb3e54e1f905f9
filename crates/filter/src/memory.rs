//! The memory of cells.
//!
//! Promises: it is zeroed, aligned to cache lines, taken from the system only as it is touched, on huge pages where the
//! system grants them (random access to a filter of 100 MB otherwise misses the address cache at every cell). Must not
//! know: what a cell is.

use memmap2::{Advice, MmapMut};

use crate::arch::LINE_BYTES;

/// A zeroed, line-aligned array of bytes.
pub(crate) struct CellMemory {
    map: MmapMut,
    len_bytes: usize,
}

impl CellMemory {
    /// Reserves `len_bytes`; fails where the system refuses the address space.
    pub(crate) fn zeroed(len_bytes: usize) -> std::io::Result<Self> {
        let map = MmapMut::map_anon(len_bytes.next_multiple_of(LINE_BYTES).max(LINE_BYTES))?;
        // A hint: without huge pages everything works, only slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(Advice::HugePage);
        Ok(Self { map, len_bytes })
    }

    /// Returns every byte to zero; large memory is handed back to the system and comes back page by page.
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
