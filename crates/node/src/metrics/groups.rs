//! Metrics of groups and slices.
//!
//! Promises: rates and counts are as their owner gives them, labelled by filter, group and slice, as long as there are
//! not too many series. Must not know: how they come about.

use firstseen_routing::{ClusterMap, DecisionCounts, HopCounts, Reason, SliceState};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::{Registry, Unit};

use super::filters::Filters;
use super::{Count, Gauges, Ratio, gauge_value};
use crate::owner::GroupLook;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct SliceLabels {
    filter: String,
    slice: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct GroupLabels {
    filter: String,
    group: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct DecisionLabels {
    filter: String,
    group: u32,
    decision: &'static str,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct HopLabels {
    filter: String,
    group: u32,
    operation: &'static str,
}

/// Registers the metrics of all looks, which stand in the order of filters. Of a filter with more than `slices_max`
/// slices here, groups and slices are shown together only.
pub(super) fn register(registry: &mut Registry, map: &ClusterMap, looks: &[GroupLook], slices_max: u32) {
    let (filters, groups, slices) = (Filters::new(registry), GroupMetrics::new(registry), Slices::new(registry));
    for looks in looks.chunk_by(|one, next| one.filter == next.filter) {
        let Some(filter) = looks.first().and_then(|look| map.filters.get(&look.filter)) else { continue };
        filters.show(filter, looks);
        if looks.iter().map(|look| look.state.slices.len()).sum::<usize>() > slices_max as usize {
            continue;
        }
        for look in looks {
            groups.show(&filter.name, look);
            look.state.slices.iter().for_each(|slice| slices.show(&filter.name, slice));
        }
    }
}

#[derive(Default)]
struct Slices {
    fill: Ratio<SliceLabels>,
    expected_rate: Ratio<SliceLabels>,
    bytes: Gauges<SliceLabels>,
    live_events: Gauges<SliceLabels>,
    generations: Gauges<SliceLabels>,
    ready: Gauges<SliceLabels>,
    complete: Gauges<SliceLabels>,
    test_visits: Count<SliceLabels>,
    set_visits: Count<SliceLabels>,
    positions: Count<SliceLabels>,
}

impl Slices {
    fn new(registry: &mut Registry) -> Self {
        let slices = Self::default();
        let help = "The share of cells that are set, where it says how full the slice is; from a sample of 1 MiB";
        registry.register("slice_fill_ratio", help, slices.fill.clone());
        let help = "The chance that an event never seen is called a duplicate, from the cells as they are";
        registry.register("slice_expected_false_positive_ratio", help, slices.expected_rate.clone());
        registry.register_with_unit("slice_cells", "Memory of cells", Unit::Bytes, slices.bytes.clone());
        let help = "Events recorded that have not expired, where the slice counts them";
        registry.register("slice_live_events", help, slices.live_events.clone());
        registry.register("slice_generations", "Generations of cells", slices.generations.clone());
        registry.register("slice_ready", "1 where the slice answers", slices.ready.clone());
        let help = "1 where the slice has all that was ever recorded in it";
        registry.register("slice_complete", help, slices.complete.clone());
        registry.register("slice_test_visits", "Events tested in the slice", slices.test_visits.clone());
        registry.register("slice_set_visits", "Events recorded in the slice", slices.set_visits.clone());
        registry.register("slice_positions_tested", "Positions looked at by tests", slices.positions.clone());
        slices
    }

    fn show(&self, filter: &str, slice: &SliceState) {
        let labels = SliceLabels { filter: filter.to_owned(), slice: slice.slice };
        if let Some(fill) = slice.fill {
            self.fill.of(&labels).set(fill);
        }
        self.expected_rate.of(&labels).set(slice.expected_rate);
        self.bytes.of(&labels).set(gauge_value(slice.bytes));
        if let Some(live_events) = slice.live_events {
            self.live_events.of(&labels).set(gauge_value(live_events));
        }
        self.generations.of(&labels).set(i64::from(slice.generations));
        self.ready.of(&labels).set(i64::from(slice.ready));
        self.complete.of(&labels).set(i64::from(slice.complete));
        self.test_visits.of(&labels).inc_by(slice.load.test_visits);
        self.set_visits.of(&labels).inc_by(slice.load.record_visits);
        self.positions.of(&labels).inc_by(slice.load.positions_tested);
    }
}

#[derive(Default)]
struct GroupMetrics {
    decisions: Count<DecisionLabels>,
    batches: Count<GroupLabels>,
    guard_bytes: Gauges<GroupLabels>,
    guard_rate: Ratio<GroupLabels>,
    inflight: Gauges<GroupLabels>,
    hop_events: Count<HopLabels>,
    hop_slices: Count<HopLabels>,
    hop_nodes: Count<HopLabels>,
}

impl GroupMetrics {
    fn new(registry: &mut Registry) -> Self {
        let groups = Self::default();
        registry.register("decisions", "Events by their verdicts", groups.decisions.clone());
        registry.register("submissions", "Runs of batches that owners took up", groups.batches.clone());
        let help = "Memory of what is remembered of submissions for retries";
        registry.register_with_unit("guard", help, Unit::Bytes, groups.guard_bytes.clone());
        let help = "Memory of a second of the retry horizon, as it was taken lately";
        registry.register("guard_bytes_per_horizon_second", help, groups.guard_rate.clone());
        let help = "Events that are not answered, or whose cells are not all set";
        registry.register("group_inflight_events", help, groups.inflight.clone());
        registry.register("pipeline_events", "Events tested and set at the head", groups.hop_events.clone());
        registry.register("pipeline_slice_visits", "Slices that tested and set them", groups.hop_slices.clone());
        registry.register("pipeline_node_visits", "Nodes that tested and set them", groups.hop_nodes.clone());
        groups
    }

    fn show(&self, filter: &str, look: &GroupLook) {
        let (filter, group, state) = (filter.to_owned(), look.group, &look.state);
        self.show_decisions(&filter, group, &state.decisions);
        self.show_hops(&filter, group, &state.hops);
        let labels = GroupLabels { filter, group };
        self.batches.of(&labels).inc_by(state.batches);
        self.guard_bytes.of(&labels).set(gauge_value(state.guard_bytes));
        self.guard_rate.of(&labels).set(state.guard_bytes_per_horizon_second);
        self.inflight.of(&labels).set(gauge_value(state.inflight_events));
    }

    fn show_decisions(&self, filter: &str, group: u32, counts: &DecisionCounts) {
        let show = |decision, reason: String, count: u64| {
            let labels = DecisionLabels { filter: filter.to_owned(), group, decision, reason };
            self.decisions.of(&labels).inc_by(count);
        };
        show("first_seen", String::new(), counts.first_seen);
        show("duplicate", String::new(), counts.duplicate);
        for reason in Reason::ALL {
            show("undecided", super::reason_name(reason), counts.undecided_for(reason));
        }
    }

    fn show_hops(&self, filter: &str, group: u32, hops: &HopCounts) {
        let kinds = [
            ("test", hops.tests, hops.test_slices, hops.test_nodes),
            ("set", hops.sets, hops.set_slices, hops.set_nodes),
        ];
        for (operation, events, slices, nodes) in kinds {
            let labels = HopLabels { filter: filter.to_owned(), group, operation };
            self.hop_events.of(&labels).inc_by(events);
            self.hop_slices.of(&labels).inc_by(slices);
            self.hop_nodes.of(&labels).inc_by(nodes);
        }
    }
}
