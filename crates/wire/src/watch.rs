//! Channel that holds the newest version of a value, and wakes tasks that wait for a newer version.
//!
//! A task that waits for a newer version always receives the newest version, so it may miss versions in between.
//!
//! Waiting tasks are woken in the order in which they began to wait, so that a simulation with the same seed always
//! runs in the same way. The watch channel of tokio does not guarantee this order, because it distributes waiting tasks
//! randomly over several queues.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use thiserror::Error;
use tokio::sync::Notify;

/// Error returned when the sender was dropped, so that no newer version will follow.
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

    /// Changes the state, and wakes waiting tasks if `change` returns `true`.
    fn change(&self, change: impl FnOnce(&mut State<T>) -> bool) {
        let is_news = change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
        if is_news {
            self.changed.notify_waiters();
        }
    }
}

/// Borrowed value, which cannot change while it is borrowed.
pub struct Ref<'a, T>(RwLockReadGuard<'a, State<T>>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

/// Sender, which changes the value. Dropping the sender wakes all waiting tasks.
pub struct Sender<T>(Arc<Shared<T>>);

/// Receiver, which reads the value and waits for a newer version. A clone has seen the same version as its original.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// Creates a channel with a value, and a receiver that has already seen that value.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    /// Creates a sender without receivers.
    pub fn new(value: T) -> Self {
        let state = RwLock::new(State { value, version: 0, is_closed: false });
        Self(Arc::new(Shared { state, changed: Notify::new() }))
    }

    /// Creates a receiver that has already seen the current version.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { shared: self.0.clone(), seen: self.0.read().0.version }
    }

    /// Returns the current value.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.read()
    }

    /// Replaces the value, and wakes waiting tasks.
    pub fn send(&self, value: T) {
        self.send_if_modified(|current| {
            *current = value;
            true
        });
    }

    /// Changes the value with `modify`. Waiting tasks are woken only if `modify` returns `true`.
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
    /// Returns a copy of the current value, without marking it as seen.
    pub fn newest(&self) -> T {
        self.borrow().clone()
    }
}

impl<T> Receiver<T> {
    /// Returns the current value, without marking it as seen.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.shared.read()
    }

    /// Returns the current value, and marks it as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.read();
        self.seen = value.0.version;
        value
    }

    /// Waits for a version that this receiver has not seen, and marks it as seen. The future is cancel safe.
    ///
    /// # Errors
    /// Returns [`Closed`] if no newer version can follow.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // The notification is registered before the version is read, so that no change in between is missed.
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

    /// Marks the current value as seen.
    pub fn mark_seen(&mut self) {
        drop(self.borrow_and_update());
    }

    /// Waits for a version for which `is_so` returns `true`, and marks that version as seen. The future is cancel safe.
    ///
    /// # Errors
    /// Returns [`Closed`] if no such version can follow.
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
                    receiver.wait_for(|value| *value == 2).await.expect("the value arrives");
                    woken.lock().expect("no task has panicked").push(number);
                })
            })
            .collect();
        for value in [1, 2] {
            // The runtime runs at least one of the waiting tasks before it returns to this task.
            for _ in &waiters {
                tokio::task::yield_now().await;
            }
            sender.send(value);
        }
        for waiter in waiters {
            waiter.await.expect("it ends");
        }
        assert_eq!(*woken.lock().expect("no task has panicked"), Vec::from_iter(0..100));
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
