//! Metrics that describe the whole cluster, according to this node's version of the cluster map. There are a few series
//! for each node and about a dozen series for each filter, regardless of the filter's number of slices. Every node
//! exposes the metrics of all nodes and filters, so a scrape of a single node is enough to monitor the cluster.

use firstseen_filter::Window;
use firstseen_routing::{Closed, ClusterMap, FilterRecord, SliceOwner};

use super::gathering::{Gathering, Series};
use super::{gauge_value, show_gauge};

/// The possible states of a copy of a slice. `incomplete` means that no complete copy exists from which it could fetch
/// its missing data.
const STATES: [&str; 5] = ["arriving", "complete", "fetching", "gone", "incomplete"];

/// Adds nodes, filters, and the moves and alterations in progress.
pub(super) fn show(now: &mut Gathering, map: &ClusterMap) {
    for record in map.nodes.values() {
        let help = "1 if the cluster map lists the node as down";
        now.of("node", record.name.as_str()).gauge("node_down", help).set(i64::from(record.is_down));
    }
    let closed: Vec<&Closed> = map.filters.values().filter_map(|record| record.line.closed.as_ref()).collect();
    let totals = [
        ("cluster_nodes", "Nodes of the cluster", map.nodes.len()),
        ("cluster_filters", "Filters of the cluster, where each level of a tree counts separately", map.filters.len()),
        (
            "nodes_down",
            "Nodes that the cluster map lists as down",
            map.nodes.values().filter(|node| node.is_down).count(),
        ),
        (
            "moves_under_way",
            "Copies of slices that are being moved to other nodes",
            map.filters.values().flat_map(FilterRecord::moves).count(),
        ),
        ("alterations_under_way", "Predecessors of altered filters that are still queried", closed.len()),
        (
            "alterations_waiting",
            "Predecessors with nodes that still have events in flight, so that new events wait",
            closed.iter().filter(|closed| !closed.has_ended()).count(),
        ),
    ];
    for (name, help, value) in totals {
        show_gauge(&mut now.registry, name, help, value as u64);
    }
    let help =
        "Copies of slices by state; `incomplete` means that no copy is complete, so that the missing data is lost";
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

/// Adds the parameters that a filter was created with.
fn show_definition(filter: &mut Series<'_>, record: &FilterRecord) {
    let slicing = record.definition.slicing;
    let group = &record.definition.group;
    if let Some(events) = group.capacity_events {
        let help = "Events of one window that the filter was sized for, if a capacity was given";
        let capacity_events = events.saturating_mul(u64::from(slicing.groups()));
        filter.gauge("filter_capacity_events", help).set(gauge_value(capacity_events));
    }
    if let Window::Duration(window_ms) | Window::LandmarkDuration(window_ms) = group.window {
        filter.seconds("filter_window", "Window of the filter, if it is a duration").set(window_ms as f64 / 1e3);
    }
    let help = "Configured number of copies of each slice in addition to the first";
    filter.gauge("filter_copies_wanted", help).set(i64::from(record.policies.copies));
    let help = "Target false-positive rate that the filter was sized for";
    filter.ratio("filter_false_positive_target_ratio", help).set(group.rate);
}
