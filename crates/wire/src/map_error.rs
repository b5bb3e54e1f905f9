//! Errors of decoding a cluster map or one of its records.
//!
//! Every error names the field that is wrong.

use thiserror::Error;

/// Error returned when a cluster map or a record cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// A required field is missing or has an unknown value.
    #[error("field `{field}` of the map is missing or unknown ({value}): is the peer of a newer version?")]
    Unknown {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: i64,
    },
    /// A field is longer than allowed.
    #[error("field `{field}` of the map has length {length}, at most {length_max} is allowed")]
    TooLong {
        /// Name of the field.
        field: &'static str,
        /// Length of the field.
        length: usize,
        /// Maximum length.
        length_max: usize,
    },
    /// A list does not have the required number of entries.
    #[error("field `{field}` of the map has {found} entries instead of {expected}")]
    Count {
        /// Name of the field.
        field: &'static str,
        /// Number of entries that were found.
        found: usize,
        /// Required number of entries.
        expected: usize,
    },
    /// Two records have the same number.
    #[error("number {id} stands twice in `{field}` of the map")]
    Twice {
        /// Name of the field.
        field: &'static str,
        /// Number that occurs twice.
        id: u64,
    },
    /// The field is not a pattern of filter names, or contains names where none are allowed.
    #[error(
        "field `{field}` has to be the name of a filter, or what names begin with and a *; and empty for a verb of the cluster"
    )]
    Names {
        /// Name of the field.
        field: &'static str,
    },
    /// The field is not a digest.
    #[error("field `{field}` has to be a SHA-256, which has 32 bytes")]
    Digest {
        /// Name of the field.
        field: &'static str,
    },
    /// The text is not a valid slicing.
    #[error("{0}")]
    Slicing(String),
    /// The definition of a filter cannot be parsed.
    #[error("the definition of filter `{filter}` cannot be read: {reason}")]
    Definition {
        /// Name of the filter.
        filter: String,
        /// Error text of the parser.
        reason: String,
    },
}

pub(crate) fn check_length(field: &'static str, length: usize, length_max: usize) -> Result<(), MapError> {
    if length <= length_max { Ok(()) } else { Err(MapError::TooLong { field, length, length_max }) }
}
