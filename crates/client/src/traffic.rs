//! Counts of batches and answers on the streams to nodes.
//!
//! Promises: every batch that is sent counts, also one that is sent again, and every answer. Must not know: what is in
//! them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Batches to one node and their answers so far. Bytes are those of messages, without the framing of HTTP/2 and TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTraffic {
    /// The name of the node; empty for batches that were relayed by any node that could be reached.
    pub name: String,
    /// Batches that were sent.
    pub batches: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Bytes of the answers.
    pub received_bytes: u64,
}

/// Counts the traffic of one sender.
#[derive(Debug, Default)]
pub(crate) struct TrafficMeter {
    batches: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

impl TrafficMeter {
    pub(crate) fn sent(&self, bytes: usize) {
        self.batches.fetch_add(1, Relaxed);
        self.sent_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// The counts, under the name of the node.
    pub(crate) fn of(&self, name: String) -> NodeTraffic {
        NodeTraffic {
            name,
            batches: self.batches.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
        }
    }
}
