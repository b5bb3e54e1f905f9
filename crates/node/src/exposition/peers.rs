//! Metrics of a node's peers: which are out of reach, how their clocks differ, and what climbs to them.
//!
//! Promises: a series for each peer that there is. Must not know: what messages mean.

use firstseen_client::{Levels, NodeTraffic};
use firstseen_routing::Offset;

use super::gathering::Gathering;
use crate::health::Health;

/// Shows peers as they are now.
pub(super) fn show(now: &mut Gathering, health: &Health, levels: &Levels) {
    let view = health.views.newest();
    let moment = health.clock.now();
    for peer in view.links.keys() {
        let Some(record) = view.map.nodes.get(peer) else { continue };
        let mut of = now.of("peer", record.name.as_str());
        let help = "1 where the other node has been out of reach for a while";
        of.gauge("peer_unreachable", help).set(i64::from(view.unreachable.contains(peer)));
        let Some(Offset { ahead_ms, uncertain_ms }) = health.clocks.offset(*peer, moment) else { continue };
        let help = "How far the clock of another node is ahead of this one's, where it was measured lately";
        of.seconds("clock_offset", help).set(ahead_ms as f64 / 1e3);
        of.seconds("clock_uncertainty", "How much more or less it may be").set(uncertain_ms as f64 / 1e3);
    }
    for NodeTraffic { name, batches, sent_bytes, received_bytes } in levels.traffic() {
        let mut of = now.of("peer", name.as_str());
        let help = "Batches to another node for levels of trees there: climbs, checks, and what is brought up later";
        of.count("climb_batches", help).inc_by(batches);
        of.count_bytes("climb_sent", "Bytes of these batches").inc_by(sent_bytes);
        of.count_bytes("climb_received", "Bytes of the answers").inc_by(received_bytes);
    }
}
