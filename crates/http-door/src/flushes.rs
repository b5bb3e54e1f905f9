//! How often a connection has handed all that was written to the system.
//!
//! hyper drops what it has not sent yet when the body of a reply fails. A body that has to end with an error, so that the client sees
//! that it is cut off, waits here until the bytes before the error have been sent. This module must not depend on what is written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The flushes of one connection.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    count: AtomicU64,
    waiting: Mutex<Option<Waker>>,
}

impl Flushes {
    /// Notes that all bytes that were written have been handed to the system.
    pub(crate) fn note(&self) {
        self.count.fetch_add(1, Ordering::Release);
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// How many flushes there were so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until there were more than `count` flushes.
    pub(crate) fn poll_beyond(&self, count: u64, cx: &Context<'_>) -> Poll<()> {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        if self.count() > count { Poll::Ready(()) } else { Poll::Pending }
    }
}
