//! The newest of a value's versions, and those who wait for a newer one.
//!
//! Promises: a waiter sees the newest version, perhaps not every one before it; waiters are woken in the order in which
//! they began to wait, so that a simulation can repeat what they do (tokio's own spreads them over queues by chance).
//! Must not know: what the value is.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use thiserror::Error;
use tokio::sync::Notify;

/// There will be no newer version: the sender is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no newer value will come")]
pub struct Closed;

struct State<T> {
    value: T,
    version: u64,
    is_closed: bool,
}

struct Shared<T> {
    state: RwLock<State<T>>,
    changed: Notify,
}

impl<T> Shared<T> {
    fn read(&self) -> Ref<'_, T> {
        Ref(self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Wakes waiters if `change` says so.
    fn change(&self, change: impl FnOnce(&mut State<T>) -> bool) {
        let is_news = change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
        if is_news {
            self.changed.notify_waiters();
        }
    }
}

/// A borrowed value, which cannot change while it is borrowed.
pub struct Ref<'a, T>(RwLockReadGuard<'a, State<T>>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

/// The end that changes a value. When it is dropped, waiters are woken.
pub struct Sender<T>(Arc<Shared<T>>);

/// The end that reads a value and waits for it. Clones have seen the same version.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// A value, with a receiver that has seen it.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    /// A value without receivers.
    pub fn new(value: T) -> Self {
        let state = RwLock::new(State { value, version: 0, is_closed: false });
        Self(Arc::new(Shared { state, changed: Notify::new() }))
    }

    /// A receiver that has seen the present version.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { shared: self.0.clone(), seen: self.0.read().0.version }
    }

    /// The value as it is.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.read()
    }

    /// Changes the value.
    pub fn send(&self, value: T) {
        self.send_if_modified(|current| {
            *current = value;
            true
        });
    }

    /// Changes the value by `modify`, which returns whether it has changed it.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) {
        self.0.change(|state| {
            let is_news = modify(&mut state.value);
            state.version += u64::from(is_news);
            is_news
        });
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.is_closed = true;
            true
        });
    }
}

impl<T: Clone> Receiver<T> {
    /// Returns a copy of the value as it is; it does not count as seen.
    pub fn newest(&self) -> T {
        self.borrow().clone()
    }
}

impl<T> Receiver<T> {
    /// The value as it is; it does not count as seen.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.shared.read()
    }

    /// The value as it is, which counts as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.read();
        self.seen = value.0.version;
        value
    }

    /// Waits for a version that was not seen; it counts as seen then. The future may be dropped while it waits.
    ///
    /// # Errors
    /// [`Closed`] where there will be none.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // Every change after this line wakes it.
            let notified = self.shared.changed.notified();
            let (version, is_closed) = {
                let value = self.shared.read();
                (value.0.version, value.0.is_closed)
            };
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            if is_closed {
                return Err(Closed);
            }
            notified.await;
        }
    }

    /// The value as it is counts as seen.
    pub fn mark_seen(&mut self) {
        drop(self.borrow_and_update());
    }

    /// Waits for a version for which `is_so` holds; that version counts as seen then. The future may be dropped while
    /// it waits.
    ///
    /// # Errors
    /// [`Closed`] where it will never be.
    pub async fn wait_for(&mut self, is_so: impl Fn(&T) -> bool) -> Result<(), Closed> {
        while !is_so(&self.borrow_and_update()) {
            self.changed().await?;
        }
        Ok(())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), seen: self.seen }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&*self.borrow()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn waiters_are_woken_in_the_order_in_which_they_came() {
        let (sender, receiver) = channel(0);
        let woken = Arc::new(Mutex::new(Vec::new()));
        let waiters: Vec<_> = (0..100)
            .map(|number| {
                let mut receiver = receiver.clone();
                let woken = woken.clone();
                tokio::spawn(async move {
                    receiver.wait_for(|value| *value == 2).await.expect("it comes");
                    woken.lock().expect("nobody panicked").push(number);
                })
            })
            .collect();
        for value in [1, 2] {
            // The runtime looks at this task again after some of the waiters, at least one.
            for _ in &waiters {
                tokio::task::yield_now().await;
            }
            sender.send(value);
        }
        for waiter in waiters {
            waiter.await.expect("it ends");
        }
        assert_eq!(*woken.lock().expect("nobody panicked"), Vec::from_iter(0..100));
    }

    #[tokio::test]
    async fn a_version_is_news_once() {
        let (sender, mut receiver) = channel(1);
        sender.send(2);
        let mut late = sender.subscribe();
        assert_eq!((receiver.changed().await, *receiver.borrow()), (Ok(()), 2));
        sender.send_if_modified(|_| false);
        sender.send(3);
        assert_eq!(*receiver.borrow_and_update(), 3);
        drop(sender);
        assert_eq!(receiver.changed().await, Err(Closed));
        assert_eq!((late.changed().await, late.changed().await), (Ok(()), Err(Closed)));
        assert_eq!((late.wait_for(|value| *value == 3).await, late.wait_for(|_| false).await), (Ok(()), Err(Closed)));
    }

    #[tokio::test]
    async fn who_waits_is_told_that_nothing_will_come() {
        let (sender, mut receiver) = channel(());
        let waiting = tokio::spawn(async move { receiver.changed().await });
        tokio::task::yield_now().await;
        drop(sender);
        assert_eq!(waiting.await.expect("it ends"), Err(Closed));
    }
}
