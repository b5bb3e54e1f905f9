//! Forwards batches of a producer's stream to the nodes that own their slices. The stream has one relay for each such
//! node. A relay sends its batches in the order in which they arrived. If the node restarts, the stream creates a new
//! relay, because a relay is connected to a single process of the node.

use std::collections::BTreeMap;
use std::sync::Arc;

use firstseen_routing::{Incarnation, NodeId, Reason};
use firstseen_wire::proto::producer::BatchReply;
use tokio::sync::mpsc;

use super::StreamContext;
use super::admit::{Refused, refused};
use super::relay::{Forward, Relay};
use crate::authenticated_caller::AuthenticatedCaller;
use crate::view::View;

/// The relays of one stream.
pub(super) struct Relays {
    context: Arc<StreamContext>,
    guest: Arc<AuthenticatedCaller>,
    replies: mpsc::Sender<BatchReply>,
    relays: BTreeMap<NodeId, (Incarnation, mpsc::Sender<Forward>)>,
}

impl Relays {
    /// Creates an empty set of relays. Their replies go to `replies`, which must have room for the credit of the
    /// stream.
    pub(super) fn new(
        context: Arc<StreamContext>,
        guest: Arc<AuthenticatedCaller>,
        replies: mpsc::Sender<BatchReply>,
    ) -> Self {
        Self { context, guest, replies, relays: BTreeMap::new() }
    }

    /// Forwards a batch to `node`.
    pub(super) fn send(&mut self, view: &View, node: NodeId, producer: u128, forward: Forward) -> Result<(), Refused> {
        let Some(record) = view.map.nodes.get(&node) else { return Err(unreachable(node)) };
        if record.is_down || view.unreachable.contains(&node) {
            let detail = format!("node {} ({node}), which owns the slices, is unreachable", record.name);
            return Err(refused(Reason::SlicesDown, detail));
        }
        let is_current = self.relays.get(&node).is_some_and(|(incarnation, _)| *incarnation == record.incarnation);
        if !is_current {
            let (sender, queue) = mpsc::channel(self.context.limits.inflight_batches_max as usize);
            let relay = Relay {
                context: self.context.clone(),
                guest: self.guest.clone(),
                target: node,
                node: record.clone(),
                producer,
                queue,
                replies: self.replies.clone(),
            };
            tokio::spawn(relay.run());
            self.relays.insert(node, (record.incarnation, sender));
        }
        let Some((_, queue)) = self.relays.get(&node) else { return Err(unreachable(node)) };
        queue.try_send(forward).map_err(|_| unreachable(node))
    }
}

fn unreachable(node: NodeId) -> Refused {
    refused(Reason::NotReady, format!("node {node}, which owns the slices, cannot be reached"))
}
