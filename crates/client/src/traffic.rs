//! Counts batches and answers on the streams to nodes.
//!
//! The counters include every batch that the client sends, and every answer that a node returns. A batch that is
//! retried is counted each time that it is sent.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts of the batches to one node and of their answers so far. Byte counts are sizes of messages, without the
/// framing of HTTP/2 and TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTraffic {
    /// Name of the node. The name is empty for batches that any reachable node relayed.
    pub name: String,
    /// Number of batches that were sent.
    pub batches: u64,
    /// Size of these batches in bytes.
    pub sent_bytes: u64,
    /// Size of the answers in bytes.
    pub received_bytes: u64,
}

/// Traffic counters of one sender.
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

    /// Returns the counts under the name of the node.
    pub(crate) fn of(&self, name: String) -> NodeTraffic {
        NodeTraffic {
            name,
            batches: self.batches.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
        }
    }
}
