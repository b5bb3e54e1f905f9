//! The history of a run, to which all participants write. Entries that were written before a panic can still be read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstseen_checker::history::History;

/// The history that all participants share.
pub(crate) type SharedHistory = Arc<Mutex<History>>;

/// Locks the history.
pub(crate) fn lock(history: &SharedHistory) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}
