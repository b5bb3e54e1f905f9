//! Metrics about the other nodes of the cluster: which of them are unreachable, how their clocks differ from the clock
//! of this node, and how many queries of filter trees this node sends to them. Every other node in the cluster map has
//! one set of series.

use firstseen_client::{Levels, NodeTraffic};
use firstseen_routing::Offset;

use super::gathering::Gathering;
use crate::health::Health;

/// Adds the current state of all peers.
pub(super) fn show(now: &mut Gathering, health: &Health, levels: &Levels) {
    let view = health.views.newest();
    let moment = health.clock.now();
    for peer in view.links.keys() {
        let Some(record) = view.map.nodes.get(peer) else { continue };
        let mut of = now.of("peer", record.name.as_str());
        let help = "1 if the other node has been unreachable for a while";
        of.gauge("peer_unreachable", help).set(i64::from(view.unreachable.contains(peer)));
        let Some(Offset { ahead_ms, uncertain_ms }) = health.clocks.offset(*peer, moment) else { continue };
        let help = "Time that the clock of another node is ahead of this node's clock, if it was measured recently";
        of.seconds("clock_offset", help).set(ahead_ms as f64 / 1e3);
        of.seconds("clock_uncertainty", "Uncertainty of the clock offset").set(uncertain_ms as f64 / 1e3);
    }
    for NodeTraffic { name, batches, sent_bytes, received_bytes } in levels.traffic() {
        let mut of = now.of("peer", name.as_str());
        let help =
            "Batches to another node for tree levels there: queries, verifications, and events that are sent later";
        of.count("climb_batches", help).inc_by(batches);
        of.count_bytes("climb_sent", "Bytes of these batches").inc_by(sent_bytes);
        of.count_bytes("climb_received", "Bytes of the replies").inc_by(received_bytes);
    }
}
