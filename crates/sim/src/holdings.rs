//! Computes which events have cells on which nodes. The result only depends on the cluster map, the scenario's secrets
//! and the events' keys.

use std::collections::BTreeSet;

use firstseen_filter::{FilterSecret, Probes};
use firstseen_routing::{ClusterMap, FilterRecord, GroupPlan, Prober};

use crate::alterations;
use crate::cluster::{FILTER, line, node_name};
use crate::scenario::Scenario;

/// The events that are lost with a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeEvents {
    /// Events that have cells on the node.
    pub(crate) any: BTreeSet<u64>,
    /// Events that have more than half of their cells on the node.
    pub(crate) most: BTreeSet<u64>,
    /// Events that have all of their cells on the node.
    pub(crate) whole: BTreeSet<u64>,
}

/// Returns the events that have cells on each node of `map`.
pub(crate) fn events_by_node(scenario: &Scenario, map: &ClusterMap) -> turmoil::Result<Vec<NodeEvents>> {
    let (_, record) = map.filter_named(FILTER).ok_or("no filter")?;
    events_of(scenario, map, record)
}

/// Returns the events that have all of their cells on node `node` of `map`, in the filter to which they are sent or in
/// its predecessor.
pub(crate) fn whole_events(scenario: &Scenario, map: &ClusterMap, node: usize) -> turmoil::Result<BTreeSet<u64>> {
    let mut whole = BTreeSet::new();
    for (_, record) in line(map) {
        whole.append(&mut events_of(scenario, map, record)?[node].whole);
    }
    Ok(whole)
}

fn events_of(scenario: &Scenario, map: &ClusterMap, record: &FilterRecord) -> turmoil::Result<Vec<NodeEvents>> {
    let prober = Prober::new(&record.definition)?;
    let plan = GroupPlan::new(&record.definition)?;
    let secret = FilterSecret::from_material(&alterations::secret_of(scenario, record.line.former.is_some()));
    let mut events = vec![NodeEvents::default(); scenario.nodes];
    for event in 0..scenario.events {
        let digest = secret.digest(&event.to_le_bytes());
        let mut probes = Probes::new(prober.shape());
        prober.push(digest, &mut probes);
        let first = record.definition.slicing.slices_of(prober.group(digest)).start;
        let mut cells = vec![0; scenario.nodes];
        for position in probes.positions(0) {
            // A group that consists of one slice has all cells of its events.
            let slice = plan.as_ref().map_or(0, |plan| plan.place(*position).0);
            for copy in record.copies_of(first + slice) {
                let node = map.nodes.get(&copy.node).ok_or("no owner")?;
                let index = (0..scenario.nodes).find(|index| node_name(*index) == node.name).ok_or("no such node")?;
                cells[index] += 1;
            }
        }
        let all = probes.positions(0).len();
        for (events, cells) in events.iter_mut().zip(cells) {
            let NodeEvents { any, most, whole } = events;
            for (part, has_it) in [(any, cells > 0), (most, 2 * cells > all), (whole, cells == all)] {
                part.extend(has_it.then_some(event));
            }
        }
    }
    Ok(events)
}
