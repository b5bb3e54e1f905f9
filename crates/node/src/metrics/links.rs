//! Metrics of the messages and bytes that this node exchanges with other nodes over links. Every other node in the
//! cluster has one set of series. The series of a node are removed when the node leaves the cluster.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};
use prost::Message;

use super::Count;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct PeerLabel {
    peer: String,
}

impl PeerLabel {
    fn of(peer: &str) -> Self {
        Self { peer: peer.to_owned() }
    }
}

/// The metrics of the links to and from all peers.
#[derive(Default)]
pub(super) struct LinkMetrics {
    received_bytes: Count<PeerLabel>,
    sent_bytes: Count<PeerLabel>,
    sent_messages: Count<PeerLabel>,
}

/// The metrics of the link to or from one peer.
#[derive(Clone)]
pub(crate) struct LinkMeter {
    received_bytes: Counter,
    sent_bytes: Counter,
    sent_messages: Counter,
}

impl LinkMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let links = Self::default();
        let help = "Bytes of frames and acknowledgements received from another node";
        registry.register_with_unit("link_received", help, Unit::Bytes, links.received_bytes.clone());
        let help = "Bytes of frames sent to another node, including repeated frames";
        registry.register_with_unit("link_sent", help, Unit::Bytes, links.sent_bytes.clone());
        registry.register("link_messages_sent", "Frames to another node", links.sent_messages.clone());
        links
    }

    /// Removes the series of nodes that have left the cluster.
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
    /// Counts a message that was received from the peer.
    pub(crate) fn received(&self, message: &impl Message) {
        self.received_bytes.inc_by(message.encoded_len() as u64);
    }

    /// Counts a message that is sent to the peer.
    pub(crate) fn sent(&self, message: &impl Message) {
        self.sent_messages.inc();
        self.sent_bytes.inc_by(message.encoded_len() as u64);
    }
}
