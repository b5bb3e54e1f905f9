//! The progress of a node's shutdown. A shutdown has several stages, which services watch to learn what they must still
//! do. When a stage has begun, the node never returns to an earlier stage.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

/// The progress of a node's shutdown. The node first continues to serve, then drains, and finally completes its
/// journal.
#[derive(Default)]
pub(crate) struct Shutdown {
    /// The node is about to drain. It still serves while other copies fetch cells that only this node has.
    pub(crate) leaving: AtomicBool,
    /// Cancelled when the Redis endpoint and the HTTP endpoint must close. At this stage of the shutdown, the node
    /// itself still accepts batches. The Redis endpoint needs this, because it sends batches to confirm the remaining
    /// claims of its clients.
    pub(crate) endpoint_closed: CancellationToken,
    /// The node accepts no new batches.
    pub(crate) draining: AtomicBool,
    /// Cancelled when the node stops accepting batches.
    pub(crate) drained: CancellationToken,
    /// Cancelled when streams and links must end.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when no more records will arrive, so that the journal can be completed.
    pub(crate) kept: CancellationToken,
}

impl Shutdown {
    /// Returns whether the node has stopped accepting batches.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns whether the shutdown has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.is_draining() || self.leaving.load(Ordering::Relaxed)
    }
}
