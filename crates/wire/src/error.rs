//! Why a message cannot be read or written.
//!
//! Promises: the field is named. Must not know: who gets the error.

use thiserror::Error;

/// Why a message cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// A field must be there.
    #[error("`{field}` is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// Another length follows from the rest of the message.
    #[error("`{field}` has length {found} instead of {expected}")]
    Length {
        /// The field.
        field: &'static str,
        /// What came.
        found: u64,
        /// What must.
        expected: u64,
    },
    /// A number is above its limit.
    #[error("`{field}` holds {found}, at most {max} is allowed")]
    TooGreat {
        /// The field.
        field: &'static str,
        /// What came.
        found: u64,
        /// What may.
        max: u64,
    },
    /// The field ends in the middle of a number, or the number has more than 64 bits.
    #[error("`{field}` is cut off or damaged")]
    Damaged {
        /// The field.
        field: &'static str,
    },
    /// A value that is no part of the protocol, or not where it stands.
    #[error("`{field}` must not hold {value} here")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// The other end speaks another version.
    #[error("the peer speaks version {theirs} of the protocol, this end {ours}: upgrade the older of the two")]
    Version {
        /// The peer's.
        theirs: u32,
        /// One's own.
        ours: u32,
    },
}

/// The error of a list of another length than the rest of the message says.
pub(crate) fn check_length(field: &'static str, found: usize, expected: usize) -> Result<(), WireError> {
    if found == expected {
        Ok(())
    } else {
        Err(WireError::Length { field, found: found as u64, expected: expected as u64 })
    }
}

/// The error of a number above its limit.
pub(crate) fn check_at_most(field: &'static str, found: u64, max: u64) -> Result<(), WireError> {
    if found <= max { Ok(()) } else { Err(WireError::TooGreat { field, found, max }) }
}
