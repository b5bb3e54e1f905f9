//! Errors of encoding and decoding messages.
//!
//! Every error names the field that is wrong.

use thiserror::Error;

/// Error returned when a message cannot be decoded or encoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// A required field is missing.
    #[error("`{field}` is missing")]
    Missing {
        /// Name of the field.
        field: &'static str,
    },
    /// A field has another length than the rest of the message requires.
    #[error("`{field}` has length {found} instead of {expected}")]
    Length {
        /// Name of the field.
        field: &'static str,
        /// Length of the field.
        found: u64,
        /// Required length.
        expected: u64,
    },
    /// A number exceeds its limit.
    #[error("`{field}` holds {found}, at most {max} is allowed")]
    TooGreat {
        /// Name of the field.
        field: &'static str,
        /// Number that was found.
        found: u64,
        /// Greatest number that is allowed.
        max: u64,
    },
    /// The field ends in the middle of a number, or the number has more than 64 bits.
    #[error("`{field}` is cut off or damaged")]
    Damaged {
        /// Name of the field.
        field: &'static str,
    },
    /// The field has a value that the protocol does not define, or does not allow here.
    #[error("`{field}` must not hold {value} here")]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u64,
    },
    /// The peer speaks another version of the protocol.
    #[error("the peer speaks version {theirs} of the protocol, this end {ours}: upgrade the older of the two")]
    Version {
        /// Version of the peer.
        theirs: u32,
        /// Version of this program.
        ours: u32,
    },
}

/// Returns an error if a list does not have the length that the rest of the message requires.
pub(crate) fn check_length(field: &'static str, found: usize, expected: usize) -> Result<(), WireError> {
    if found == expected {
        Ok(())
    } else {
        Err(WireError::Length { field, found: found as u64, expected: expected as u64 })
    }
}

/// Returns an error if a number exceeds its limit.
pub(crate) fn check_at_most(field: &'static str, found: u64, max: u64) -> Result<(), WireError> {
    if found <= max { Ok(()) } else { Err(WireError::TooGreat { field, found, max }) }
}
