//! Metrics of a node's peers: which are out of reach, and what is sent to each of them.
//!
//! Promises: a series for each peer that there is. Must not know: what messages mean.

use firstseen_client::NodeTraffic;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};
use prost::Message;

use firstseen_routing::Offset;

use super::gathering::Gathering;
use super::{Count, Sorted};
use crate::shared::Shared;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct PeerLabel {
    peer: String,
}

impl PeerLabel {
    fn of(peer: &str) -> Self {
        Self { peer: peer.to_owned() }
    }
}

/// The links to and from all peers.
pub(super) struct LinkMetrics {
    received_bytes: Count<PeerLabel>,
    sent_bytes: Count<PeerLabel>,
    sent_messages: Count<PeerLabel>,
}

/// The link to or from one peer.
#[derive(Clone)]
pub(crate) struct LinkMeter {
    received_bytes: Counter,
    sent_bytes: Counter,
    sent_messages: Counter,
}

impl LinkMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let links =
            Self { received_bytes: Sorted::default(), sent_bytes: Sorted::default(), sent_messages: Sorted::default() };
        let help = "Bytes of frames from another node, and of acknowledgements";
        registry.register_with_unit("link_received", help, Unit::Bytes, links.received_bytes.clone());
        let help = "Bytes of frames to another node, with those that are sent again";
        registry.register_with_unit("link_sent", help, Unit::Bytes, links.sent_bytes.clone());
        registry.register("link_messages_sent", "Frames to another node", links.sent_messages.clone());
        links
    }

    /// Removes the series of nodes that have left.
    pub(super) fn keep(&self, is_kept: impl Fn(&str) -> bool) {
        let counts = [&self.received_bytes, &self.sent_bytes, &self.sent_messages];
        counts.into_iter().for_each(|count| count.retain(|label| is_kept(&label.peer)));
    }

    pub(super) fn of(&self, peer: &str) -> LinkMeter {
        let label = PeerLabel::of(peer);
        LinkMeter {
            received_bytes: self.received_bytes.of(&label),
            sent_bytes: self.sent_bytes.of(&label),
            sent_messages: self.sent_messages.of(&label),
        }
    }
}

impl LinkMeter {
    /// A message came from the peer.
    pub(crate) fn received(&self, message: &impl Message) {
        self.received_bytes.inc_by(message.encoded_len() as u64);
    }

    /// A message is sent to the peer.
    pub(crate) fn sent(&self, message: &impl Message) {
        self.sent_messages.inc();
        self.sent_bytes.inc_by(message.encoded_len() as u64);
    }
}

/// Peers as they are now.
pub(super) fn show(now: &mut Gathering, shared: &Shared) {
    let (view, at) = (shared.view(), shared.clock.now());
    for peer in view.links.keys() {
        let Some(record) = view.map.nodes.get(peer) else { continue };
        let mut of = now.of("peer", record.name.as_str());
        let help = "1 where the other node has been out of reach for a while";
        of.gauge("peer_unreachable", help).set(i64::from(view.unreachable.contains(peer)));
        let Some(Offset { ahead_ms, uncertain_ms }) = shared.clocks.offset(*peer, at) else { continue };
        let help = "How far the clock of another node is ahead of this one's, where it was measured lately";
        of.seconds("clock_offset", help).set(ahead_ms as f64 / 1e3);
        of.seconds("clock_uncertainty", "How much more or less it may be").set(uncertain_ms as f64 / 1e3);
    }
    for NodeTraffic { name, batches, sent_bytes, received_bytes } in shared.levels.traffic() {
        let mut of = now.of("peer", name.as_str());
        let help = "Batches to another node for levels of trees there: climbs, checks, and what is brought up later";
        of.count("climb_batches", help).inc_by(batches);
        of.count_bytes("climb_sent", "Bytes of these batches").inc_by(sent_bytes);
        of.count_bytes("climb_received", "Bytes of the answers").inc_by(received_bytes);
    }
}
