//! Why a slice cannot be built. Must not know: how one is built.

use std::io;

use thiserror::Error;

use crate::counting::CountingError;
use crate::decaying::DecayingError;
use crate::stable::StableError;

/// Why a slice cannot be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The system refuses the memory.
    #[error("no memory for {bytes} bytes of cells ({source}): ask for a smaller capacity or a higher rate")]
    Memory {
        /// Bytes that the cells take.
        bytes: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// A definition that was changed by hand.
    #[error("the definition's window does not fit its cells: describe the filter by its window and capacity")]
    Window,
    /// A field that was changed by hand, to a value out of its range.
    #[error("`{field}` of the definition is {value}: {rule}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: String,
        /// The values that it may hold.
        rule: &'static str,
    },
    /// A counting filter of this shape is impossible.
    #[error(transparent)]
    Counting(#[from] CountingError),
    /// A stable filter of this shape is impossible.
    #[error(transparent)]
    Stable(#[from] StableError),
    /// A decaying filter of this shape is impossible.
    #[error(transparent)]
    Decaying(#[from] DecayingError),
}
