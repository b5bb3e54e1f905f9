//! A stream of bit fields, from the low end of each byte.
//!
//! Promises: fields follow each other without gaps; the last byte is filled up with zeros. Must not know: what the
//! fields mean.

/// Appends fields to bytes.
pub(crate) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Below 64 bits between calls.
    pending: u128,
    pending_bits: u32,
}

impl<'a> BitWriter<'a> {
    /// Starts at the end of `out`, which is made large enough for `bits`.
    pub(crate) fn new(out: &'a mut Vec<u8>, bits: usize) -> Self {
        out.reserve(bits / 8 + 8);
        Self { out, pending: 0, pending_bits: 0 }
    }

    /// Appends the `bits` (at most 64) low bits of `value`; all above must be zero.
    #[inline(always)]
    pub(crate) fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= 64 && (bits == 64 || value >> bits == 0));
        self.pending |= u128::from(value) << self.pending_bits;
        self.pending_bits += bits;
        if self.pending_bits >= 64 {
            self.out.extend_from_slice(&(self.pending as u64).to_le_bytes());
            self.pending >>= 64;
            self.pending_bits -= 64;
        }
    }

    /// Writes what is pending.
    pub(crate) fn finish(self) {
        let bytes = self.pending_bits.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.pending.to_le_bytes()[..bytes]);
    }
}

/// Takes fields from bytes; beyond the end, all are zero.
pub(crate) struct BitReader<'a> {
    rest: &'a [u8],
    /// Below 64 bits between calls, unless the end is reached.
    pending: u128,
    pending_bits: u32,
}

impl<'a> BitReader<'a> {
    /// Starts with the first bit.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, pending: 0, pending_bits: 0 }
    }

    /// The next `bits` (at most 64) bits.
    #[inline(always)]
    pub(crate) fn take(&mut self, bits: u32) -> u64 {
        if self.pending_bits < bits {
            self.refill();
        }
        let value = self.pending as u64 & mask(bits);
        self.pending >>= bits;
        self.pending_bits -= bits;
        value
    }

    #[inline(always)]
    fn refill(&mut self) {
        let word = match self.rest.split_first_chunk::<8>() {
            Some((word, rest)) => {
                self.rest = rest;
                u64::from_le_bytes(*word)
            }
            None => self.last_word(),
        };
        self.pending |= u128::from(word) << self.pending_bits;
        self.pending_bits += 64;
    }

    #[cold]
    fn last_word(&mut self) -> u64 {
        let mut word = [0; 8];
        word[..self.rest.len()].copy_from_slice(self.rest);
        self.rest = &[];
        u64::from_le_bytes(word)
    }

    /// Whether nothing but zeros is left of the last byte.
    pub(crate) fn is_padding(&self) -> bool {
        self.pending == 0 && self.rest.is_empty()
    }
}

/// `bits` ones at the low end.
#[inline(always)]
pub(crate) fn mask(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits.min(64)).unwrap_or(0)
}

/// Bits of a number below `range`.
pub(crate) fn bits_below(range: u64) -> u32 {
    u64::BITS - range.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_whatever_their_widths() {
        let fields: Vec<(u64, u32)> =
            (0..2000u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15), (i * 37 % 65) as u32)).collect();
        let mut bytes = vec![7];
        let bits: usize = fields.iter().map(|(_, bits)| *bits as usize).sum();
        let mut writer = BitWriter::new(&mut bytes, bits);
        fields.iter().for_each(|(value, bits)| writer.put(value & mask(*bits), *bits));
        writer.finish();
        assert_eq!(bytes.len(), 1 + bits.div_ceil(8));
        let mut reader = BitReader::new(&bytes[1..]);
        for (value, bits) in fields {
            assert_eq!(reader.take(bits), value & mask(bits));
        }
        assert!(reader.is_padding());
    }

    #[test]
    fn widths_are_those_of_the_greatest_number() {
        let widths = [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1 << 40, 40), ((1 << 40) + 1, 41), (u64::MAX, 64)];
        for (range, bits) in widths {
            assert_eq!(bits_below(range), bits, "below {range}");
        }
    }
}
