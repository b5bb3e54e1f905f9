//! The handle of a link: where the messages for another node are queued.
//!
//! Promises: a message that was handed over is counted until it is acknowledged; a queue is bounded in messages and in
//! their events. Must not know: connections, what messages mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstseen_routing::{Incarnation, MonotonicMs, PeerMessage};
use firstseen_wire::watch;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Events of the messages that wait for a link to take them, at most: a message has one, or thousands. Together they take
/// some 40 MB.
const QUEUED_EVENTS_MAX: u64 = 1 << 19;

/// A message that waits for a link to take it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    /// The message.
    pub(crate) message: PeerMessage,
    /// Since when it waits, in monotonic milliseconds.
    pub(crate) since_ms: MonotonicMs,
}

impl Queued {
    /// Returns the message as it leaves now: its heads wait for less time, and tests for which none waits are left out.
    /// `None` if nothing is left.
    pub(crate) fn leave(self, now_ms: MonotonicMs) -> Option<PeerMessage> {
        let Self { mut message, since_ms } = self;
        message.pass_time(now_ms.since(since_ms));
        message.without_given_up()
    }
}

/// What a link has still to do.
#[derive(Debug, Default)]
pub(crate) struct LinkCounts {
    /// Messages that were handed over and are not acknowledged.
    pub(crate) waiting: AtomicU64,
    /// Events of the messages that the link has not taken yet.
    pub(crate) queued_events: AtomicU64,
}

/// The link to one process of a peer.
#[derive(Clone)]
pub(crate) struct LinkHandle {
    messages: mpsc::Sender<Queued>,
    counts: Arc<LinkCounts>,
    up: watch::Receiver<bool>,
    end: CancellationToken,
    incarnation: Incarnation,
}

impl LinkHandle {
    /// A link to this start of a peer, which takes messages from the queue of `messages`; `up` tells whether it is up.
    pub(crate) fn new(messages: mpsc::Sender<Queued>, up: watch::Receiver<bool>, incarnation: Incarnation) -> Self {
        Self { messages, counts: Arc::default(), up, end: CancellationToken::new(), incarnation }
    }

    /// A link that is up, whose messages go to `messages`.
    #[cfg(test)]
    pub(crate) fn to(messages: mpsc::Sender<Queued>) -> Self {
        Self::new(messages, watch::Sender::new(true).subscribe(), Incarnation::default())
    }

    /// What the link has still to do.
    pub(crate) fn counts(&self) -> &Arc<LinkCounts> {
        &self.counts
    }

    /// Cancelled when the link is to end.
    pub(crate) fn end(&self) -> &CancellationToken {
        &self.end
    }

    /// Whether this is the link to that start of the peer.
    pub(crate) fn is_to(&self, incarnation: Incarnation) -> bool {
        self.incarnation == incarnation
    }

    /// Whether the peer answers at this moment.
    pub(crate) fn is_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Hands over a message at a moment; waits for nothing. Gives the message back where too many wait already, or the
    /// peer's process is gone.
    pub(crate) fn send(&self, message: PeerMessage, now_ms: MonotonicMs) -> Option<PeerMessage> {
        let LinkCounts { waiting, queued_events } = &*self.counts;
        let events = message.events();
        let before = queued_events.fetch_add(events, Ordering::Relaxed);
        // A message alone is taken, however many events it has.
        let has_room = before == 0 || before.saturating_add(events) <= QUEUED_EVENTS_MAX;
        waiting.fetch_add(1, Ordering::Relaxed);
        let queued = Queued { message, since_ms: now_ms };
        let refused = if has_room { self.messages.try_send(queued).err()?.into_inner() } else { queued };
        waiting.fetch_sub(1, Ordering::Relaxed);
        queued_events.fetch_sub(events, Ordering::Relaxed);
        Some(refused.message)
    }

    /// Whether more than half of the messages that may wait do, or of their events.
    pub(crate) fn is_half_full(&self) -> bool {
        self.waiting() > self.messages.max_capacity() as u64 / 2
            || self.counts.queued_events.load(Ordering::Relaxed) > QUEUED_EVENTS_MAX / 2
    }

    /// Messages that were handed over and are not acknowledged.
    pub(crate) fn waiting(&self) -> u64 {
        self.counts.waiting.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
