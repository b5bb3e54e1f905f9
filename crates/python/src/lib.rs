//! The Python package `firstseen`: filters in the process of a Python program, and filters of a cluster. They give the
//! same answers as the command `firstseen dedup`, and read and write the same files.
//!
//! A batch passes through these modules:
//!
//! 1. `keys` and `arrow` hash the keys of a batch to digests, and `times` reads the times of its events.
//! 2. `batch` leaves out events without a key or a time.
//! 3. `engine` judges the others, while other Python threads run.
//! 4. `filter` returns the verdicts as Python objects.
//!
//! The class `Filter` keeps its events in the process. For filters of a cluster, `session` sends the events to the nodes
//! in place of steps 3 and 4, and `bridge` lets a thread or an asyncio task of the Python program wait for the answer.
//!
//! The Python files of the package are in `python/firstseen`.

mod arrow;
mod batch;
mod bridge;
mod code;
mod connection;
mod engine;
mod error;
mod filter;
mod grant;
mod keys;
mod missing;
mod moment;
mod plan;
mod session;
mod settings;
mod times;
mod verdicts;

use pyo3::prelude::*;

/// The part of the package that is written in Rust.
#[pymodule]
mod _firstseen {
    #[pymodule_export]
    use crate::filter::Filter;
    #[pymodule_export]
    use crate::grant::Grant;
    #[pymodule_export]
    use crate::plan::plan;
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::session::connect;

    /// Version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
