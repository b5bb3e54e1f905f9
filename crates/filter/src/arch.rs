//! Processor instructions beyond portable code: prefetches, and wide instructions that are chosen at run time.
//!
//! The selected instructions change the speed of the filter, but never its results. This is the only module of the
//! crate with `unsafe` code. Stable Rust has no safe way to prefetch memory, or to call code that needs processor
//! instructions which are only known to exist at run time.
//!
//! The module does not depend on the content of cache lines.
#![allow(unsafe_code)]

/// Size of a cache line in bytes on all supported machines. Machines with lines of 128 bytes fetch two neighbours.
pub(crate) const LINE_BYTES: usize = 64;

/// Prefetches every cache line of `block`, which the caller is going to write.
#[inline(always)]
pub(crate) fn prefetch<const BYTES: usize>(block: &[u8; BYTES]) {
    let mut offset = 0;
    while offset < BYTES {
        prefetch_line(&block[offset]);
        offset += LINE_BYTES;
    }
}

/// Prefetches the cache line that contains `byte`, which the caller is going to write.
#[inline(always)]
pub(crate) fn prefetch_line(byte: &u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the address belongs to a live reference. A prefetch never faults and never changes memory.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the address belongs to a live reference. `prfm` is a hint that touches neither flags nor the stack.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{0}]", in(reg) std::ptr::from_ref(byte), options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = byte;
}

/// Processor instructions for which the code of a filter is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// Instructions that every processor of the target has.
    Portable,
    /// BMI and AVX2, if the processor at run time supports them. Otherwise portable instructions.
    Widest,
}

/// Instructions that work on many bytes at once, for code that [`compiled_for`] runs.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    /// Whether the processor supports wide instructions. Only [`compiled_for`] sets this field to `true`, after it has
    /// checked the processor.
    is_wide: bool,
}

impl Lanes {
    /// Instructions that every processor of the target has.
    pub(crate) const PORTABLE: Self = Self { is_wide: false };

    /// Returns the widest instructions of this processor. This is meant for work on a single event, which is not
    /// compiled separately for them.
    #[inline]
    pub(crate) fn widest() -> Self {
        compiled_for(Instructions::Widest, |lanes| lanes)
    }

    /// Compares each byte of `line`, from byte `start` on, with `byte`, and returns a bit mask of the equal bytes. The
    /// lowest bit of the mask stands for the first compared byte. The mask covers at least `len` bytes.
    #[inline(always)]
    pub(crate) fn equal_bytes(self, line: &[u8; LINE_BYTES], start: usize, len: usize, byte: u8) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.is_wide {
            let first = start.min(LINE_BYTES - HALF_BYTES);
            // SAFETY: the processor has AVX2 if `is_wide` is set.
            return unsafe {
                match len {
                    ..=HALF_BYTES => equal_bytes_wide(line, first, byte) >> (start - first),
                    _ => {
                        let low = equal_bytes_wide(line, 0, byte);
                        let high = equal_bytes_wide(line, HALF_BYTES, byte);
                        (low | high << HALF_BYTES) >> start
                    }
                }
            };
        }
        let _ = len;
        equal_bytes_portable(line, byte) >> start
    }

    /// Returns the number of low bits of `word` up to and including its `nth` set bit. Returns 0 if `nth` is 0, or if
    /// `word` has fewer set bits.
    #[inline(always)]
    pub(crate) fn up_to_one(self, word: u64, nth: u32) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if self.is_wide {
            // SAFETY: the processor has BMI2 if `is_wide` is set.
            return unsafe { up_to_one_wide(word, nth) };
        }
        if nth == 0 {
            return 0;
        }
        let rest = (1..nth).fold(word, |rest, _| rest & rest.wrapping_sub(1));
        u64::BITS - (rest & rest.wrapping_neg()).leading_zeros()
    }
}

/// Number of bytes that the wide instructions compare at once.
#[cfg(target_arch = "x86_64")]
const HALF_BYTES: usize = LINE_BYTES / 2;

fn equal_bytes_portable(line: &[u8; LINE_BYTES], byte: u8) -> u64 {
    const LOW_BITS: u64 = u64::from_le_bytes([0x7F; 8]);
    let pattern = u64::from_le_bytes([byte; 8]);
    let words = line.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes) ^ pattern);
    let equal = words.map(|differs| {
        let high_bits = !(((differs & LOW_BITS) + LOW_BITS) | differs | LOW_BITS);
        // The product collects the eight result bits, one per byte, in the highest byte.
        (high_bits >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    });
    equal.zip(0..).fold(0, |all, (eight, index)| all | eight << (8 * index))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn equal_bytes_wide(line: &[u8; LINE_BYTES], first: usize, byte: u8) -> u64 {
    use std::arch::x86_64::{_mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8};
    let half = &line[first..first + HALF_BYTES];
    // SAFETY: the 32 bytes that the instruction reads belong to a live reference. They need not be aligned.
    let half = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
    u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(half, _mm256_set1_epi8(byte as i8))) as u32)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt")]
#[inline]
fn up_to_one_wide(word: u64, nth: u32) -> u32 {
    // The instruction moves one bit to the position of the nth set bit. The result is 0 if there is no such bit.
    let nth_bit = 1u64.wrapping_shl(nth) >> 1;
    u64::BITS - std::arch::x86_64::_pdep_u64(nth_bit, word).leading_zeros()
}

/// Code that [`compiled_for`] runs with the selected processor instructions. The compiler uses these instructions only
/// in code that it inlines into the implementation of this trait. Closures implement this trait as well, but the
/// compiler does not guarantee that it inlines a closure.
pub(crate) trait Work {
    type Output;

    fn run(self, lanes: Lanes) -> Self::Output;
}

impl<T, F: FnOnce(Lanes) -> T> Work for F {
    type Output = T;

    #[inline(always)]
    fn run(self, lanes: Lanes) -> T {
        self(lanes)
    }
}

/// Runs `work` in code that is compiled for `instructions`. Functions that are inlined into `work` use the wider
/// registers and shifts.
#[inline(always)]
pub(crate) fn compiled_for<W: Work>(instructions: Instructions, work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if instructions == Instructions::Widest
        && is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
    {
        // SAFETY: the processor has all features for which `wide` is compiled. They were detected just above.
        return unsafe { wide(work) };
    }
    work.run(Lanes::PORTABLE)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn wide<W: Work>(work: W) -> W::Output {
    work.run(Lanes { is_wide: true })
}
