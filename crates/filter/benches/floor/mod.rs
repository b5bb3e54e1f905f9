//! The floor: random cache lines, read and written with prefetch, and nothing else.

use memmap2::{Advice, MmapMut};

const LINE_BYTES: usize = 64;
const AHEAD: usize = 16;

/// Memory as a filter has it.
pub(crate) struct Floor {
    memory: MmapMut,
    lines: usize,
    state: u64,
}

impl Floor {
    /// `bytes` of memory, touched in blocks of `lines` cache lines.
    pub(crate) fn new(bytes: usize, lines: usize) -> Self {
        let mut memory = MmapMut::map_anon(bytes).unwrap();
        let _ = memory.advise(Advice::HugePage);
        memory.fill(1);
        Self { memory, lines, state: 1 }
    }

    /// Reads and writes the lines of `events` random blocks.
    pub(crate) fn touch(&mut self, events: usize) {
        let blocks = (self.memory.len() / LINE_BYTES / self.lines) as u64;
        let mut ring = [0; AHEAD];
        for event in 0..events + AHEAD {
            let start = ring[event % AHEAD];
            if event >= AHEAD {
                for line in 0..self.lines {
                    let byte = &mut self.memory[start + line * LINE_BYTES];
                    *byte = byte.wrapping_add(1);
                }
            }
            self.state = self.state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let block = ((u128::from(self.state) * u128::from(blocks)) >> 64) as usize;
            let start = block * self.lines * LINE_BYTES;
            for line in 0..self.lines {
                prefetch(&self.memory[start + line * LINE_BYTES]);
            }
            ring[event % AHEAD] = start;
        }
    }
}

#[allow(unsafe_code)]
fn prefetch(byte: &u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the address is that of a live reference, and a prefetch never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
