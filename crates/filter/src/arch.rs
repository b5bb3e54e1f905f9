//! Instructions beyond portable code: prefetch, and wider ones chosen at run time.
//!
//! Promises: they change speed only, never a result. Must not know: what lies in a cache line. The only `unsafe` of
//! this crate: prefetch and run-time chosen instructions have no safe form on stable Rust.
#![allow(unsafe_code)]

/// Bytes of a cache line on every machine we build for (on those with 128, two neighbours are fetched).
pub(crate) const LINE_BYTES: usize = 64;

/// Asks for every line of `block`, to be written soon.
#[inline(always)]
pub(crate) fn prefetch<const BYTES: usize>(block: &[u8; BYTES]) {
    let mut offset = 0;
    while offset < BYTES {
        prefetch_line(&block[offset]);
        offset += LINE_BYTES;
    }
}

/// Asks for the line that holds `byte`, to be written soon.
#[inline(always)]
pub(crate) fn prefetch_line(byte: &u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the address is that of a live reference, and a prefetch never faults nor changes memory.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the same; `prfm` is a hint and touches neither flags nor stack.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{0}]", in(reg) std::ptr::from_ref(byte), options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = byte;
}

/// Which instructions the kernels of a filter are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// Instructions that every processor of the target has.
    Portable,
    /// BMI and AVX2, where the processor that runs this has them.
    Widest,
}

/// Instructions on many bytes at once, for code that [`compiled_for`] runs.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    /// Only [`compiled_for`] says so, after it has found that the processor has them.
    is_wide: bool,
}

impl Lanes {
    /// What every processor has.
    pub(crate) const PORTABLE: Self = Self { is_wide: false };

    /// The widest that this processor has: for work on one event, which is not compiled anew for them.
    #[inline]
    pub(crate) fn widest() -> Self {
        compiled_for(Instructions::Widest, |lanes| lanes)
    }

    /// A bit for every byte of `line` from byte `start` on that is `byte`, the first one's lowest; of `len` bytes at least.
    #[inline(always)]
    pub(crate) fn equal_bytes(self, line: &[u8; LINE_BYTES], start: usize, len: usize, byte: u8) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.is_wide {
            let first = start.min(LINE_BYTES - HALF_BYTES);
            // SAFETY: the processor has AVX2 where `is_wide` is set.
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

    /// How many bits of `word`, from the lowest on, end with its `nth` 1; 0 of the 0th, and where there are fewer.
    #[inline(always)]
    pub(crate) fn up_to_one(self, word: u64, nth: u32) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if self.is_wide {
            // SAFETY: the processor has BMI2 where `is_wide` is set.
            return unsafe { up_to_one_wide(word, nth) };
        }
        if nth == 0 {
            return 0;
        }
        let rest = (1..nth).fold(word, |rest, _| rest & rest.wrapping_sub(1));
        u64::BITS - (rest & rest.wrapping_neg()).leading_zeros()
    }
}

/// Bytes that the wide instructions compare at once.
#[cfg(target_arch = "x86_64")]
const HALF_BYTES: usize = LINE_BYTES / 2;

fn equal_bytes_portable(line: &[u8; LINE_BYTES], byte: u8) -> u64 {
    const LOW_BITS: u64 = u64::from_le_bytes([0x7F; 8]);
    let pattern = u64::from_le_bytes([byte; 8]);
    let words = line.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes) ^ pattern);
    let equal = words.map(|differs| {
        let high_bits = !(((differs & LOW_BITS) + LOW_BITS) | differs | LOW_BITS);
        // The product brings the eight bits, one a byte, side by side into the highest byte.
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
    // SAFETY: the 32 bytes that are read are those of a live reference, and need not be aligned.
    let half = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
    u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(half, _mm256_set1_epi8(byte as i8))) as u32)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt")]
#[inline]
fn up_to_one_wide(word: u64, nth: u32) -> u32 {
    // One bit is brought to the place of the nth 1: none where there is no such.
    let nth_bit = 1u64.wrapping_shl(nth) >> 1;
    u64::BITS - std::arch::x86_64::_pdep_u64(nth_bit, word).leading_zeros()
}

/// Work that [`compiled_for`] runs. What is to be compiled for the instructions must be inlined into it: a closure may
/// not be.
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

/// Runs `work` compiled for `instructions`: functions inlined into it use the wider registers and shifts.
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
        // SAFETY: the features that `wide` is compiled for were detected just above.
        return unsafe { wide(work) };
    }
    work.run(Lanes::PORTABLE)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn wide<W: Work>(work: W) -> W::Output {
    work.run(Lanes { is_wide: true })
}
