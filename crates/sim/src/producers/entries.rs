//! Where calls enter, and which events a producer looks up that others were refused: for the laws of rights.
//!
//! Promises: a node that got a batch of a call is among the nodes where that may have entered; without rights nothing is
//! noted, and no dice fall. Must not know: who has which right.

use std::collections::BTreeSet;

use firstseen_client::{Client, NodeTraffic};
use firstseen_routing::{Decision, Reason};

use super::Lane;
use crate::cluster::node_name;
use crate::dice::Dice;
use crate::principals;
use crate::shared_history::lock;

/// An event of the last so many calls that were refused is looked up.
const LATELY: u64 = 20;

impl Lane {
    /// What a client has sent so far.
    pub(super) fn sent(&self, client: &Client) -> Vec<NodeTraffic> {
        if self.scenario.rights { client.traffic() } else { Vec::new() }
    }

    /// Notes where call number `call` may have entered: at the nodes to which its client has sent something since. Where
    /// several calls share a client, these are more nodes than those of the call.
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
                // Any node may have relayed it.
                None => entries.extend(nodes.clone()),
            }
        }
        lock(&self.history).rights.entries.insert(call, entries);
    }

    /// The event of a call; where the producer has its rights all the time and looks something up, one that another producer
    /// was refused lately, if there is one.
    pub(super) fn or_one_that_was_refused(&self, event: u64, is_lookup: bool, dice: &mut Dice) -> u64 {
        if !self.scenario.rights || !is_lookup || self.number != principals::HOLDER {
            return event;
        }
        let forbidden = Some(Decision::Undecided(Reason::Forbidden));
        let history = lock(&self.history);
        let refused = history.calls.iter().rev().filter(|call| call.verdict == forbidden);
        refused.take(1 + dice.below(LATELY) as usize).last().map_or(event, |call| call.event)
    }
}
