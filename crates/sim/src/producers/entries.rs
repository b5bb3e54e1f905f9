//! Records which nodes calls entered, and lets producers look up events that were denied to other producers, for the
//! laws about access rights.
//!
//! A call enters the cluster at the nodes that receive a batch of the call. If the run uses access rights, the history
//! records all of these nodes, because the rights are checked there. In other runs, this module records nothing and
//! draws no random numbers.

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
    /// client of the call has sent a batch since the state in `before`. If several calls share a client, the record may
    /// contain additional nodes, because the batches of the other calls are not distinguished.
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
    /// The lookups of one producer, which always keeps its rights, are an exception. Such a lookup uses an event that
    /// was recently denied to another producer, if there is one, and so shows whether the denied call has recorded the
    /// event nevertheless.
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
