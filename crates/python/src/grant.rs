//! Claims that this process holds, as Python objects.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use firstseen_client::{Claim, Fence};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bridge::Bridge;

/// An event that this process has claimed. The event is released when the object is dropped, unless `keep` was called.
#[pyclass(frozen, module = "firstseen._firstseen")]
pub(crate) struct Grant {
    bridge: Bridge,
    key: Box<[u8]>,
    time_ms: Option<u64>,
    fence: Fence,
    /// When the lease ends at the earliest.
    until: Instant,
    /// Releases the event when it is dropped. `None` after `keep`.
    claim: Mutex<Option<Claim>>,
}

/// An event that this process holds.
pub(crate) struct Held {
    pub(crate) key: Box<[u8]>,
    pub(crate) time_ms: Option<u64>,
    pub(crate) fence: Fence,
}

impl Grant {
    pub(crate) fn new(bridge: Bridge, claim: Claim, key: Box<[u8]>, time_ms: Option<u64>, until: Instant) -> Self {
        Self { bridge, key, time_ms, fence: claim.fence, until, claim: Mutex::new(Some(claim)) }
    }

    /// Returns the event, which is no longer released when this object is dropped.
    pub(crate) fn held(&self) -> Held {
        self.keep();
        Held { key: self.key.clone(), time_ms: self.time_ms, fence: self.fence }
    }

    fn take(&self) -> Option<Claim> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn release_if_held(&self) {
        let Some(claim) = self.take() else { return };
        if self.bridge.is_forked() {
            // The claim belongs to the parent process.
            std::mem::forget(claim);
        } else {
            self.bridge.enter(|| drop(claim));
        }
    }
}

#[pymethods]
impl Grant {
    /// Number of the grant. Of two grants of one event, the later one has the greater number.
    #[getter]
    fn fence<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.fence.to_bytes())
    }

    /// Remaining seconds of the lease.
    #[getter]
    fn left_s(&self) -> f64 {
        self.until.saturating_duration_since(Instant::now()).as_secs_f64()
    }

    /// Begins the delivery: dropping this object no longer releases the event.
    fn keep(&self) {
        if let Some(claim) = self.take() {
            drop(claim.deliver());
        }
    }

    /// Queues the release of the event, if `keep` was not called, and does not wait for it.
    fn release_later(&self) {
        self.release_if_held();
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.release_if_held();
    }
}
