//! What the maps of nodes let producers do, as each node acts on them, while a run goes on.
//!
//! Promises: a time that is noted is one in which the node's process acted on no other right, without a gap; nothing is sent
//! for it. Must not know: what follows from it, who changes rights.

use std::collections::BTreeSet;

use firstseen_checker::rights::{ActedOn, May};
use firstseen_routing::{ClusterMap, FilterVerb, Grant};

use crate::clock::now_us;
use crate::principals::producer_name;
use crate::scenario::Scenario;
use crate::shared_history::{SharedHistory, lock};

/// Notes what nodes act on in the history of a run. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Acting {
    history: SharedHistory,
    /// Producers of which it is noted; none without rights.
    producers: u32,
}

/// The same for one process of a node.
pub(crate) struct ActingProcess {
    history: SharedHistory,
    node: usize,
    /// What each producer has been granted, and the number of the note about it.
    noted: Vec<Option<(BTreeSet<Grant>, usize)>>,
}

impl Acting {
    /// Notes in `history` what nodes of `scenario` act on.
    pub(crate) fn noted_in(history: &SharedHistory, scenario: &Scenario) -> Self {
        Self { history: history.clone(), producers: if scenario.rights { scenario.producers } else { 0 } }
    }

    /// A process of node `node` begins.
    pub(crate) fn of_process(&self, node: usize) -> ActingProcess {
        ActingProcess { history: self.history.clone(), node, noted: vec![None; self.producers as usize] }
    }
}

impl ActingProcess {
    /// The node acts on `map` now. What was granted tells one map from another: no change of rights brings back what a
    /// producer had before (`crate::access`), so the node has acted on nothing else between two equal looks.
    pub(crate) fn look(&mut self, map: &ClusterMap, filter: &str) {
        let access = &map.access;
        let now_us = now_us();
        if !access.is_enabled {
            return;
        }
        for (producer, noted) in (0..).zip(&mut self.noted) {
            let principal = access.principals.get(&producer_name(producer)).cloned().unwrap_or_default();
            let acted_on = &mut lock(&self.history).rights.acted_on;
            if let Some((grants, number)) = noted
                && *grants == principal.grants
            {
                acted_on[*number].until_us = now_us;
                continue;
            }
            let may = match principal {
                _ if principal.may(FilterVerb::Observe, filter) => May::Observe,
                _ if principal.may(FilterVerb::Lookup, filter) => May::LookUp,
                _ => May::Nothing,
            };
            *noted = Some((principal.grants, acted_on.len()));
            acted_on.push(ActedOn { node: self.node, producer, may, from_us: now_us, until_us: now_us });
        }
    }
}
