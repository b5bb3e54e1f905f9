//! Variable-length integers as in protobuf: 7 bits in each byte, the lowest bits first.
//!
//! A decoded variable-length integer has at most ten bytes and 64 bits.

use crate::error::WireError;

/// Appends a number.
#[inline]
pub(crate) fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a number from the front of `bytes`.
#[inline]
pub(crate) fn take(field: &'static str, bytes: &mut &[u8]) -> Result<u64, WireError> {
    match bytes.split_first() {
        Some((first, rest)) if *first < 0x80 => {
            *bytes = rest;
            Ok(u64::from(*first))
        }
        _ => take_long(field, bytes),
    }
}

fn take_long(field: &'static str, bytes: &mut &[u8]) -> Result<u64, WireError> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        let part = u64::from(byte & 0x7F);
        let shift = 7 * index as u32;
        if part << shift >> shift != part {
            break;
        }
        value |= part << shift;
        if *byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Ok(value);
        }
    }
    Err(WireError::Damaged { field })
}

/// Encodes a signed difference so that small differences in either direction become small numbers.
pub(crate) fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// Decodes a difference that [`zigzag`] has encoded.
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Returns an error if bytes are left.
pub(crate) fn check_end(field: &'static str, bytes: &[u8]) -> Result<(), WireError> {
    if bytes.is_empty() { Ok(()) } else { Err(WireError::Damaged { field }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_longer_ones_are_refused() {
        for value in (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            put(value, &mut bytes);
            let mut rest = &bytes[..];
            assert_eq!((take("number", &mut rest), rest), (Ok(value), &[][..]));
            assert!(take("number", &mut &bytes[..bytes.len() - 1]).is_err());
            assert_eq!(zigzag(unzigzag(value)), value);
        }
        let beyond = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02];
        assert_eq!(take("number", &mut &beyond[..]), Err(WireError::Damaged { field: "number" }));
        assert!(take("number", &mut &[0x80; 11][..]).is_err());
    }
}
