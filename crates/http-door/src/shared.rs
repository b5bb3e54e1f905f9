//! What the requests of a door share.
//!
//! This module must not depend on requests.

use std::sync::Arc;

use bytes::Bytes;
use firstseen_backend::{Filters, Host, Hosts};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::counts::HttpCounts;

/// What the requests that one attendant serves share.
pub(crate) struct Shared {
    pub(crate) filters: Filters,
    /// The same filters, by a client that waits for longer: a stream of records has time.
    pub(crate) patient: Filters,
    pub(crate) common: Arc<Common>,
    /// Cancelled when the door closes.
    pub(crate) stop: CancellationToken,
}

/// What all requests share.
pub(crate) struct Common {
    pub(crate) host: Arc<dyn Host>,
    /// The names by which the node may be asked without a token; `None` allows any name.
    pub(crate) hosts: Option<Hosts>,
    pub(crate) counts: Arc<HttpCounts>,
    /// Bytes of the body of a call.
    pub(crate) body_bytes_max: usize,
    /// The room for the bytes that are held.
    pub(crate) room: Arc<Semaphore>,
    /// The places for streams.
    pub(crate) streams: Arc<Semaphore>,
    /// The description of the door.
    pub(crate) openapi: Bytes,
}
