//! Counters of the streams and batches that a node is serving at the moment. Code that begins to serve a stream or a
//! batch increments the counter, and must decrement it when the stream or the batch has ended.

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use firstseen_http_endpoint::HttpCounts;
use firstseen_redis_endpoint::RedisEndpointCounts;

/// Numbers of open streams and unanswered batches of producers.
#[derive(Default)]
pub(crate) struct OpenCounts {
    /// Number of open producer streams.
    pub(crate) streams: AtomicU32,
    /// Number of streams on which clients receive the cluster map.
    pub(crate) watches: AtomicU32,
    /// Number of unanswered batches on all streams.
    pub(crate) batches: AtomicU64,
}

/// Counters of the Redis endpoint and the HTTP endpoint. Each of them is set when its endpoint has opened.
#[derive(Default)]
pub(crate) struct OpenEndpoints {
    /// Counters of the Redis endpoint.
    pub(crate) redis: OnceLock<Arc<RedisEndpointCounts>>,
    /// Counters of the HTTP endpoint.
    pub(crate) http: OnceLock<Arc<HttpCounts>>,
}
