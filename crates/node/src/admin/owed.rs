//! Reports the events that levels of filter trees on this node have decided without their parent levels, and have not
//! sent to them yet.

use std::collections::BTreeMap;
use std::time::Duration;

use firstseen_routing::{ClusterMap, FilterId, NodeId};
use firstseen_wire::proto::admin::{OwedOfFilter, OwedReport};

use crate::group_key::GroupKey;
use crate::owner::Owners;
use crate::view::Views;

/// Maximum time that the report waits for the owner threads.
const COUNT_MAX: Duration = Duration::from_secs(1);

/// Returns the report. `None` means that an owner thread is too busy to answer.
pub(super) async fn report(owners: &Owners, views: &Views) -> Option<OwedReport> {
    let owed = tokio::time::timeout(COUNT_MAX, owners.owed()).await.ok()?;
    let view = views.newest();
    let mut filters: BTreeMap<FilterId, OwedOfFilter> = BTreeMap::new();
    for (key, counts) in owed {
        let events = counts.waiting_events;
        let empty = OwedOfFilter { filter_id: key.filter.0, ..OwedOfFilter::default() };
        let filter = filters.entry(key.filter).or_insert(empty);
        filter.events += events;
        if !has_slices(&view.map, key, view.node()) {
            filter.moved_events += events;
        }
    }
    Some(OwedReport { filters: filters.into_values().collect() })
}

/// Returns whether the cluster map assigns a slice of the group to the node.
fn has_slices(map: &ClusterMap, GroupKey { filter, group }: GroupKey, node: Option<NodeId>) -> bool {
    let Some(record) = map.filters.get(&filter) else { return false };
    let mut copies = record.definition.slicing.slices_of(group).flat_map(|slice| record.copies_of(slice));
    copies.any(|copy| Some(copy.node) == node)
}
