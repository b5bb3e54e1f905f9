//! The handle of a link, through which the owner threads queue messages for another node. A message counts as waiting
//! until the other node has acknowledged it. The queue is limited both by the number of messages and by the number of
//! events in them, because a single message can contain thousands of events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstseen_routing::{Incarnation, MonotonicMs, PeerMessage};
use firstseen_wire::watch;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Maximum number of events in the messages that wait for one link. The number of messages alone would not limit the
/// memory, because a message can contain between one and several thousand events. At this maximum, the waiting messages
/// take about 40 MB.
const QUEUED_EVENTS_MAX: u64 = 1 << 19;

/// A message in the queue of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    /// The message.
    pub(crate) message: PeerMessage,
    /// Time at which the message was queued, in monotonic milliseconds.
    pub(crate) since_ms: MonotonicMs,
}

impl Queued {
    /// Updates a queued message just before it is sent, and returns it. The deadlines in a message are stated as
    /// remaining times, so this method subtracts the time that the message has spent in the queue. It also removes
    /// lookups whose results are no longer needed, because their head nodes have stopped waiting. If nothing remains of
    /// the message, the method returns `None`.
    pub(crate) fn leave(self, now_ms: MonotonicMs) -> Option<PeerMessage> {
        let Self { mut message, since_ms } = self;
        message.pass_time(now_ms.since(since_ms));
        message.without_given_up()
    }
}

/// Counters of the unfinished work of a link.
#[derive(Debug, Default)]
pub(crate) struct LinkCounts {
    /// Number of queued messages that have not been acknowledged.
    pub(crate) waiting: AtomicU64,
    /// Number of events in the messages that the link has not taken from the queue yet.
    pub(crate) queued_events: AtomicU64,
}

/// Handle of the link to one process of a peer.
#[derive(Clone)]
pub(crate) struct LinkHandle {
    messages: mpsc::Sender<Queued>,
    counts: Arc<LinkCounts>,
    up: watch::Receiver<bool>,
    end: CancellationToken,
    incarnation: Incarnation,
}

impl LinkHandle {
    /// Creates the handle of a link to another node. `messages` is the sending end of a queue from which the link takes
    /// its messages, and `up` tells whether the link is currently connected. A link leads to a single process of the
    /// other node, which `incarnation` identifies. If that node restarts, it needs a new link.
    pub(crate) fn new(messages: mpsc::Sender<Queued>, up: watch::Receiver<bool>, incarnation: Incarnation) -> Self {
        Self { messages, counts: Arc::default(), up, end: CancellationToken::new(), incarnation }
    }

    /// Creates the handle of a link that is up and whose messages go to `messages`.
    #[cfg(test)]
    pub(crate) fn to(messages: mpsc::Sender<Queued>) -> Self {
        Self::new(messages, watch::Sender::new(true).subscribe(), Incarnation::default())
    }

    /// Returns the counters of the link's unfinished work.
    pub(crate) fn counts(&self) -> &Arc<LinkCounts> {
        &self.counts
    }

    /// Returns the token that is cancelled when the link must end.
    pub(crate) fn end(&self) -> &CancellationToken {
        &self.end
    }

    /// Returns whether this link leads to the given start of the peer.
    pub(crate) fn is_to(&self, incarnation: Incarnation) -> bool {
        self.incarnation == incarnation
    }

    /// Returns whether the peer currently answers.
    pub(crate) fn is_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Queues a message without waiting. Returns the message if the queue is full or the peer's process has ended.
    pub(crate) fn send(&self, message: PeerMessage, now_ms: MonotonicMs) -> Option<PeerMessage> {
        let LinkCounts { waiting, queued_events } = &*self.counts;
        let events = message.events();
        let before = queued_events.fetch_add(events, Ordering::Relaxed);
        // A single message is always accepted, however many events it has.
        let has_room = before == 0 || before.saturating_add(events) <= QUEUED_EVENTS_MAX;
        waiting.fetch_add(1, Ordering::Relaxed);
        let queued = Queued { message, since_ms: now_ms };
        let refused = if has_room { self.messages.try_send(queued).err()?.into_inner() } else { queued };
        waiting.fetch_sub(1, Ordering::Relaxed);
        queued_events.fetch_sub(events, Ordering::Relaxed);
        Some(refused.message)
    }

    /// Returns whether more than half of the queue is used, either by messages or by their events.
    pub(crate) fn is_half_full(&self) -> bool {
        self.waiting() > self.messages.max_capacity() as u64 / 2
            || self.counts.queued_events.load(Ordering::Relaxed) > QUEUED_EVENTS_MAX / 2
    }

    /// Returns the number of queued messages that have not been acknowledged.
    pub(crate) fn waiting(&self) -> u64 {
        self.counts.waiting.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
