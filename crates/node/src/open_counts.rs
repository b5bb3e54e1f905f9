//! Counts of what a node serves at present.
//!
//! Promises: plain counts; whoever opens a stream or a batch counts it down again. Must not know: what is counted.

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use firstseen_door::DoorCounts;
use firstseen_http_door::HttpCounts;

/// Streams and batches of producers.
#[derive(Default)]
pub(crate) struct OpenCounts {
    /// Producer streams that are open.
    pub(crate) streams: AtomicU32,
    /// Streams on which the map is sent.
    pub(crate) watches: AtomicU32,
    /// Batches of all streams that are not answered.
    pub(crate) batches: AtomicU64,
}

/// What has happened at the doors; each is set once its door is open.
#[derive(Default)]
pub(crate) struct OpenDoors {
    /// The door for Redis clients.
    pub(crate) redis: OnceLock<Arc<DoorCounts>>,
    /// The door for HTTP clients.
    pub(crate) http: OnceLock<Arc<HttpCounts>>,
}
