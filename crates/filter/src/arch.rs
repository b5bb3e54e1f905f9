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

/// Runs `work` compiled for `instructions`: functions inlined into it use the wider registers and shifts.
#[inline(always)]
pub(crate) fn compiled_for<T>(instructions: Instructions, work: impl FnOnce() -> T) -> T {
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
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn wide<T>(work: impl FnOnce() -> T) -> T {
    work()
}
