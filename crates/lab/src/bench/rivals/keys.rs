//! Keys for the comparison with other systems. Each key consists of 24 printable bytes. All keys are different, and
//! consecutive keys are far apart in sort order. Every run uses the same keys, so that the results of different systems
//! can be compared.

/// Length of a key in bytes.
pub(super) const KEY_BYTES: usize = 24;

/// Unlimited supply of keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys;

impl Keys {
    /// Returns key `number`. Multiplication by an odd factor maps different numbers to different results that are far
    /// apart.
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
