//! A stream of bit fields, from the low end of each byte.
//!
//! Promises: fields follow each other without gaps; the last byte is filled up with zeros. Must not know: what the
//! fields mean.

/// Widest narrow field: with up to 7 bits before it, it still fits in a word of 64.
pub(crate) const NARROW_BITS_MAX: u32 = 57;

/// Widest field: with up to 7 bits before it, it still fits in 128.
pub(crate) const WIDE_BITS_MAX: u32 = 121;

/// Bytes that one field may touch at once.
const STORE_BYTES: usize = 16;

/// Appends fields to bytes.
///
/// Every field is stored as a whole word from the byte on in which it begins; bits of the word beyond the field are
/// zero, and the next field writes them again. So there is no branch on where a field happens to end.
pub(crate) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// The byte in which the next field begins.
    at: usize,
    /// The bits of that byte that are taken: fewer than 8.
    pending: u64,
    pending_bits: u32,
}

impl<'a> BitWriter<'a> {
    /// Starts at the end of `out`, which is made large enough for `bits`: no more may be put.
    pub(crate) fn new(out: &'a mut Vec<u8>, bits: usize) -> Self {
        let at = out.len();
        out.resize(at + bits.div_ceil(8) + STORE_BYTES, 0);
        Self { out, at, pending: 0, pending_bits: 0 }
    }

    /// Appends the `bits` (at most [`NARROW_BITS_MAX`]) low bits of `value`; all above must be zero.
    #[inline(always)]
    pub(crate) fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= NARROW_BITS_MAX && value & !mask(bits) == 0);
        let word = self.pending | value << self.pending_bits;
        self.out[self.at..self.at + 8].copy_from_slice(&word.to_le_bytes());
        let end = self.pending_bits + bits;
        // Where the word is full, the shift wraps to none, and the mask leaves nothing.
        self.pending = word >> (end & !7 & 63) & mask(end & 7);
        self.pending_bits = end & 7;
        self.at += (end >> 3) as usize;
    }

    /// Appends the `bits` (at most [`WIDE_BITS_MAX`]) low bits of `value`; all above must be zero.
    #[inline(always)]
    pub(crate) fn put_wide(&mut self, value: u128, bits: u32) {
        debug_assert!(bits <= WIDE_BITS_MAX && value >> bits == 0);
        let word = u128::from(self.pending) | value << self.pending_bits;
        self.out[self.at..self.at + STORE_BYTES].copy_from_slice(&word.to_le_bytes());
        let end = self.pending_bits + bits;
        self.pending = (word >> (end & !7 & 127)) as u64 & mask(end & 7);
        self.pending_bits = end & 7;
        self.at += (end >> 3) as usize;
    }

    /// Gives back bytes that are not used.
    pub(crate) fn finish(self) {
        self.out.truncate(self.at + usize::from(self.pending_bits > 0));
    }
}

/// Takes fields from bytes; beyond the end, all are zero.
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Where the next field begins, in bits.
    at: usize,
}

impl<'a> BitReader<'a> {
    /// Starts with the first bit.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next `bits` (at most [`NARROW_BITS_MAX`]) bits.
    #[inline(always)]
    pub(crate) fn take(&mut self, bits: u32) -> u64 {
        let word = u64::from_le_bytes(self.load()) >> (self.at & 7);
        self.at += bits as usize;
        word & mask(bits)
    }

    /// The next `bits` (at most [`WIDE_BITS_MAX`]) bits; bits above them are not masked.
    #[inline(always)]
    pub(crate) fn take_wide(&mut self, bits: u32) -> u128 {
        let word = u128::from_le_bytes(self.load()) >> (self.at & 7);
        self.at += bits as usize;
        word
    }

    #[inline(always)]
    fn load<const BYTES: usize>(&self) -> [u8; BYTES] {
        let rest = self.bytes.get(self.at >> 3..).unwrap_or(&[]);
        match rest.first_chunk() {
            Some(chunk) => *chunk,
            None => last(rest),
        }
    }

    /// Whether nothing but zeros is left of the last byte.
    pub(crate) fn is_padding(&self) -> bool {
        self.at.div_ceil(8) == self.bytes.len() && u64::from_le_bytes(self.load()) >> (self.at & 7) == 0
    }
}

#[cold]
fn last<const BYTES: usize>(rest: &[u8]) -> [u8; BYTES] {
    let mut chunk = [0; BYTES];
    chunk[..rest.len()].copy_from_slice(rest);
    chunk
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
        let wide = |i: u64| i.is_multiple_of(3);
        let bits_of = |i: u64| (i * 37 % u64::from(if wide(i) { WIDE_BITS_MAX } else { NARROW_BITS_MAX } + 1)) as u32;
        let value_of = |i: u64| {
            let number = u128::from(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xD134_2543_DE82_EF95_0001);
            if bits_of(i) == 0 { 0 } else { number >> (128 - bits_of(i)) }
        };
        for fields in (0..150).chain([2000]) {
            let bits: usize = (0..fields).map(|i| bits_of(i) as usize).sum();
            let mut bytes = vec![7];
            let mut writer = BitWriter::new(&mut bytes, bits);
            for i in 0..fields {
                if wide(i) {
                    writer.put_wide(value_of(i), bits_of(i))
                } else {
                    writer.put(value_of(i) as u64, bits_of(i))
                }
            }
            writer.finish();
            assert_eq!((bytes.len(), bytes[0]), (1 + bits.div_ceil(8), 7));
            let mut reader = BitReader::new(&bytes[1..]);
            for i in 0..fields {
                let value = if wide(i) {
                    reader.take_wide(bits_of(i)) & ((1 << bits_of(i)) - 1)
                } else {
                    reader.take(bits_of(i)).into()
                };
                assert_eq!(value, value_of(i), "field {i} of {fields}");
            }
            assert!(reader.is_padding());
            assert!(!BitReader::new(&bytes).is_padding(), "nothing was taken");
        }
    }

    #[test]
    fn widths_are_those_of_the_greatest_number() {
        let widths =
            [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (1 << 40, 40), ((1 << 40) + 1, 41), (1 << 63, 63), (u64::MAX, 64)];
        for (range, bits) in widths {
            assert_eq!(bits_below(range), bits, "below {range}");
        }
    }
}
