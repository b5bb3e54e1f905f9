//! Records which rights the nodes applied to each producer during a run. A node applies the rights in the cluster map
//! that it currently uses, so nodes can apply different rights at the same time. For each node and producer, the record
//! consists of periods. During a period, the node's process applied the same rights without interruption.
//!
//! The recording runs inside the simulation and sends no messages, so it does not change the run.

use std::collections::BTreeSet;

use firstseen_checker::rights::{ActedOn, Permission};
use firstseen_routing::{ClusterMap, FilterVerb, Grant};

use crate::clock::now_us;
use crate::principals::producer_name;
use crate::scenario::Scenario;
use crate::shared_history::{SharedHistory, lock};

/// Records the rights that nodes act on in the history of a run. Clones share the history.
#[derive(Clone, Default)]
pub(crate) struct Acting {
    history: SharedHistory,
    /// Number of producers that are recorded, or 0 in a run without rights.
    producers: u32,
}

/// Recorder for one process of a node.
pub(crate) struct ActingProcess {
    history: SharedHistory,
    node: usize,
    /// For each producer, what it has been granted, and the number of the record about it.
    noted: Vec<Option<(BTreeSet<Grant>, usize)>>,
}

impl Acting {
    /// Creates a recorder that writes to `history` for the nodes of `scenario`.
    pub(crate) fn noted_in(history: &SharedHistory, scenario: &Scenario) -> Self {
        Self { history: history.clone(), producers: if scenario.rights { scenario.producers } else { 0 } }
    }

    /// Starts the recording for a process of node `node`.
    pub(crate) fn of_process(&self, node: usize) -> ActingProcess {
        ActingProcess { history: self.history.clone(), node, noted: vec![None; self.producers as usize] }
    }
}

impl ActingProcess {
    /// Records that the node uses the rights in `map` at this moment. If the previous observation found the same
    /// grants, the function concludes that the node has used them during the whole time in between. The conclusion is
    /// safe, because a producer never gets exactly the grants back that it had before a change (`crate::access`).
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
                _ if principal.may(FilterVerb::Observe, filter) => Permission::Observe,
                _ if principal.may(FilterVerb::Lookup, filter) => Permission::LookUp,
                _ => Permission::Nothing,
            };
            *noted = Some((principal.grants, acted_on.len()));
            acted_on.push(ActedOn { node: self.node, producer, may, from_us: now_us, until_us: now_us });
        }
    }
}
