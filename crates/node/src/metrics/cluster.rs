//! Metrics of the whole cluster, as the map of this node says.
//!
//! Promises: some series for each node, and a dozen for each filter of the map, whatever the number of its slices; every node shows
//! them, also one that has no slice of the filter. Must not know: what owners count.

use firstseen_filter::Window;
use firstseen_routing::{ClusterMap, FilterRecord, SliceOwner};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::{Registry, Unit};

use super::{FilterLabel, Gauges, Ratio, gauge_value, show_gauge};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct NodeLabel {
    node: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct StateLabels {
    filter: String,
    state: &'static str,
}

/// The states of a copy of a slice. `incomplete` is one that no complete copy can help.
const STATES: [&str; 5] = ["arriving", "complete", "fetching", "gone", "incomplete"];

/// Shows nodes, filters, and what is under way between them.
pub(super) fn show(registry: &mut Registry, map: &ClusterMap) {
    let nodes = Gauges::<NodeLabel>::default();
    for record in map.nodes.values() {
        nodes.of(&NodeLabel { node: record.name.clone() }).set(i64::from(record.is_down));
    }
    registry.register("node_down", "1 where the map says that the node is down", nodes);
    let filters = || map.filters.values();
    let closed = || filters().filter_map(|record| record.line.closed.as_ref());
    let totals = [
        ("cluster_nodes", "Nodes of the cluster", map.nodes.len()),
        ("cluster_filters", "Filters of the cluster; levels of trees count each", map.filters.len()),
        ("nodes_down", "Nodes that the map says are down", map.nodes.values().filter(|node| node.is_down).count()),
        (
            "moves_under_way",
            "Copies of slices that are to go to other nodes",
            filters().flat_map(FilterRecord::moves).count(),
        ),
        ("alterations_under_way", "Filters that another follows, and that are still asked", closed().count()),
        (
            "alterations_waiting",
            "Of these, filters of which a node has not said that its events in flight have ended: new events wait",
            closed().filter(|closed| !closed.has_ended()).count(),
        ),
    ];
    for (name, help, value) in totals {
        show_gauge(registry, name, help, value as u64);
    }
    let (definitions, copies) = (Definitions::new(registry), Gauges::<StateLabels>::default());
    let help =
        "Copies of slices by what the map says of them; `incomplete`: no copy has all, and what it lacks is lost";
    registry.register("filter_copies", help, copies.clone());
    for record in filters() {
        definitions.show(record);
        for state in STATES {
            let has_state = |(slice, owner): &(u32, &SliceOwner)| state_of(map, record, *slice, owner) == state;
            let count = record.all_copies().filter(has_state).count() as u64;
            copies.of(&StateLabels { filter: record.name.clone(), state }).set(gauge_value(count));
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

/// What filters were created with.
#[derive(Default)]
struct Definitions {
    capacity: Gauges<FilterLabel>,
    window_s: Ratio<FilterLabel>,
    copies: Gauges<FilterLabel>,
    rate: Ratio<FilterLabel>,
}

impl Definitions {
    fn new(registry: &mut Registry) -> Self {
        let definitions = Self::default();
        let help = "Events of a window that the filter was sized for, where a capacity was given";
        registry.register("filter_capacity_events", help, definitions.capacity.clone());
        let help = "The window of the filter, where it is a time";
        registry.register_with_unit("filter_window", help, Unit::Seconds, definitions.window_s.clone());
        let help = "Copies of each slice that the filter is to have beside the first";
        registry.register("filter_copies_wanted", help, definitions.copies.clone());
        let help = "The chance that an event never seen is called a duplicate, for which the filter was sized";
        registry.register("filter_false_positive_target_ratio", help, definitions.rate.clone());
        definitions
    }

    fn show(&self, record: &FilterRecord) {
        let label = FilterLabel { filter: record.name.clone() };
        let (slicing, group) = (record.definition.slicing, &record.definition.group);
        if let Some(events) = group.capacity_events {
            self.capacity.of(&label).set(gauge_value(events.saturating_mul(u64::from(slicing.groups()))));
        }
        if let Window::Duration(window_ms) | Window::LandmarkDuration(window_ms) = group.window {
            self.window_s.of(&label).set(window_ms as f64 / 1e3);
        }
        self.copies.of(&label).set(i64::from(record.policies.copies));
        self.rate.of(&label).set(group.rate);
    }
}
