//! Pseudorandom numbers for command ids, timeouts and filler bytes. A number is computed from the input of the function
//! alone, without a source of randomness. The same input therefore gives the same number on every node and in every
//! version of the program.

/// Returns 64 pseudorandom bits that depend on `value` (the finalizer of SplitMix64).
pub(crate) fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Returns 128 pseudorandom bits that depend on `parts`.
pub(crate) fn mixed_128(parts: &[u64]) -> [u8; 16] {
    let mut bits = [0; 16];
    bits[..8].copy_from_slice(&folded(1, parts).to_le_bytes());
    bits[8..].copy_from_slice(&folded(2, parts).to_le_bytes());
    bits
}

fn folded(start: u64, parts: &[u64]) -> u64 {
    parts.iter().fold(start, |sum, part| mixed(sum ^ part))
}

/// Returns the low and the high half of an id.
pub(crate) fn halves(id: [u8; 16]) -> [u64; 2] {
    let id = u128::from_le_bytes(id);
    [id as u64, (id >> 64) as u64]
}
