//! Finds, adds and removes filters in the cluster map. The number of filters and the size of their definitions are
//! limited, so that the definitions of all filters fit into one message.

use std::collections::BTreeSet;
use std::sync::Arc;

use firstseen_routing::check::{check_copies, check_definition, check_durability, check_thresholds};
use firstseen_routing::{ClusterMap, FilterId, FilterPolicies, FilterRecord, SlicedDefinition};
use firstseen_wire::limits::{FILTERS_MAX, MAP_FILTERS_BYTES_MAX};
use firstseen_wire::map::filter_bytes_max;

use crate::change::format_of_filter;
use crate::names::check_text;
use crate::refusal::Refusal;
use crate::state::State;

/// Returns the filter that users call `name`.
pub(crate) fn named<'map>(map: &'map ClusterMap, name: &str) -> Result<(FilterId, &'map FilterRecord), Refusal> {
    map.filter_named(name).ok_or_else(|| Refusal::FilterUnknown { name: format!("`{name}`") })
}

/// Returns the record of filter `filter`.
pub(crate) fn numbered(map: &ClusterMap, filter: FilterId) -> Result<&FilterRecord, Refusal> {
    map.filters.get(&filter).ok_or_else(|| Refusal::FilterUnknown { name: filter.to_string() })
}

/// Returns a mutable reference to the record of filter `filter`. The map is not copied if the filter does not exist.
pub(crate) fn numbered_mut(state: &mut State, filter: FilterId) -> Result<&mut FilterRecord, Refusal> {
    numbered(&state.map, filter)?;
    let record = Arc::make_mut(&mut state.map).filters.get_mut(&filter);
    record.ok_or_else(|| Refusal::FilterUnknown { name: filter.to_string() })
}

/// Returns whether `record` is filter `root`, or a level of the tree with that root.
pub(crate) fn is_in_tree(root: FilterId, id: FilterId, record: &FilterRecord) -> bool {
    id == root || record.branch.as_ref().is_some_and(|branch| branch.root == root)
}

/// Checks whether a filter with this definition and these policies is suitable for a cluster. The error says why not.
pub(crate) fn check_filter(definition: &SlicedDefinition, policies: &FilterPolicies) -> Result<(), String> {
    check_definition(definition)
        .and_then(|()| check_durability(definition, policies.durability))
        .and_then(|()| check_thresholds(definition, policies.thresholds))
        .and_then(|()| check_copies(definition, policies.copies))
        .map_err(|refusal| refusal.to_string())
}

/// Checks whether every node of a cluster accepts a filter with these policies. A node of an earlier release may have
/// proposed the filter without this check. The error says what to do.
pub(crate) fn check_format(map: &ClusterMap, policies: &FilterPolicies, is_in_tree: bool) -> Result<(), String> {
    let needed = format_of_filter(is_in_tree, policies);
    let format = map.format;
    if needed <= format {
        return Ok(());
    }
    Err(format!(
        "a tree with a journal or copies requires format {needed}, but the cluster writes format {format}: when every \
         node runs a version that reads it, raise the format with firstseen cluster upgrade finalize"
    ))
}

/// Checks whether a new filter may have this name.
pub(crate) fn check_new(map: &ClusterMap, name: &str) -> Result<(), Refusal> {
    check_text("the name of a filter", name)?;
    if map.filter_named(name).is_some() {
        return Err(Refusal::FilterExists { name: name.to_owned() });
    }
    if map.filters.len() >= FILTERS_MAX {
        return Err(Refusal::Full { what: "filters".to_owned(), most: FILTERS_MAX as u64 });
    }
    Ok(())
}

/// Adds a filter under the next free number.
pub(crate) fn insert_new(map: &mut ClusterMap, record: FilterRecord) -> Result<FilterId, Refusal> {
    let filter = map.next_filter;
    check_size(map, filter, &record)?;
    map.filters.insert(filter, record);
    map.next_filter = FilterId(filter.0 + 1);
    Ok(filter)
}

/// Checks whether the map with this filter fits into one message. All filters are sent with every change of the map.
pub(crate) fn check_size(map: &ClusterMap, filter: FilterId, record: &FilterRecord) -> Result<(), Refusal> {
    let bytes = filter_bytes_max(filter, record);
    let used_bytes = map.filters.iter().map(|(filter, record)| filter_bytes_max(*filter, record)).sum();
    let free_bytes = MAP_FILTERS_BYTES_MAX.saturating_sub(used_bytes);
    if bytes <= free_bytes {
        return Ok(());
    }
    Err(Refusal::MapFull {
        name: record.name.clone(),
        slices: record.definition.slicing.slices(),
        bytes: bytes as u64,
        free_bytes: free_bytes as u64,
    })
}

/// Removes these filters together with their secrets.
pub(crate) fn forget(state: &mut State, filters: &BTreeSet<FilterId>) {
    Arc::make_mut(&mut state.map).filters.retain(|id, _| !filters.contains(id));
    Arc::make_mut(&mut state.secrets).retain(|id, _| !filters.contains(id));
}
