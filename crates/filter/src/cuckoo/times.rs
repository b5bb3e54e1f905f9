//! The word of a bucket that holds the expiry times of its entries as unary ticks.
//!
//! All operations are arithmetic on a single number.
//!
//! This module does not depend on the meaning of an entry.

use crate::arch::Lanes;
use crate::buckets::BUCKET_BYTES;

/// Number that holds the times, the head and the base of a bucket.
pub(crate) trait TimeWord: Copy + PartialEq + Send + Sync + 'static {
    const BITS: u8;
    const ZERO: Self;

    fn read(line: &[u8; BUCKET_BYTES]) -> Self;
    fn write(self, line: &mut [u8; BUCKET_BYTES]);

    /// Returns the lowest `bits` bits. `bits` must be less than the width of the word.
    fn low(self, bits: u32) -> Self;
    /// Returns the word shifted down. `bits` must be less than the width of the word.
    fn down(self, bits: u32) -> Self;
    /// Returns the word shifted up. `bits` must be less than the width of the word.
    fn up(self, bits: u32) -> Self;
    fn or(self, other: Self) -> Self;
    fn ones(self) -> u32;
    /// Returns the number of bits up to and including the highest 1.
    fn len(self) -> u32;
    fn lowest(self) -> u64;
    fn of(number: u64) -> Self;

    /// Returns the number of low bits up to and including the `nth` 0. Returns 0 if `nth` is 0. The word must have at
    /// least `nth` zeros.
    fn up_to_zero(self, nth: u32, lanes: Lanes) -> u32;
    /// Returns the number of low bits up to and including the `nth` 1. Returns 0 if `nth` is 0. The word must have at
    /// least `nth` ones.
    fn up_to_one(self, nth: u32, lanes: Lanes) -> u32;
}

macro_rules! time_word {
    ($word:ty) => {
        const BITS: u8 = <$word>::BITS as u8;
        const ZERO: Self = 0;

        #[inline(always)]
        fn read(line: &[u8; BUCKET_BYTES]) -> Self {
            line.first_chunk().map_or(0, |bytes| Self::from_le_bytes(*bytes))
        }

        #[inline(always)]
        fn write(self, line: &mut [u8; BUCKET_BYTES]) {
            if let Some(bytes) = line.first_chunk_mut() {
                *bytes = self.to_le_bytes();
            }
        }

        #[inline(always)]
        fn low(self, bits: u32) -> Self {
            self & !(Self::MAX << bits)
        }

        #[inline(always)]
        fn down(self, bits: u32) -> Self {
            self.wrapping_shr(bits)
        }

        #[inline(always)]
        fn up(self, bits: u32) -> Self {
            self << bits
        }

        #[inline(always)]
        fn or(self, other: Self) -> Self {
            self | other
        }

        #[inline(always)]
        fn ones(self) -> u32 {
            self.count_ones()
        }

        #[inline(always)]
        fn len(self) -> u32 {
            Self::BITS - self.leading_zeros()
        }

        #[inline(always)]
        fn lowest(self) -> u64 {
            self as u64
        }

        #[inline(always)]
        fn of(number: u64) -> Self {
            Self::from(number)
        }
    };
}

impl TimeWord for u64 {
    time_word!(u64);

    #[inline(always)]
    fn up_to_zero(self, nth: u32, lanes: Lanes) -> u32 {
        lanes.up_to_one(!self, nth)
    }

    #[inline(always)]
    fn up_to_one(self, nth: u32, lanes: Lanes) -> u32 {
        lanes.up_to_one(self, nth)
    }
}

impl TimeWord for u128 {
    time_word!(u128);

    #[inline(always)]
    fn up_to_zero(self, nth: u32, lanes: Lanes) -> u32 {
        (!self).up_to_one(nth, lanes)
    }

    #[inline(always)]
    fn up_to_one(self, nth: u32, lanes: Lanes) -> u32 {
        let low = self as u64;
        let high = (self >> 64) as u64;
        match low.count_ones() {
            // This arm excludes the 64th one of the low half, which only exists if all bits of the low half are ones.
            // The next arm finds that position without a search.
            in_low if nth <= in_low.min(u64::BITS - 1) => lanes.up_to_one(low, nth),
            in_low => u64::BITS + lanes.up_to_one(high, nth - in_low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{Instructions, compiled_for};
    use crate::buckets::BASE_BITS;

    #[test]
    fn every_bit_of_a_long_word_is_found() {
        let checks = |lanes: Lanes| {
            // The highest bits of the word belong to the head and the base.
            for nth in 0..u128::BITS - BASE_BITS {
                assert_eq!((u128::MAX.up_to_one(nth, lanes), 0u128.up_to_zero(nth, lanes)), (nth, nth));
            }
        };
        checks(Lanes::PORTABLE);
        compiled_for(Instructions::Widest, checks);
    }
}
