//! How far a node has come on the way to its end.
//!
//! Promises: a state that is entered is never left. Must not know: what a state means to services.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// How far a node has come on the way to its end: first it is about to drain, and last its journal is written.
#[derive(Default)]
pub(crate) struct Departure {
    /// The node is about to drain: it still serves, for as long as other copies fetch cells that only it has.
    pub(crate) leaving: AtomicBool,
    /// Cancelled when the doors for Redis and HTTP clients close, while the node still takes batches: that for Redis confirms
    /// claims then.
    pub(crate) door_closed: CancellationToken,
    /// No new batches are taken.
    pub(crate) draining: AtomicBool,
    /// Cancelled when no new batches are taken.
    pub(crate) drained: CancellationToken,
    /// Streams and links end now.
    pub(crate) stopping: CancellationToken,
    /// All records are written, and no more come.
    pub(crate) kept: CancellationToken,
}

impl Departure {
    /// Whether no new batches are taken.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Whether the node is about to drain, or drains.
    pub(crate) fn has_begun(&self) -> bool {
        self.is_draining() || self.leaving.load(Ordering::Relaxed)
    }
}
