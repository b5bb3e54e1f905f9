//! Descriptions of the cluster's filters, as far as a client may see them.
//!
//! The description of a filter has the same field names here as in the output of `firstseen filter describe --json`, so
//! programs can process both in the same way.
//!
//! This module does not depend on requests.

use firstseen_routing::{ClusterMap, FilterId, FilterPolicies, FilterRecord, SlicedDefinition};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Names of the filters that the client may see.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FilterNames {
    pub(crate) filters: Vec<String>,
}

/// Description of a filter from the node's cluster map. The fields have the names and meanings of `firstseen filter
/// describe --json`. Fields for which every node would have to be queried are left out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Filter)]
pub(crate) struct FilterDescription<'a> {
    /// Name of the filter.
    name: &'a str,
    /// Number of the filter. No other filter of the cluster has, or ever had, this number.
    #[schema(value_type = u64)]
    number: FilterId,
    /// Epoch of the filter, which increases when owners of its slices change.
    epoch: u64,
    /// Kind, window, capacity and slicing of the filter.
    #[schema(value_type = Object)]
    definition: &'a SlicedDefinition,
    /// Guarantees of the filter when nodes fail.
    #[schema(value_type = Object)]
    policies: FilterPolicies,
    /// Place of the filter in its tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false, required = false)]
    tree: Option<Value>,
    /// Slices of the filter, and the nodes that own them.
    slices: Vec<SliceDescription<'a>>,
}

/// Copy of a slice of a filter.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Slice)]
struct SliceDescription<'a> {
    slice: u32,
    /// Index of the copy. The first copy has index 0.
    copy: usize,
    /// Whether lookups use this copy. Events are recorded in all copies.
    asked: bool,
    /// Name of the node that has the copy.
    node: &'a str,
    /// Start of the node since which the copy has received every event.
    complete_since: u64,
    /// Most recent start of the node.
    node_start: u64,
    /// Whether the copy is complete according to the cluster map.
    complete: bool,
    /// Whether the node is down.
    down: bool,
    /// Whether the node cannot hold the copy.
    missing: bool,
}

/// Describes a filter according to the cluster map.
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
