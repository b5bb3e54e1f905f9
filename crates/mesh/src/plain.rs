//! Nodes, filters, maps and submissions of which nothing is special: tests and experiments change what they mean.
//!
//! Promises: in a map, all nodes are up, and all slices are complete. Must not know: what they are changed to.

use firstseen_filter::{GenerationNumber, Probes};
use firstseen_routing::{
    Branch, ClusterMap, Epoch, FilterId, FilterPolicies, FilterRecord, Incarnation, Line, MonotonicMs, NodeId,
    NodeRecord, Operation, SliceOwner, SlicedDefinition, Submission, Times, TreeRefusal, TreeSpec,
};

/// The root of a tree; the other places have the numbers that follow.
pub const ROOT: FilterId = FilterId(1);
/// A level of a tree is on so many nodes, where it has so many slices.
const NODES_OF_LEVEL: u32 = 3;

/// A node that is up, has room for everything, and was not started yet.
pub fn node_record(id: NodeId) -> NodeRecord {
    NodeRecord {
        name: format!("node-{id}"),
        site: "here".to_owned(),
        address: format!("node-{id}:1"),
        incarnation: Incarnation::default(),
        memory_bytes: u64::MAX,
        voter: true,
        is_down: false,
    }
}

/// The record of a filter that was just created.
pub fn filter_record(definition: &SlicedDefinition, policies: FilterPolicies, owners: Vec<SliceOwner>) -> FilterRecord {
    FilterRecord {
        name: "clicks".to_owned(),
        epoch: Epoch::FIRST,
        definition: definition.clone(),
        policies,
        owners,
        copies: Vec::new(),
        generations: Vec::new(),
        branch: None,
        line: Line::default(),
    }
}

/// A cluster of one filter, whose slices these nodes have.
pub fn filter_map(
    filter: FilterId,
    definition: &SlicedDefinition,
    policies: FilterPolicies,
    owners: &[NodeId],
) -> ClusterMap {
    let record = filter_record(definition, policies, owners.iter().map(owner).collect());
    let generations = vec![GenerationNumber::FIRST; definition.slicing.groups() as usize];
    ClusterMap {
        version: 1,
        nodes: owners.iter().map(|id| (*id, node_record(*id))).collect(),
        filters: [(filter, FilterRecord { generations, ..record })].into(),
        ..ClusterMap::default()
    }
}

/// A cluster of one tree. Each level is at a site of its own, on up to three nodes of its own.
///
/// # Errors
/// [`TreeRefusal`] where the tree cannot be.
pub fn tree_map(
    tree: &TreeSpec,
    definition: &SlicedDefinition,
    policies: FilterPolicies,
) -> Result<ClusterMap, TreeRefusal> {
    let sites = tree.places.iter().flat_map(|place| &place.sites).map(String::as_str).collect();
    let mut map = ClusterMap { version: 1, ..ClusterMap::default() };
    for (index, place) in tree.plan(definition, &sites)?.iter().enumerate() {
        let slices = place.definition.slicing.slices();
        let next = 1 + map.nodes.len() as u64;
        let nodes: Vec<NodeId> = (next..).take(slices.min(NODES_OF_LEVEL) as usize).map(NodeId).collect();
        for id in &nodes {
            map.nodes.insert(*id, NodeRecord { site: place.name.clone(), ..node_record(*id) });
        }
        let branch = Branch {
            root: ROOT,
            parent: place.parent.map(filter_of),
            level: place.level,
            fold: place.fold,
            place: place.name.clone(),
            mode: tree.mode,
            top_down: tree.top_down,
            cut_off: tree.cut_off,
        };
        let owners = nodes.iter().cycle().take(slices as usize).map(owner).collect();
        let record = filter_record(&place.definition, policies, owners);
        map.filters.insert(filter_of(index), FilterRecord { name: place.name.clone(), branch: Some(branch), ..record });
    }
    Ok(map)
}

/// The filter of a place of a tree.
fn filter_of(place: usize) -> FilterId {
    FilterId(ROOT.0 + place as u64)
}

fn owner(node: &NodeId) -> SliceOwner {
    SliceOwner { node: *node, ..SliceOwner::default() }
}

/// The submission of this number by producer 1: without names, times and a deadline.
pub fn plain_submission(number: u64, operation: Operation, probes: Probes) -> Submission {
    Submission {
        reply_to: number,
        operation,
        producer: 1,
        sequence: number,
        names: Vec::new(),
        fences: Vec::new(),
        from: None,
        probes,
        times: Times::default(),
        deadline_ms: MonotonicMs::END,
        again: false,
        traceparent: None,
    }
}
