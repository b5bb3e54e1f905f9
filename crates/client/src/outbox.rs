//! What waits for one node: events in the lanes of filters, and batches that are sent again or were made for another node.
//!
//! Must not know: streams, retries.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use crate::call::lock;
use crate::intake::FilterCore;
use crate::node_queue::NodeQueue;
use crate::piece::Piece;
use crate::shared::Target;
use crate::traffic::TrafficMeter;

/// The work of one sender.
pub(crate) struct Outbox {
    pub(crate) target: Target,
    pub(crate) queue: Arc<NodeQueue<FilterCore>>,
    /// Batches that were made already.
    batches: Mutex<VecDeque<Piece>>,
    pub(crate) traffic: TrafficMeter,
}

impl Outbox {
    pub(crate) fn new(target: Target) -> Arc<Self> {
        let queue = Arc::new(NodeQueue::new());
        Arc::new(Self { target, queue, batches: Mutex::default(), traffic: TrafficMeter::default() })
    }

    /// Puts a batch behind the others.
    pub(crate) fn deliver(&self, piece: Piece) {
        lock(&self.batches).push_back(piece);
        self.queue.wake.notify_one();
    }

    pub(crate) fn next_batch(&self) -> Option<Piece> {
        lock(&self.batches).pop_front()
    }

    /// Takes the batches whose time is over.
    pub(crate) fn take_expired(&self, now: Instant) -> Vec<Piece> {
        let mut batches = lock(&self.batches);
        if batches.iter().all(|piece| piece.deadline > now) {
            return Vec::new();
        }
        let (expired, kept) = std::mem::take(&mut *batches).into_iter().partition(|piece| piece.deadline <= now);
        *batches = Vec::into(kept);
        expired
    }

    /// Whether nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && lock(&self.batches).is_empty()
    }

    /// Ends all work that waits here.
    pub(crate) fn clear(&self) {
        let batches = std::mem::take(&mut *lock(&self.batches));
        // Batches answer their callers when they are dropped, and not under the lock.
        drop(batches);
        self.queue.clear();
    }
}
