//! Supports the laws about access rights in two ways. The module records at which nodes a call has entered the cluster.
//! It also lets a producer look up events that were denied to other producers, which shows whether a denied call has
//! had an effect.
//!
//! A call enters the cluster at the nodes to which its client sends a batch. These nodes check the access rights of the
//! call, so the history records all of them. In a run without access rights, this module records nothing and draws no
//! random numbers.

use std::collections::BTreeSet;

use firstseen_client::{Client, NodeTraffic};
use firstseen_routing::{Decision, Reason};

use super::Lane;
use crate::cluster::node_name;
use crate::principals;
use crate::seeded_rng::SeededRng;
use crate::shared_history::lock;

/// Number of latest denied calls from which an event to look up is chosen.
const LATELY: u64 = 20;

impl Lane {
    /// Returns how much a client has sent to each node so far.
    pub(super) fn sent(&self, client: &Client) -> Vec<NodeTraffic> {
        if self.scenario.rights { client.traffic() } else { Vec::new() }
    }

    /// Records the nodes at which call number `call` may have entered the cluster. These are all nodes to which the
    /// client has sent a batch since its traffic was `before`.
    ///
    /// If several calls share a client, the record may contain too many nodes, because the traffic does not show which
    /// call a batch belongs to.
    pub(super) fn note_entries(&self, call: usize, client: &Client, before: &[NodeTraffic]) {
        if !self.scenario.rights {
            return;
        }
        let nodes = 0..self.scenario.nodes;
        let mut entries = BTreeSet::new();
        for now in client.traffic() {
            let earlier = before.iter().find(|sent| sent.name == now.name);
            if now.batches <= earlier.map_or(0, |sent| sent.batches) {
                continue;
            }
            match nodes.clone().find(|node| node_name(*node) == now.name) {
                Some(node) => entries.extend([node]),
                // Any node may have relayed the call.
                None => entries.extend(nodes.clone()),
            }
        }
        lock(&self.history).rights.entries.insert(call, entries);
    }

    /// Returns the event that a call uses, which is usually `event`.
    ///
    /// The exception is a lookup by the one producer that always keeps its rights. Its lookup uses an event that was
    /// recently denied to another producer, if there is one. The verdict then shows whether the denied call has
    /// recorded the event although it must not.
    pub(super) fn or_one_that_was_refused(&self, event: u64, is_lookup: bool, rng: &mut SeededRng) -> u64 {
        if !self.scenario.rights || !is_lookup || self.number != principals::HOLDER {
            return event;
        }
        let forbidden = Some(Decision::Undecided(Reason::Forbidden));
        let history = lock(&self.history);
        let refused = history.calls.iter().rev().filter(|call| call.verdict == forbidden);
        refused.take(1 + rng.below(LATELY) as usize).last().map_or(event, |call| call.event)
    }
}
