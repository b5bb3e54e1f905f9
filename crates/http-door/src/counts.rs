//! What has happened at the door, in numbers.
//!
//! This module must not depend on who reads the counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;
use firstseen_backend::ConnectionCounts;

/// The calls that are counted by name.
const CALLS: [&str; 9] = ["claim", "confirm", "dedup", "filter", "filters", "observe", "openapi", "release", "test"];

/// What has happened since the door was opened.
#[derive(Debug, Default)]
pub struct HttpCounts {
    /// In the order of [`CALLS`].
    by_call: [AtomicU64; CALLS.len()],
    pub(crate) events: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) undecided: AtomicU64,
    connections: Arc<ConnectionCounts>,
    pub(crate) streams: AtomicU64,
}

/// How often a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallCount {
    /// The call.
    pub call: &'static str,
    /// How often.
    pub count: u64,
}

impl HttpCounts {
    pub(crate) fn connections(&self) -> Arc<ConnectionCounts> {
        self.connections.clone()
    }

    /// A call has come.
    pub(crate) fn call(&self, name: &str) {
        if let Some(count) = CALLS.iter().position(|call| *call == name).and_then(|at| self.by_call.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A reply has this status.
    pub(crate) fn reply(&self, status: StatusCode) {
        let is_refused = status.is_client_error() && status != StatusCode::CONFLICT;
        self.refused.fetch_add(u64::from(is_refused), Ordering::Relaxed);
    }

    /// The calls that were made at least once.
    pub fn calls(&self) -> impl Iterator<Item = CallCount> + '_ {
        let counts = CALLS.iter().zip(&self.by_call).map(|(call, count)| (*call, count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).map(|(call, count)| CallCount { call, count })
    }

    /// Events that were asked about.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Requests that were refused: those with a status from 400 to 499, except 409 (a duplicate).
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Events that were undecided.
    pub fn undecided(&self) -> u64 {
        self.undecided.load(Ordering::Relaxed)
    }

    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.connections.open()
    }

    /// Connections for which there was no room.
    pub fn turned_away(&self) -> u64 {
        self.connections.turned_away()
    }

    /// Calls of `dedup` that are under way.
    pub fn streams(&self) -> u64 {
        self.streams.load(Ordering::Relaxed)
    }
}
