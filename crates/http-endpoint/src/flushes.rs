//! Counts how often a connection has passed all written bytes to the operating system.
//!
//! Some replies must end with an error, so that the client notices that the reply is incomplete. If the body of a reply
//! ends with an error, however, the HTTP library hyper drops the bytes that it has not sent yet. The client would then
//! miss the records in these bytes, although the filter has already recorded them.
//!
//! The counter of flushes prevents this loss. Before a body returns its error, it waits until the counter has
//! increased. The increase means that all bytes before the error have been passed to the operating system, so hyper has
//! nothing left to drop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Flush counter of one connection.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    count: AtomicU64,
    waiting: Mutex<Option<Waker>>,
}

impl Flushes {
    /// Notes that all written bytes have been passed to the operating system.
    pub(crate) fn note(&self) {
        self.count.fetch_add(1, Ordering::Release);
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// Returns the number of flushes so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until there have been more than `count` flushes.
    pub(crate) fn poll_beyond(&self, count: u64, cx: &Context<'_>) -> Poll<()> {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        if self.count() > count { Poll::Ready(()) } else { Poll::Pending }
    }
}
