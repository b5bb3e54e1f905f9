//! Filters in one process: which kind a filter has if the user names none, and files with the state of filters. The
//! command `firstseen dedup` and the Python package share this crate, so that each of them continues the files of the
//! other.
#![warn(missing_docs)]

mod beyond;
mod judge;
mod kind_choice;
mod lock;
pub mod paths;
mod seed;
mod state_file;

pub use beyond::BeyondWindow;
pub use judge::{Access, Judge, can_contain};
pub use kind_choice::{KindChoice, Stamps, default_kind, lateness_default_ms, meant};
pub use lock::{Lock, LockError};
pub use seed::drawn_seed;
pub use state_file::{Cause, StateError, StateFile, StateHeader, check_writable, save};
