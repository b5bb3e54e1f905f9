//! Parses integers as Redis does.

/// Parses a decimal integer. Only a minus sign is allowed, and there must be no leading zeros, spaces or other
/// characters.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // A number of 19 digits is below 10^19, which fits in 64 bits.
        value = value * 10 + u64::from(digit - b'0');
    }
    if is_negative { 0_i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}
