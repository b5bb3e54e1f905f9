//! Packed arrays of cells that are narrower than a byte: 1, 2, 4 or 8 bits each.
//!
//! Cells beyond the last one stay zero, so that code can work on whole words.
//!
//! This module does not depend on windows or on the meaning of a cell.

use std::io;

use crate::arch::prefetch_line;
use crate::body::{invalid, memory_bytes};
use crate::memory::CellMemory;

/// Number of cells to a multiple of which the memory is padded. For cells of one bit this is a cache line.
const PADDING_CELLS: u64 = 512;

/// Array of cells of `2^bits_log2` bits. Cell `i` starts at bit `i << bits_log2`, low bits first.
pub(crate) struct PackedCells {
    memory: CellMemory,
    cells: u64,
    bits_log2: u32,
}

impl PackedCells {
    /// Creates an array of `cells` zeroed cells. `bits` must be 1, 2, 4 or 8.
    pub(crate) fn zeroed(cells: u64, bits: u32) -> io::Result<Self> {
        let bits_log2 = bits.trailing_zeros();
        let len_bytes = memory_bytes((cells.next_multiple_of(PADDING_CELLS) << bits_log2) / 8)?;
        Ok(Self { memory: CellMemory::zeroed(len_bytes)?, cells, bits_log2 })
    }

    pub(crate) fn bits(&self) -> u32 {
        1 << self.bits_log2
    }

    /// Returns the greatest value of a cell.
    #[inline(always)]
    pub(crate) fn max(&self) -> u8 {
        u8::MAX >> (8 - self.bits())
    }

    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> u8 {
        let bit = index << self.bits_log2;
        self.memory.bytes()[bit >> 3] >> (bit & 7) & self.max()
    }

    /// Sets a cell to `value`, which must be at most [`Self::max`].
    #[inline(always)]
    pub(crate) fn set(&mut self, index: usize, value: u8) {
        let bit = index << self.bits_log2;
        let max = self.max();
        let byte = &mut self.memory.bytes_mut()[bit >> 3];
        *byte = *byte & !(max << (bit & 7)) | value << (bit & 7);
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, index: usize) {
        prefetch_line(&self.memory.bytes()[index << self.bits_log2 >> 3]);
    }

    pub(crate) fn clear(&mut self) {
        self.memory.clear();
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }

    /// Returns the number of cells that are not zero. The call reads all cells.
    pub(crate) fn occupied(&self) -> u64 {
        self.occupied_in(usize::MAX)
    }

    /// Returns the number of cells that are not zero in the first `bytes` bytes, rounded down to whole words.
    pub(crate) fn occupied_in(&self, bytes: usize) -> u64 {
        self.words().take(bytes / 8).map(|word| u64::from(self.occupied_lanes(word).count_ones())).sum()
    }

    /// Returns the share of cells that are not zero. The value is estimated from the first `bytes_max` bytes, but at
    /// least one word.
    pub(crate) fn share_occupied(&self, bytes_max: usize) -> f64 {
        let bytes = bytes_max.max(8) / 8 * 8;
        let cells = self.cells.min((bytes as u64).saturating_mul(8) >> self.bits_log2);
        self.occupied_in(bytes) as f64 / cells as f64
    }

    /// Returns the number of cells at their greatest value. The call reads all cells.
    pub(crate) fn full(&self) -> u64 {
        let lanes = 64_u64 >> self.bits_log2;
        self.words().map(|word| lanes - u64::from(self.occupied_lanes(!word).count_ones())).sum()
    }

    /// Returns the sum of all cells. The call reads all cells.
    pub(crate) fn total(&self) -> u64 {
        (0..self.cells as usize).map(|index| u64::from(self.get(index))).sum()
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        self.memory.bytes().as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
    }

    /// Returns a word in which the lowest bit of every nonzero cell of `word` is set.
    fn occupied_lanes(&self, word: u64) -> u64 {
        match self.bits_log2 {
            0 => word,
            1 => occupied_lanes::<1>(word),
            2 => occupied_lanes::<2>(word),
            _ => occupied_lanes::<3>(word),
        }
    }

