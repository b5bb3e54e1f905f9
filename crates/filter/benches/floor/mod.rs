//! The lower bound ("floor") of the time per event: reading and writing random cache lines with prefetch, without any
//! other work.

use memmap2::{Advice, MmapMut};

const LINE_BYTES: usize = 64;
const AHEAD: usize = 16;

/// Cache lines that an event touches.
#[derive(Clone, Copy)]
pub(crate) enum Lines {
    /// A number of consecutive lines, which are all written.
    Block(usize),
    /// Two cache lines anywhere within 64 KiB: one line is read, and the other is written.
    Pair,
}

/// Memory with the same properties as the memory of a filter.
pub(crate) struct Floor {
    memory: MmapMut,
    lines: Lines,
    state: u64,
}

impl Floor {
    /// Creates `bytes` of memory in which every event touches `lines`.
    pub(crate) fn new(bytes: usize, lines: Lines) -> Self {
        let mut memory = MmapMut::map_anon(bytes).unwrap();
        let _ = memory.advise(Advice::HugePage);
        memory.fill(1);
        Self { memory, lines, state: 1 }
    }

    /// Reads and writes the lines of `events` events.
    pub(crate) fn touch(&mut self, events: usize) {
        let mut ring = [(0, 0); AHEAD];
        for event in 0..events + AHEAD {
            let (first, second) = ring[event % AHEAD];
            if event >= AHEAD {
                self.touch_one(first, second);
            }
            ring[event % AHEAD] = self.fetch_one();
        }
    }

    fn touch_one(&mut self, first: usize, second: usize) {
        match self.lines {
            Lines::Block(lines) => (0..lines).for_each(|line| {
                let byte = &mut self.memory[first + line * LINE_BYTES];
                *byte = byte.wrapping_add(1);
            }),
            Lines::Pair => self.memory[first] = self.memory[first].wrapping_add(self.memory[second]),
        }
    }

    /// Prefetches the lines of the next event, and returns their offsets.
    fn fetch_one(&mut self) -> (usize, usize) {
        self.state = self.state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let lines = match self.lines {
            Lines::Block(lines) => lines,
            Lines::Pair => 1,
        };
        let blocks = (self.memory.len() / LINE_BYTES / lines) as u64;
        let block = ((u128::from(self.state) * u128::from(blocks)) >> 64) as usize;
        let first = block * lines * LINE_BYTES;
        (0..lines).for_each(|line| prefetch(&self.memory[first + line * LINE_BYTES]));
        let second = match self.lines {
            Lines::Block(_) => first,
            Lines::Pair => ((block ^ (self.state as usize >> 8 & 1023 | 1)) * LINE_BYTES).min(self.memory.len() - 1),
        };
        prefetch(&self.memory[second]);
        (first, second)
    }
}

#[allow(unsafe_code)]
fn prefetch(byte: &u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the address belongs to a live reference, and a prefetch never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
