//! Converts bytes to hexadecimal digits and back.

/// Returns `bytes` as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes that `digits` encode. `None` means that a character is not a hexadecimal digit, or that the number
/// of digits is odd.
pub(crate) fn bytes_of_hex(digits: &str) -> Option<Vec<u8>> {
    let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
    bytes.collect()
}
