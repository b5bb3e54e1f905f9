//! Work that waits for one node: queued events of all filters, and complete batches that are retried or were first
//! meant for another node.
//!
//! This module does not depend on streams or retries.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use crate::call::lock;
use crate::intake::FilterCore;
use crate::node_queue::NodeQueue;
use crate::routed_batch::RoutedBatch;
use crate::shared::Target;
use crate::traffic::TrafficMeter;

/// Work of one sender.
pub(crate) struct Outbox {
    pub(crate) target: Target,
    pub(crate) queue: Arc<NodeQueue<FilterCore>>,
    /// Complete batches that wait to be sent.
    batches: Mutex<VecDeque<RoutedBatch>>,
    pub(crate) traffic: TrafficMeter,
}

impl Outbox {
    pub(crate) fn new(target: Target) -> Arc<Self> {
        let queue = Arc::new(NodeQueue::new());
        Arc::new(Self { target, queue, batches: Mutex::default(), traffic: TrafficMeter::default() })
    }

    /// Appends a batch to the queue.
    pub(crate) fn deliver(&self, piece: RoutedBatch) {
        lock(&self.batches).push_back(piece);
        self.queue.wake.notify_one();
    }

    pub(crate) fn next_batch(&self) -> Option<RoutedBatch> {
        lock(&self.batches).pop_front()
    }

    /// Removes and returns the batches whose deadline has passed.
    pub(crate) fn take_expired(&self, now: Instant) -> Vec<RoutedBatch> {
        let mut batches = lock(&self.batches);
        if batches.iter().all(|piece| piece.deadline > now) {
            return Vec::new();
        }
        let (expired, kept) = std::mem::take(&mut *batches).into_iter().partition(|piece| piece.deadline <= now);
        *batches = Vec::into(kept);
        expired
    }

    /// Returns whether there is nothing to send.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && lock(&self.batches).is_empty()
    }

    /// Ends all work that waits here. Callers that still wait receive an answer.
    pub(crate) fn clear(&self) {
        let batches = std::mem::take(&mut *lock(&self.batches));
        // A batch answers its callers when it is dropped. That must not happen while the lock is held.
        drop(batches);
        self.queue.clear();
    }
}
