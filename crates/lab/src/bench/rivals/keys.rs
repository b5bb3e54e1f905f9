//! The keys: 24 printable bytes, all different, in no order.
//!
//! Promises: the same keys in every run. Must not know: systems, times.

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 24;

/// As many keys as anybody asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys;

impl Keys {
    /// Key `number`. An odd factor makes different numbers of different numbers, far apart.
    pub(super) fn key(self, number: u64) -> [u8; KEY_BYTES] {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let scattered = number.wrapping_mul(FACTOR);
        let mut key = *b"session-0000000000000000";
        for (place, letter) in key[8..].iter_mut().enumerate() {
            *letter = b"0123456789abcdef"[(scattered >> (4 * place) & 15) as usize];
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_differ_and_can_be_printed() {
        let keys: HashSet<_> = (0..10_000).map(|number| Keys.key(number)).collect();
        assert_eq!(keys.len(), 10_000);
        assert!(keys.iter().flatten().all(u8::is_ascii_graphic));
    }
}
