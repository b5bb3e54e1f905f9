//! Why a map, or a record of one, cannot be read.
//!
//! Promises: the field is named. Must not know: what a field is for.

use thiserror::Error;

/// Why a map or a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// A field that must be there is missing or has no known value.
    #[error("field `{field}` of the map is missing or unknown ({value}): is the peer of a newer version?")]
    Unknown {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: i64,
    },
    /// Longer than allowed.
    #[error("field `{field}` of the map has length {length}, at most {length_max} is allowed")]
    TooLong {
        /// The field.
        field: &'static str,
        /// What came.
        length: usize,
        /// What may.
        length_max: usize,
    },
    /// Not as many as there must be.
    #[error("field `{field}` of the map has {found} entries instead of {expected}")]
    Count {
        /// The field.
        field: &'static str,
        /// What came.
        found: usize,
        /// What must.
        expected: usize,
    },
    /// Two records with one number.
    #[error("number {id} stands twice in `{field}` of the map")]
    Twice {
        /// The field.
        field: &'static str,
        /// The number.
        id: u64,
    },
    /// Not names of filters, or names where none belong.
    #[error(
        "field `{field}` has to be the name of a filter, or what names begin with and a *; and empty for a verb of the cluster"
    )]
    Names {
        /// The field.
        field: &'static str,
    },
    /// Not a digest.
    #[error("field `{field}` has to be a SHA-256, which has 32 bytes")]
    Digest {
        /// The field.
        field: &'static str,
    },
    /// Not a slicing.
    #[error("{0}")]
    Slicing(String),
    /// Not a definition of a filter.
    #[error("the definition of filter `{filter}` cannot be read: {reason}")]
    Definition {
        /// The filter's name.
        filter: String,
        /// What is wrong with it.
        reason: String,
    },
}

pub(crate) fn check_length(field: &'static str, length: usize, length_max: usize) -> Result<(), MapError> {
    if length <= length_max { Ok(()) } else { Err(MapError::TooLong { field, length, length_max }) }
}
