//! A cluster map for tests. Each slice is on one node and complete there. This module does not depend on the tests that
//! use the map.

use firstseen_filter::{FilterSpec, Kind};
use firstseen_routing::{
    ClusterId, ClusterMap, Epoch, FilterId, FilterPolicies, FilterRecord, Incarnation, NodeId, NodeRecord, SliceOwner,
    SlicedDefinition,
};

/// The filter of the map.
pub(crate) const FILTER: FilterId = FilterId(1);

/// Returns the record of a node that is up.
pub(crate) fn node(id: NodeId) -> NodeRecord {
    NodeRecord {
        name: format!("node-{id}"),
        site: "here".to_owned(),
        address: "127.0.0.1:1".to_owned(),
        incarnation: Incarnation(1),
        memory_bytes: 1 << 30,
        voter: true,
        is_down: false,
    }
}

/// Returns a cluster map with the filter `clicks`. Its slices are on the first of `nodes` nodes, which are numbered
/// from 1.
pub(crate) fn map(slicing: &str, nodes: u64, policies: FilterPolicies) -> ClusterMap {
    let spec =
        FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window")) };
    let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition");
    let nodes: Vec<NodeId> = (1..=nodes).map(NodeId).collect();
    let owners = nodes.iter().cycle().map(|node| SliceOwner {
        node: *node,
        complete_since: Incarnation(1),
        ..SliceOwner::default()
    });
    let record = FilterRecord {
        name: "clicks".to_owned(),
        epoch: Epoch::FIRST,
        owners: owners.take(definition.slicing.slices() as usize).collect(),
        definition,
        policies,
        copies: Vec::new(),
        generations: Vec::new(),
        branch: None,
        line: Default::default(),
    };
    ClusterMap {
        cluster: ClusterId([1; 16]),
        version: 1,
        nodes: nodes.into_iter().map(|id| (id, node(id))).collect(),
        filters: [(FILTER, record)].into(),
        next_filter: FilterId(2),
        format: Default::default(),
        access: Default::default(),
    }
}
