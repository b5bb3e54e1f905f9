//! Metrics of the whole cluster, as the map of this node says.
//!
//! Promises: some series for each node, and a dozen for each filter of the map, whatever the number of its slices; every node shows
//! them, also one that has no slice of the filter. Must not know: what owners count.

use firstseen_filter::Window;
use firstseen_routing::{Closed, ClusterMap, FilterRecord, SliceOwner};

use super::gathering::{Gathering, Series};
use super::{gauge_value, show_gauge};

/// The states of a copy of a slice. `incomplete` is one that no complete copy can help.
const STATES: [&str; 5] = ["arriving", "complete", "fetching", "gone", "incomplete"];

/// Shows nodes, filters, and what is under way between them.
pub(super) fn show(now: &mut Gathering, map: &ClusterMap) {
    for record in map.nodes.values() {
        let help = "1 where the map says that the node is down";
        now.of("node", record.name.as_str()).gauge("node_down", help).set(i64::from(record.is_down));
    }
    let closed: Vec<&Closed> = map.filters.values().filter_map(|record| record.line.closed.as_ref()).collect();
    let totals = [
        ("cluster_nodes", "Nodes of the cluster", map.nodes.len()),
        ("cluster_filters", "Filters of the cluster; levels of trees count each", map.filters.len()),
        ("nodes_down", "Nodes that the map says are down", map.nodes.values().filter(|node| node.is_down).count()),
        (
            "moves_under_way",
            "Copies of slices that are to go to other nodes",
            map.filters.values().flat_map(FilterRecord::moves).count(),
        ),
        ("alterations_under_way", "Filters that another follows, and that are still asked", closed.len()),
        (
            "alterations_waiting",
            "Of these, filters of which a node has not said that its events in flight have ended: new events wait",
            closed.iter().filter(|closed| !closed.has_ended()).count(),
        ),
    ];
    for (name, help, value) in totals {
        show_gauge(&mut now.registry, name, help, value as u64);
    }
    let help =
        "Copies of slices by what the map says of them; `incomplete`: no copy has all, and what it lacks is lost";
    for record in map.filters.values() {
        let mut filter = now.of("filter", record.name.as_str());
        show_definition(&mut filter, record);
        for state in STATES {
            let copies = record.all_copies().filter(|(slice, owner)| state_of(map, record, *slice, owner) == state);
            filter.and("state", state).gauge("filter_copies", help).set(gauge_value(copies.count() as u64));
        }
    }
}

fn state_of(map: &ClusterMap, record: &FilterRecord, slice: u32, owner: &SliceOwner) -> &'static str {
    match () {
        () if map.is_gone(owner) => "gone",
        () if map.is_complete_copy(owner) => "complete",
        () if record.arriving_since(slice, owner.node).is_some() => "arriving",
        () if map.is_complete(record, slice) => "fetching",
        () => "incomplete",
    }
}

/// Shows what a filter was created with.
fn show_definition(filter: &mut Series<'_>, record: &FilterRecord) {
    let slicing = record.definition.slicing;
    let group = &record.definition.group;
    if let Some(events) = group.capacity_events {
        let help = "Events of a window that the filter was sized for, where a capacity was given";
        let capacity_events = events.saturating_mul(u64::from(slicing.groups()));
        filter.gauge("filter_capacity_events", help).set(gauge_value(capacity_events));
    }
    if let Window::Duration(window_ms) | Window::LandmarkDuration(window_ms) = group.window {
        filter.seconds("filter_window", "The window of the filter, where it is a time").set(window_ms as f64 / 1e3);
    }
    let help = "Copies of each slice that the filter is to have beside the first";
    filter.gauge("filter_copies_wanted", help).set(i64::from(record.policies.copies));
    let help = "The chance that an event never seen is called a duplicate, for which the filter was sized";
    filter.ratio("filter_false_positive_target_ratio", help).set(group.rate);
}
