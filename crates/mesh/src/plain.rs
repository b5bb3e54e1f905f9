//! Default nodes, filters, cluster maps and batches. Tests and experiments start from these defaults and modify them as
//! needed. In a default map, all nodes are up and all slices are complete.

use firstseen_filter::{GenerationNumber, Probes};
use firstseen_routing::{
    Branch, ClusterMap, Epoch, FilterHistory, FilterId, FilterPolicies, FilterRecord, Incarnation, MonotonicMs, NodeId,
    NodeRecord, Operation, SliceOwner, SlicedDefinition, Submission, Times, TreeRefusal, TreeSpec,
};

/// Number of the root of a tree. The other places have the following numbers.
pub const ROOT: FilterId = FilterId(1);
/// Maximum number of nodes of a level. A level with fewer slices has one node for each slice.
const NODES_OF_LEVEL: u32 = 3;

/// Returns the record of a node that is up, has unlimited memory and has not started yet.
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

/// Returns the record of a filter that was just created.
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
        line: FilterHistory::default(),
    }
}

/// Returns the map of a cluster with one filter, whose slices these nodes own.
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

/// Returns the map of a cluster with one tree. Each level is at a separate site, on up to three separate nodes.
///
/// # Errors
/// Returns [`TreeRefusal`] if the tree is impossible.
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
        let policies = if place.parent.is_some() { policies.below_root(tree.cut_off) } else { policies };
        let record = filter_record(&place.definition, policies, owners);
        map.filters.insert(filter_of(index), FilterRecord { name: place.name.clone(), branch: Some(branch), ..record });
    }
    Ok(map)
}

/// Returns the filter of a place in a tree.
fn filter_of(place: usize) -> FilterId {
    FilterId(ROOT.0 + place as u64)
}

fn owner(node: &NodeId) -> SliceOwner {
    SliceOwner { node: *node, ..SliceOwner::default() }
}

/// Returns the batch with this number of producer 1, without idempotency keys, times or a deadline.
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
