//! The history of a run, which all that takes part in it writes.
//!
//! Promises: what was written before a panic is still read. Must not know: who writes what.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstseen_checker::history::History;

/// The history that all who take part share.
pub(crate) type SharedHistory = Arc<Mutex<History>>;

/// Locks the history.
pub(crate) fn lock(history: &SharedHistory) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}
