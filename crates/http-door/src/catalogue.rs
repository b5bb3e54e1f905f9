//! The filters of the cluster, as a client may know of them.
//!
//! Promises: the fields have the names that they have in `firstseen filter describe --json`. This module must not depend on requests.

use firstseen_routing::{ClusterMap, FilterId, FilterPolicies, FilterRecord, SlicedDefinition};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// The names of the filters that the client may know of.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FilterNames {
    pub(crate) filters: Vec<String>,
}

/// A filter, as the node knows it from the cluster map. The fields are those of `firstseen filter describe --json`, except those that are
/// queried from each node.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Filter)]
pub(crate) struct FilterDescription<'a> {
    /// The name of the filter.
    name: &'a str,
    /// The number of the filter, which no other filter of the cluster has or had.
    #[schema(value_type = u64)]
    number: FilterId,
    /// The epoch of the filter.
    epoch: u64,
    /// Kind, window, capacity and slicing.
    #[schema(value_type = Object)]
    definition: &'a SlicedDefinition,
    /// What is promised when nodes fail.
    #[schema(value_type = Object)]
    policies: FilterPolicies,
    /// The place of the filter in its tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false, required = false)]
    tree: Option<Value>,
    /// The slices of the filter, and the nodes that have them.
    slices: Vec<SliceDescription<'a>>,
}

/// A copy of a slice of a filter.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Slice)]
struct SliceDescription<'a> {
    slice: u32,
    /// 0 for the first copy.
    copy: usize,
    /// Whether this copy is asked. The other copies are set as well.
    asked: bool,
    /// The name of its node.
    node: &'a str,
    /// The start of its node from which on it has had every event.
    complete_since: u64,
    /// The newest start of its node.
    node_start: u64,
    /// Whether the map counts it as complete.
    complete: bool,
    /// Whether its node is down.
    down: bool,
    /// Whether its node cannot hold it.
    missing: bool,
}

/// Describes a filter by the map.
pub(crate) fn describe<'a>(map: &'a ClusterMap, number: FilterId, filter: &'a FilterRecord) -> FilterDescription<'a> {
    let copies = (0..filter.owners.len() as u32)
        .flat_map(|slice| filter.copies_of(slice).enumerate().map(move |(copy, owner)| (slice, copy, owner)));
    let slices = copies.map(|(slice, copy, owner)| SliceDescription {
        slice,
        copy,
        asked: map.asked(filter, slice).is_some_and(|asked| asked.node == owner.node),
        node: map.node_name(owner.node),
        complete_since: owner.complete_since.0,
        node_start: map.nodes.get(&owner.node).map_or(0, |node| node.incarnation.0),
        complete: map.is_complete_copy(owner),
        down: map.is_down(owner.node),
        missing: !map.is_down(owner.node) && map.is_gone(owner),
    });
    FilterDescription {
        name: &filter.name,
        number,
        epoch: filter.epoch.0,
        definition: &filter.definition,
        policies: filter.policies,
        tree: filter.branch.as_ref().map(|branch| serde_json::json!({ "mode": branch.mode, "place": branch.place })),
        slices: slices.collect(),
    }
}
