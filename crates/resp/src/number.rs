//! Integers as Redis reads them. Must not know: what they count.

/// The integer that is written in decimal: no sign but a minus, no leading zeros, no spaces, nothing else.
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
        // 19 digits are below 10^19, which 64 bits hold.
        value = value * 10 + u64::from(digit - b'0');
    }
    if is_negative { 0_i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}
