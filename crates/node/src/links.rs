//! Links between nodes. A link delivers the messages of the owner threads in order and exactly once.
//!
//! # Guarantees
//! - Messages from an owner to a peer arrive in the order in which they were sent.
//! - A message that was passed to a link arrives as long as both processes live. If the message cannot be sent, the
//!   sender receives a rejection in the name of the receiver.
//! - A link connects two processes. When either of them restarts, a new link is created.
//!
//! This module does not depend on the meaning of messages.

mod incoming;
mod outgoing;
mod probe;
mod reach;
mod unnumbered;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::{ClusterMap, Incarnation, NodeId, NodeRecord};
use firstseen_wire::net::Connector;
use firstseen_wire::watch;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::link_handle::LinkHandle;
use crate::metrics::Metrics;
use crate::owner::Owners;
use crate::view::{Me, Views};

pub(crate) use incoming::{PeerService, ReceiverContext};
use reach::{Reach, Unreachable};
use unnumbered::Unnumbered;

/// Services of the node that the sending ends of links use.
#[derive(Clone)]
pub(crate) struct LinkContext {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) clocks: Arc<Clocks>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) owners: Arc<Owners>,
    pub(crate) views: Views,
    /// Maximum number of messages that wait for one link.
    pub(crate) queue_max: usize,
    /// Time that a peer may be silent before it counts as unreachable.
    pub(crate) patience: Duration,
}

/// The outgoing links of this process.
pub(crate) struct Links {
    context: LinkContext,
    unreachable: Unreachable,
    /// The start of this node that the links belong to.
    incarnation: Option<Incarnation>,
    links: BTreeMap<NodeId, LinkHandle>,
}

impl Links {
    /// Creates an empty set of links.
    pub(crate) fn new(context: LinkContext) -> Self {
        let unreachable = Arc::new(watch::Sender::new(BTreeSet::new()));
        Self { context, unreachable, incarnation: None, links: BTreeMap::new() }
    }

    /// Returns a receiver of the unreachable peers, which is notified when the set changes. Events do not wait for
    /// these peers.
    pub(crate) fn unreachable(&self) -> watch::Receiver<BTreeSet<NodeId>> {
        self.unreachable.subscribe()
    }

    /// Acts on a new cluster map, and returns one link for each process of another node.
    pub(crate) fn follow(&mut self, map: &ClusterMap, me: Me) -> BTreeMap<NodeId, LinkHandle> {
        let is_same = self.incarnation.replace(me.incarnation) == Some(me.incarnation);
        self.links.retain(|id, link| {
            let is_current = is_same && map.nodes.get(id).is_some_and(|node| link.is_to(node.incarnation));
            if !is_current {
                link.end().cancel();
                // It is not known yet whether the new process can be reached.
                self.unreachable.send_if_modified(|listed| listed.remove(id));
            }
            is_current
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
        let (messages, queue) = mpsc::channel(self.context.queue_max);
        let up = watch::Sender::new(false);
        let handle = LinkHandle::new(messages, up.subscribe(), node.incarnation);
        let patience = self.context.patience;
        let reach = Reach { peer: id, patience, up: up.subscribe(), unreachable: self.unreachable.clone() };
        let link = outgoing::Outgoing {
            me,
            peer: id,
            node: node.clone(),
            meter: self.context.metrics.link(&node.name),
            context: self.context.clone(),
            queue,
            counts: handle.counts().clone(),
            up,
            is_down: false,
            silence_max: patience / 2,
            unnumbered: Unnumbered::default(),
            is_pinged: false,
            probe: probe::Probe::default(),
        };
        tokio::spawn(reach.run());
        tokio::spawn(handle.end().clone().run_until_cancelled_owned(link.run()));
        handle
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.links.values().for_each(|link| link.end().cancel());
    }
}
