//! The Python package `firstseen`: filters in the process of a Python program. They give the same answers as the command
//! `firstseen dedup`, and read and write the same files.
//!
//! A batch passes through these modules:
//!
//! 1. `keys` and `arrow` hash the keys of a batch to digests, and `times` reads the times of its events.
//! 2. `batch` leaves out events without a key or a time.
//! 3. `engine` judges the others, while other Python threads run.
//! 4. `filter` returns the verdicts as Python objects.
//!
//! The Python files of the package are in `python/firstseen`.

mod arrow;
mod batch;
mod code;
mod engine;
mod error;
mod filter;
mod keys;
mod missing;
mod moment;
mod plan;
mod settings;
mod times;

use pyo3::prelude::*;

/// The part of the package that is written in Rust.
#[pymodule]
mod _firstseen {
    #[pymodule_export]
    use crate::filter::Filter;
    #[pymodule_export]
    use crate::plan::plan;

    /// Version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
