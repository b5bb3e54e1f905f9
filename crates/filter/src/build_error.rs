//! The error for a slice that cannot be built.
//!
//! This module does not depend on how slices are built.

use std::io;

use thiserror::Error;

use crate::counting::CountingError;
use crate::decaying::DecayingError;
use crate::stable::StableError;

/// Reason why a slice cannot be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The operating system does not provide the memory.
    #[error("no memory for {bytes} bytes of cells ({source}): ask for a smaller capacity or a higher rate")]
    Memory {
        /// Size of the cells in bytes.
        bytes: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The window of the definition does not fit its cells, for example because the definition was edited by hand.
    #[error("the definition's window does not fit its cells: describe the filter by its window and capacity")]
    Window,
    /// A field is out of range, for example because the definition was edited by hand.
    #[error("`{field}` of the definition is {value}: {rule}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: String,
        /// Valid values of the field.
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
