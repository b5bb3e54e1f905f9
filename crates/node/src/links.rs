//! The ways between nodes: messages of owners go out in order, and come in in order, each once.
//!
//! Promises: first in, first out, from each owner to each peer; what was handed to a link arrives as long as both
//! processes live. A link is between two processes: a new start of either makes a new one. Must not know: what messages
//! mean.

mod incoming;
mod outgoing;
mod reach;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstseen_routing::{ClusterMap, Incarnation, NodeId, NodeRecord, PeerMessage};
use firstseen_wire::net::Connector;
use firstseen_wire::watch;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::view::{Me, View};

pub(crate) use incoming::PeerService;
use reach::{Reach, Unreachable};

/// The way to one process of a peer.
#[derive(Clone)]
pub(crate) struct LinkHandle {
    messages: mpsc::Sender<PeerMessage>,
    /// Messages that were handed over and are not acknowledged.
    waiting: Arc<AtomicU64>,
    end: CancellationToken,
    incarnation: Incarnation,
}

impl LinkHandle {
    /// Hands over a message; waits for nothing. It comes back where too many wait already, or the peer's process is gone.
    pub(crate) fn send(&self, message: PeerMessage) -> Option<PeerMessage> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let refused = self.messages.try_send(message).err()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(refused.into_inner())
    }

    /// Whether more than half of the messages wait that may.
    pub(crate) fn is_half_full(&self) -> bool {
        self.waiting() > self.messages.max_capacity() as u64 / 2
    }

    /// Messages that were handed over and are not acknowledged.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// The outgoing links of this process.
pub(crate) struct Links {
    connector: Arc<dyn Connector>,
    queue_max: usize,
    views: watch::Receiver<Arc<View>>,
    metrics: Arc<Metrics>,
    patience: Duration,
    unreachable: Unreachable,
    links: BTreeMap<NodeId, LinkHandle>,
}

impl Links {
    /// None yet; a peer that is down for `patience` is not waited for.
    pub(crate) fn new(
        connector: Arc<dyn Connector>,
        queue_max: u32,
        patience: Duration,
        views: watch::Receiver<Arc<View>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let unreachable = Arc::new(watch::Sender::new(BTreeSet::new()));
        let (queue_max, links) = (queue_max as usize, BTreeMap::new());
        Self { connector, queue_max, views, metrics, patience, unreachable, links }
    }

    /// Peers that nobody waits for, as they change.
    pub(crate) fn unreachable(&self) -> watch::Receiver<BTreeSet<NodeId>> {
        self.unreachable.subscribe()
    }

    /// Follows the map: a link for each process of another node.
    pub(crate) fn follow(&mut self, map: &ClusterMap, me: Me) -> BTreeMap<NodeId, LinkHandle> {
        let is_current =
            |id: &NodeId, link: &LinkHandle| map.nodes.get(id).is_some_and(|node| node.incarnation == link.incarnation);
        self.links.retain(|id, link| {
            let keep = is_current(id, link);
            if !keep {
                link.end.cancel();
            }
            keep
        });
        for (id, node) in &map.nodes {
            let started = node.incarnation != Incarnation::default();
            if *id != me.identity.node && started && !self.links.contains_key(id) {
                self.links.insert(*id, self.open(*id, node, me));
            }
        }
        self.links.clone()
    }

    fn open(&self, id: NodeId, node: &NodeRecord, me: Me) -> LinkHandle {
        let (messages, queue) = mpsc::channel(self.queue_max);
        let handle = LinkHandle {
            messages,
            waiting: Arc::default(),
            end: CancellationToken::new(),
            incarnation: node.incarnation,
        };
        let link = outgoing::Outgoing {
            me,
            peer: id,
            node: node.clone(),
            connector: self.connector.clone(),
            queue,
            waiting: handle.waiting.clone(),
            views: self.views.clone(),
            metrics: self.metrics.clone(),
            up: watch::Sender::new(false),
            is_down: false,
        };
        let (patience, up, unreachable) = (self.patience, link.up.subscribe(), self.unreachable.clone());
        tokio::spawn(Reach { peer: id, patience, up, unreachable }.run());
        let end = handle.end.clone();
        tokio::spawn(end.run_until_cancelled_owned(link.run()));
        handle
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.links.values().for_each(|link| link.end.cancel());
    }
}