    /// Subtracts one from each cell of a run that is not zero already. The run has `run_cells` consecutive cells,
    /// starts at `start`, and wraps around at the last cell. It must not be longer than the number of cells.
    pub(crate) fn decrement_run(&mut self, start: u64, run_cells: u64) {
        let before_end = run_cells.min(self.cells - start);
        self.decrement_span(start, start + before_end);
        self.decrement_span(0, run_cells - before_end);
    }

    fn decrement_span(&mut self, from: u64, until: u64) {
        let bytes = self.memory.bytes_mut();
        match self.bits_log2 {
            0 => decrement_span::<0>(bytes, from, until),
            1 => decrement_span::<1>(bytes, from, until),
            2 => decrement_span::<2>(bytes, from, until),
            _ => decrement_span::<3>(bytes, from, until),
        }
    }

    /// Adds bit `i` of `marks` to cell `i`. The cells must have 4 or 8 bits, and no sum may exceed [`Self::max`].
    pub(crate) fn add_marks(&mut self, marks: &[u8]) {
        self.combine_marks(marks, u64::wrapping_add);
    }

    /// Subtracts bit `i` of `marks` from cell `i`. The bit must have been added before.
    pub(crate) fn subtract_marks(&mut self, marks: &[u8]) {
        self.combine_marks(marks, u64::wrapping_sub);
    }

    fn combine_marks(&mut self, marks: &[u8], combine: impl Fn(u64, u64) -> u64) {
        let words = self.memory.bytes_mut().as_chunks_mut::<8>().0;
        if self.bits_log2 == 2 {
            for (word, marks) in words.iter_mut().zip(marks.as_chunks::<2>().0) {
                *word = combine(u64::from_le_bytes(*word), spread_to_nibbles(u16::from_le_bytes(*marks))).to_le_bytes();
            }
        } else {
            for (word, marks) in words.iter_mut().zip(marks) {
                *word = combine(u64::from_le_bytes(*word), spread_to_bytes(*marks)).to_le_bytes();
            }
        }
    }

    pub(crate) fn write(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        sink.write_all(self.memory.bytes())
    }

    /// Reads all cells from `source`. Returns an error if `source` ends early or sets a cell beyond the last one.
    pub(crate) fn read(&mut self, source: &mut dyn io::Read) -> io::Result<()> {
        source.read_exact(self.memory.bytes_mut())?;
        self.check_padding()
    }

    fn check_padding(&self) -> io::Result<()> {
        check_zero_from(self.memory.bytes(), self.cells << self.bits_log2)
    }
}

/// Checks that every bit of `bytes` from `first_bit` on is zero.
pub(crate) fn check_zero_from(bytes: &[u8], first_bit: u64) -> io::Result<()> {
    let Some((first, rest)) = bytes.get((first_bit / 8) as usize..).and_then(<[u8]>::split_first) else {
        return Ok(());
    };
    if first >> (first_bit % 8) == 0 && rest.iter().all(|byte| *byte == 0) {
        Ok(())
    } else {
        Err(invalid("a cell past the last one is set"))
    }
}

/// Returns a word in which the lowest bit of every nonzero lane of `2^LOG` bits is set.
#[inline(always)]
fn occupied_lanes<const LOG: u32>(mut word: u64) -> u64 {
    for step in 0..LOG {
        word |= word >> (1 << step);
    }
    word & (u64::MAX / ((1 << (1 << LOG)) - 1))
}

#[inline(always)]
fn decrement_byte<const LOG: u32>(byte: &mut u8, lanes: u8) {
    let mut occupied = *byte;
    for step in 0..LOG {
        occupied |= occupied >> (1 << step);
    }
    *byte -= occupied & (u8::MAX / ((1_u16 << (1 << LOG)) - 1) as u8) & lanes;
}

