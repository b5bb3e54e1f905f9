//! Finds the bytes that separate fields and records in a block: separators, newlines and quotes. The search examines 64
//! bytes at a time, which makes it fast, because most bytes belong to values and can be skipped together.

use wide::u8x16;

const CHUNK_BYTES: usize = 64;

/// Iterates over the positions of `N` different bytes in ascending order. A jump ([`Marks::seek`]) costs one chunk.
pub(crate) struct Marks<'a, const N: usize> {
    bytes: &'a [u8],
    needles: [u8x16; N],
    chunk_start: usize,
    mask: u64,
}

impl<'a, const N: usize> Marks<'a, N> {
    pub(crate) fn new(bytes: &'a [u8], start: usize, needles: [u8; N]) -> Self {
        let mut marks = Self { bytes, needles: needles.map(u8x16::splat), chunk_start: 0, mask: 0 };
        marks.seek(start);
        marks
    }

    /// Continues at `start`, which may be before or after the present position.
    #[inline]
    pub(crate) fn seek(&mut self, start: usize) {
        self.chunk_start = start;
        self.mask = self.mask_at(start);
    }

    #[inline]
    fn mask_at(&self, start: usize) -> u64 {
        let rest = self.bytes.get(start..).unwrap_or_default();
        if let Some(chunk) = rest.first_chunk() {
            return self.mask_of(chunk);
        }
        let mut padded = [0; CHUNK_BYTES];
        padded[..rest.len()].copy_from_slice(rest);
        self.mask_of(&padded) & ((1 << rest.len()) - 1)
    }

    #[inline(always)]
    fn mask_of(&self, chunk: &[u8; CHUNK_BYTES]) -> u64 {
        let mut mask = 0;
        for (index, part) in chunk.as_chunks::<16>().0.iter().enumerate() {
            let part = u8x16::new(*part);
            let mut hits = u8x16::ZERO;
            for needle in self.needles {
                hits |= part.simd_eq(needle);
            }
            mask |= u64::from(hits.to_bitmask()) << (16 * index);
        }
        mask
    }
}

impl<const N: usize> Iterator for Marks<'_, N> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.mask == 0 {
            self.chunk_start += CHUNK_BYTES;
            if self.chunk_start >= self.bytes.len() {
                return None;
            }
            self.mask = self.mask_at(self.chunk_start);
        }
        let place = self.chunk_start + self.mask.trailing_zeros() as usize;
        self.mask &= self.mask - 1;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_where_a_plain_search_finds_them() {
        let bytes: Vec<u8> = (0..1_000u32).map(|i| b"a,\n\"\0"[(i * i % 5) as usize]).collect();
        for length in [0, 1, 63, 64, 65, 128, 1_000] {
            for start in [0, 1, 40, 64, 999] {
                let found: Vec<usize> = Marks::new(&bytes[..length], start, *b",\n").collect();
                let expected: Vec<usize> =
                    (start..length).filter(|&place| matches!(bytes[place], b',' | b'\n')).collect();
                assert_eq!(found, expected, "{length} bytes from {start}");
            }
        }
    }
}
