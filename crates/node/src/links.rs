//! The links between nodes: messages of owners are sent in order, and received in order, each once.
//!
//! Promises: first in, first out, from each owner to each peer; a message that was handed to a link arrives as long as
//! both processes live, or is refused in the receiver's name where it cannot be sent. A link is between two processes:
//! a new start of either makes a new link. Must not know: what messages mean.

mod incoming;
mod outgoing;
mod probe;
mod reach;
mod unnumbered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstseen_routing::{ClusterMap, Incarnation, MonotonicMs, NodeId, NodeRecord, PeerMessage};
use firstseen_wire::watch;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::shared::Shared;
use crate::view::Me;

pub(crate) use incoming::PeerService;
use reach::{Reach, Unreachable};
use unnumbered::Unnumbered;

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
    /// The message as it leaves now: its heads wait for less time, and tests for which none waits are left out. None
    /// where nothing is left.
    fn leave(self, now_ms: MonotonicMs) -> Option<PeerMessage> {
        let Self { mut message, since_ms } = self;
        message.pass_time(now_ms.since(since_ms));
        message.without_given_up()
    }
}

/// The link to one process of a peer.
#[derive(Clone)]
pub(crate) struct LinkHandle {
    messages: mpsc::Sender<Queued>,
    /// Messages that were handed over and are not acknowledged.
    waiting: Arc<AtomicU64>,
    /// Events of the messages that the link has not taken yet.
    queued_events: Arc<AtomicU64>,
    up: watch::Receiver<bool>,
    end: CancellationToken,
    incarnation: Incarnation,
}

impl LinkHandle {
    /// A link whose messages go to `messages`.
    #[cfg(test)]
    pub(crate) fn to(messages: mpsc::Sender<Queued>) -> Self {
        let (end, up) = (CancellationToken::new(), watch::Sender::new(true).subscribe());
        Self {
            messages,
            waiting: Arc::default(),
            queued_events: Arc::default(),
            up,
            end,
            incarnation: Incarnation::default(),
        }
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
        let events = message.events();
        let queued_events = self.queued_events.fetch_add(events, Ordering::Relaxed);
        // A message alone is taken, however many events it has.
        let has_room = queued_events == 0 || queued_events.saturating_add(events) <= QUEUED_EVENTS_MAX;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let queued = Queued { message, since_ms: now_ms };
        let refused = if has_room { self.messages.try_send(queued).err()?.into_inner() } else { queued };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.queued_events.fetch_sub(events, Ordering::Relaxed);
        Some(refused.message)
    }

    /// Whether more than half of the messages that may wait do, or of their events.
    pub(crate) fn is_half_full(&self) -> bool {
        self.waiting() > self.messages.max_capacity() as u64 / 2
            || self.queued_events.load(Ordering::Relaxed) > QUEUED_EVENTS_MAX / 2
    }

    /// Messages that were handed over and are not acknowledged.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// The outgoing links of this process.
pub(crate) struct Links {
    unreachable: Unreachable,
    /// The start of this node that they belong to.
    incarnation: Option<Incarnation>,
    links: BTreeMap<NodeId, LinkHandle>,
}

impl Links {
    /// None yet.
    pub(crate) fn new() -> Self {
        let unreachable = Arc::new(watch::Sender::new(BTreeSet::new()));
        Self { unreachable, incarnation: None, links: BTreeMap::new() }
    }

    /// Peers that events do not wait for, as they change.
    pub(crate) fn unreachable(&self) -> watch::Receiver<BTreeSet<NodeId>> {
        self.unreachable.subscribe()
    }

    /// Follows the map: a link for each process of another node.
    pub(crate) fn follow(&mut self, shared: &Arc<Shared>, map: &ClusterMap, me: Me) -> BTreeMap<NodeId, LinkHandle> {
        let is_same = self.incarnation.replace(me.incarnation) == Some(me.incarnation);
        let is_current = |id: &NodeId, link: &LinkHandle| {
            is_same && map.nodes.get(id).is_some_and(|node| node.incarnation == link.incarnation)
        };
        self.links.retain(|id, link| {
            let keep = is_current(id, link);
            if !keep {
                link.end.cancel();
                // It is not known yet whether the new start can be reached.
                self.unreachable.send_if_modified(|listed| listed.remove(id));
            }
            keep
        });
        for (id, node) in &map.nodes {
            let started = node.incarnation != Incarnation::default();
            if *id != me.identity.node && started && !self.links.contains_key(id) {
                self.links.insert(*id, open(shared, &self.unreachable, *id, node, me));
            }
        }
        self.links.clone()
    }
}

fn open(shared: &Arc<Shared>, unreachable: &Unreachable, id: NodeId, node: &NodeRecord, me: Me) -> LinkHandle {
    let (messages, queue) = mpsc::channel(shared.config.limits.link_queue_max as usize);
    let up = watch::Sender::new(false);
    let handle = LinkHandle {
        messages,
        waiting: Arc::default(),
        queued_events: Arc::default(),
        up: up.subscribe(),
        end: CancellationToken::new(),
        incarnation: node.incarnation,
    };
    let patience = Duration::from_millis(shared.config.timing.unreachable_after_ms);
    let link = outgoing::Outgoing {
        me,
        peer: id,
        node: node.clone(),
        shared: shared.clone(),
        meter: shared.metrics.link(&node.name),
        queue,
        waiting: handle.waiting.clone(),
        queued_events: handle.queued_events.clone(),
        up,
        is_down: false,
        silence_max: patience / 2,
        unnumbered: Unnumbered::default(),
        is_pinged: false,
        probe: probe::Probe::default(),
    };
    let (up, unreachable) = (link.up.subscribe(), unreachable.clone());
    tokio::spawn(Reach { peer: id, patience, up, unreachable }.run());
    let end = handle.end.clone();
    tokio::spawn(end.run_until_cancelled_owned(link.run()));
    handle
}

impl Drop for Links {
    fn drop(&mut self) {
        self.links.values().for_each(|link| link.end.cancel());
    }
}

#[cfg(test)]
mod tests;