fn decrement_span<const LOG: u32>(bytes: &mut [u8], from: u64, until: u64) {
    let first_bit = (from << LOG) as usize;
    let end_bit = (until << LOG) as usize;
    if first_bit == end_bit {
        return;
    }
    let first_lanes = u8::MAX << (first_bit & 7);
    let last_lanes = u8::MAX >> (7 - ((end_bit - 1) & 7));
    match &mut bytes[first_bit >> 3..end_bit.div_ceil(8)] {
        [only] => decrement_byte::<LOG>(only, first_lanes & last_lanes),
        [first, whole @ .., last] => {
            decrement_byte::<LOG>(first, first_lanes);
            whole.iter_mut().for_each(|byte| decrement_byte::<LOG>(byte, u8::MAX));
            decrement_byte::<LOG>(last, last_lanes);
        }
        [] => {}
    }
}

/// Moves bit `i` to bit `4 i`.
fn spread_to_nibbles(bits: u16) -> u64 {
    let mut word = u64::from(bits);
    word = (word | word << 24) & 0x0000_00FF_0000_00FF;
    word = (word | word << 12) & 0x000F_000F_000F_000F;
    word = (word | word << 6) & 0x0303_0303_0303_0303;
    (word | word << 3) & 0x1111_1111_1111_1111
}

/// Moves bit `i` to bit `8 i`.
fn spread_to_bytes(bits: u8) -> u64 {
    let mut word = u64::from(bits);
    word = (word | word << 28) & 0x0000_000F_0000_000F;
    word = (word | word << 14) & 0x0003_0003_0003_0003;
    (word | word << 7) & 0x0101_0101_0101_0101
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_spread_to_the_lanes_of_their_cells() {
        for bit in 0..16 {
            assert_eq!(spread_to_nibbles(1 << bit), 1 << (4 * bit));
        }
        assert_eq!(spread_to_nibbles(u16::MAX), 0x1111_1111_1111_1111);
        for bit in 0..8 {
            assert_eq!(spread_to_bytes(1 << bit), 1 << (8 * bit));
        }
        assert_eq!(spread_to_bytes(u8::MAX), 0x0101_0101_0101_0101);
    }

    #[test]
    fn a_run_decrements_its_cells_and_no_other_at_every_width() {
        for bits in [1, 2, 4, 8] {
            for (start, run_cells) in [(0, 1), (3, 2), (5, 40), (60, 39), (98, 5), (17, 100)] {
                let mut cells = PackedCells::zeroed(100, bits).unwrap();
                let max = cells.max();
                (0..100).for_each(|index| cells.set(index, if index % 3 == 0 { 0 } else { max }));
                cells.decrement_run(start, run_cells);
                for index in 0..100_usize {
                    let hit = (index as u64 + 100 - start) % 100 < run_cells;
                    let expected = if index % 3 == 0 { 0 } else { max - u8::from(hit) };
                    assert_eq!(cells.get(index), expected, "{bits} bits, run {start}+{run_cells}, cell {index}");
                }
                assert!(cells.check_padding().is_ok());
            }
        }
    }

    #[test]
    fn occupied_and_full_count_what_a_walk_counts() {
        for bits in [1, 2, 4, 8] {
            let mut cells = PackedCells::zeroed(777, bits).unwrap();
            let max = cells.max();
            (0..777).for_each(|index| cells.set(index, (index * 7 % 19) as u8 & max));
            let count = |wanted: &dyn Fn(u8) -> bool| (0..777).filter(|index| wanted(cells.get(*index))).count() as u64;
            assert_eq!(cells.occupied(), count(&|cell| cell != 0));
            assert_eq!(cells.full(), count(&|cell| cell == max));
        }
    }

    #[test]
    fn a_cell_past_the_last_one_is_refused() {
        let mut cells = PackedCells::zeroed(100, 4).unwrap();
        let mut bytes = cells.bytes().to_vec();
        assert!(cells.read(&mut &bytes[..]).is_ok());
        bytes[50] = 1;
        assert!(cells.read(&mut &bytes[..]).is_err());
        assert!(cells.read(&mut &bytes[..49]).is_err());
    }
}
