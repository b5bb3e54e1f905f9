//! Counters of the HTTP endpoint.
//!
//! This module does not depend on who reads the counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use firstseen_backend::ConnectionCounts;

/// Calls that are counted by name.
const CALLS: [&str; 9] = ["claim", "confirm", "dedup", "filter", "filters", "observe", "openapi", "release", "test"];

/// Counters since the endpoint was started.
#[derive(Debug, Default)]
pub struct HttpCounts {
    /// Number of calls, in the order of [`CALLS`].
    by_call: [AtomicU64; CALLS.len()],
    pub(crate) events: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) undecided: AtomicU64,
    connections: Arc<ConnectionCounts>,
    pub(crate) streams: AtomicU64,
}

/// Number of times that a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCount {
    /// Name of the call.
    pub call: &'static str,
    /// Number of calls.
    pub count: u64,
}

impl HttpCounts {
    pub(crate) fn connections(&self) -> Arc<ConnectionCounts> {
        self.connections.clone()
    }

    /// Counts a call with this name.
    pub(crate) fn call(&self, name: &str) {
        if let Some(count) = CALLS.iter().position(|call| *call == name).and_then(|at| self.by_call.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a reply with this status code.
    pub(crate) fn reply(&self, status: StatusCode) {
        let is_refused = status.is_client_error() && status != StatusCode::CONFLICT;
        self.refused.fetch_add(u64::from(is_refused), Ordering::Relaxed);
    }

    /// Returns the calls that were made at least once.
    pub fn calls(&self) -> impl Iterator<Item = CallCount> + '_ {
        let counts = CALLS.iter().zip(&self.by_call).map(|(call, count)| (*call, count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).map(|(call, count)| CallCount { call, count })
    }

    /// Returns the number of events in all calls.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Returns the number of rejected requests. A request is rejected if its status code is between 400 and 499, except
    /// for the code 409, which reports a duplicate.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of undecided events.
    pub fn undecided(&self) -> u64 {
        self.undecided.load(Ordering::Relaxed)
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> u64 {
        self.connections.open()
    }

    /// Returns the number of connections that were rejected because the limit was reached.
    pub fn rejected_connections(&self) -> u64 {
        self.connections.rejected_connections()
    }

    /// Returns the number of `dedup` requests in progress.
    pub fn streams(&self) -> u64 {
        self.streams.load(Ordering::Relaxed)
    }
}
