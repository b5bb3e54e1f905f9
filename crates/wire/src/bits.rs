//! Writes and reads streams of bit fields. Each byte is filled from its lowest bit upwards.
//!
//! Bit fields are stored one after the other without gaps. If the last field ends within a byte, the rest of that byte
//! is filled with zeros.

/// Maximum width of a narrow field. Together with up to 7 bits that precede it in its first byte, the field fits in a
/// 64-bit word.
pub(crate) const NARROW_BITS_MAX: u32 = 57;

/// Maximum width of a wide field. Together with up to 7 bits that precede it in its first byte, the field fits in 128
/// bits.
pub(crate) const WIDE_BITS_MAX: u32 = 121;

/// Number of bytes that writing one field may touch.
const STORE_BYTES: usize = 16;

/// Writer that appends bit fields to a byte vector.
///
/// For speed, the writer has no branch that depends on where a field ends. It stores each field in a whole word, which
/// begins at the byte in which the field begins. The bits of the word after the field are zero. When the next field is
/// stored, it overwrites them.
pub(crate) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Index of the byte in which the next field begins.
    at: usize,
    /// Bits of that byte that are already used, fewer than 8.
    pending: u64,
    pending_bits: u32,
}

impl<'a> BitWriter<'a> {
    /// Creates a writer that starts at the end of `out` and reserves memory for `bits` bits. The caller must not write
    /// more bits than that.
    pub(crate) fn new(out: &'a mut Vec<u8>, bits: usize) -> Self {
        let at = out.len();
        out.resize(at + bits.div_ceil(8) + STORE_BYTES, 0);
        Self { out, at, pending: 0, pending_bits: 0 }
    }

    /// Appends the lowest `bits` bits of `value`, at most [`NARROW_BITS_MAX`]. All higher bits of `value` must be zero.
    #[inline(always)]
    pub(crate) fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= NARROW_BITS_MAX && value & !mask(bits) == 0);
        let word = self.pending | value << self.pending_bits;
        self.out[self.at..self.at + 8].copy_from_slice(&word.to_le_bytes());
        let end = self.pending_bits + bits;
        // If the word is full, the shift wraps around to 0, and the mask then leaves no bits.
        self.pending = word >> (end & !7 & 63) & mask(end & 7);
        self.pending_bits = end & 7;
        self.at += (end >> 3) as usize;
    }

    /// Appends the lowest `bits` bits of `value`, at most [`WIDE_BITS_MAX`]. All higher bits of `value` must be zero.
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

    /// Removes the reserved bytes that were not used.
    pub(crate) fn finish(self) {
        self.out.truncate(self.at + usize::from(self.pending_bits > 0));
    }
}

/// Reader of bit fields. Beyond the end of the bytes, all fields read as zero.
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Position of the next field, in bits.
    at: usize,
}

impl<'a> BitReader<'a> {
    /// Creates a reader that starts at the first bit.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads the next `bits` bits, at most [`NARROW_BITS_MAX`].
    #[inline(always)]
    pub(crate) fn take(&mut self, bits: u32) -> u64 {
        let word = u64::from_le_bytes(self.load()) >> (self.at & 7);
        self.at += bits as usize;
        word & mask(bits)
    }

    /// Reads the next `bits` bits, at most [`WIDE_BITS_MAX`]. The higher bits of the result are not masked, so the
    /// caller must ignore them.
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

    /// Returns whether the reader is in the last byte and only zero bits are left.
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

/// Returns a number whose lowest `bits` bits are set.
#[inline(always)]
pub(crate) fn mask(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits.min(64)).unwrap_or(0)
}

/// Returns the number of bits that any number below `range` fits in.
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
            assert!(!BitReader::new(&bytes).is_padding(), "the bytes that were not read are not padding");
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
