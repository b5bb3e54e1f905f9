//! Claims that this process holds, as Python objects.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use firstseen_client::{Claim, Fence};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bridge::Bridge;

/// An event that this process has claimed. The event is released when the object is dropped, unless `keep` was called or
/// a call has confirmed or released it.
#[pyclass(frozen, module = "firstseen._firstseen")]
pub(crate) struct Grant {
    held: Arc<Held>,
    /// When the lease ends at the earliest.
    until: Instant,
}

/// An event that this process holds. Dropping it releases the event, if it still has the claim.
pub(crate) struct Held {
    pub(crate) key: Box<[u8]>,
    pub(crate) time_ms: Option<u64>,
    pub(crate) fence: Fence,
    bridge: Bridge,
    /// Releases the event when it is dropped. `None` after the delivery has begun, and while a call settles the claim.
    claim: Mutex<Option<Claim>>,
}

/// Claim that a call confirms or releases. If the call ends without a result, the event stays held until its lease ends,
/// because nodes may have received the call.
pub(crate) struct Settling(Option<ManuallyDrop<Claim>>);

impl Held {
    /// Takes the claim for a call, so that nothing else releases the event.
    pub(crate) fn settle(&self) -> Settling {
        Settling(self.take().map(ManuallyDrop::new))
    }

    /// Ends a call. If it was not submitted, the claim is as before.
    pub(crate) fn settled(&self, settling: Settling, is_submitted: bool) {
        let Some(claim) = settling.0.map(ManuallyDrop::into_inner) else { return };
        if is_submitted {
            drop(claim.deliver());
        } else {
            *self.claim.lock().unwrap_or_else(PoisonError::into_inner) = Some(claim);
        }
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

impl Drop for Held {
    fn drop(&mut self) {
        self.release_if_held();
    }
}

impl Grant {
    pub(crate) fn new(bridge: Bridge, claim: Claim, key: Box<[u8]>, time_ms: Option<u64>, until: Instant) -> Self {
        let fence = claim.fence;
        Self { held: Arc::new(Held { key, time_ms, fence, bridge, claim: Mutex::new(Some(claim)) }), until }
    }

    /// Returns the event, which is released only when this object and the result are dropped.
    pub(crate) fn held(&self) -> Arc<Held> {
        self.held.clone()
    }
}

#[pymethods]
impl Grant {
    /// Number of the grant. Of two grants of one event, the later one has the greater number.
    #[getter]
    fn fence<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.held.fence.to_bytes())
    }

    /// Remaining seconds of the lease.
    #[getter]
    fn left_s(&self) -> f64 {
        self.until.saturating_duration_since(Instant::now()).as_secs_f64()
    }

    /// Whether dropping this object would release the event.
    #[getter]
    fn is_held(&self) -> bool {
        self.held.claim.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Begins the delivery: dropping this object no longer releases the event.
    fn keep(&self) {
        if let Some(claim) = self.held.take() {
            drop(claim.deliver());
        }
    }

    /// Queues the release of the event, if it is held, and does not wait for it.
    fn release_later(&self) {
        self.held.release_if_held();
    }
}
