//! Bytes as hexadecimal digits.

/// Returns the digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes that `digits` encode, or `None` if some are no digits or one is left over.
pub(crate) fn bytes_of_hex(digits: &str) -> Option<Vec<u8>> {
    let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
    bytes.collect()
}
