//! State that the requests of the HTTP endpoint share.
//!
//! This module does not depend on requests.

use std::sync::Arc;

use bytes::Bytes;
use firstseen_backend::{Filters, Host, Hosts};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::counts::HttpCounts;

/// State that the requests of one worker share.
pub(crate) struct Shared {
    pub(crate) filters: Filters,
    /// The same filters, opened through a client with a longer deadline. Streams of records use it, because they can
    /// wait.
    pub(crate) patient: Filters,
    pub(crate) common: Arc<Common>,
    /// Token that is cancelled when the endpoint stops.
    pub(crate) stop: CancellationToken,
}

/// State that all requests share.
pub(crate) struct Common {
    pub(crate) host: Arc<dyn Host>,
    /// Host names by which clients without a token may address the node. `None` allows any name.
    pub(crate) hosts: Option<Hosts>,
    pub(crate) counts: Arc<HttpCounts>,
    /// Maximum size of the body of a call, in bytes.
    pub(crate) body_bytes_max: usize,
    /// Memory budget for bodies and replies.
    pub(crate) room: Arc<Semaphore>,
    /// Permits for streams.
    pub(crate) streams: Arc<Semaphore>,
    /// OpenAPI document of the endpoint.
    pub(crate) openapi: Bytes,
}
