//! Metrics of a node's part of each filter, whatever the number of its slices.
//!
//! Promises: one set of series a filter: sums of what its groups and slices count, and the least, the mean and the
//! greatest of what does not add up. Must not know: series of single slices.

use firstseen_routing::OwedCounts;
use firstseen_routing::{DecisionCounts, Reason};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::{Registry, Unit};

use super::{Count, FilterLabel, Level, Ratio, level};
use crate::owner::GroupLook;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct DecisionLabels {
    filter: String,
    decision: &'static str,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct HopLabels {
    filter: String,
    operation: &'static str,
}

#[derive(Default)]
pub(super) struct Filters {
    slices: Level<FilterLabel>,
    slices_ready: Level<FilterLabel>,
    slices_complete: Level<FilterLabel>,
    fill_min: Ratio<FilterLabel>,
    fill_mean: Ratio<FilterLabel>,
    fill_max: Ratio<FilterLabel>,
    expected_rate_max: Ratio<FilterLabel>,
    bytes: Level<FilterLabel>,
    live_events: Level<FilterLabel>,
    test_visits: Count<FilterLabel>,
    set_visits: Count<FilterLabel>,
    positions: Count<FilterLabel>,
    batches: Count<FilterLabel>,
    events: Count<FilterLabel>,
    guard_bytes: Level<FilterLabel>,
    inflight: Level<FilterLabel>,
    decisions: Count<DecisionLabels>,
    hop_events: Count<HopLabels>,
    hop_slices: Count<HopLabels>,
    hop_nodes: Count<HopLabels>,
    local_events: Count<FilterLabel>,
    double_deliveries: Count<FilterLabel>,
    owed_lost: Count<FilterLabel>,
    owed: Level<FilterLabel>,
    copies_mended: Count<FilterLabel>,
    astray: Count<FilterLabel>,
}

impl Filters {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let filters = Self::default();
        registry.register("filter_slices", "Slices that the node has", filters.slices.clone());
        registry.register("filter_slices_ready", "Slices that answer", filters.slices_ready.clone());
        let help = "Slices that have all that was ever recorded in them";
        registry.register("filter_slices_complete", help, filters.slices_complete.clone());
        let help = "The least share of cells that are set in a slice, where it says how full the slice is";
        registry.register("filter_fill_min_ratio", help, filters.fill_min.clone());
        let help = "The mean share of cells that are set in a slice, where it says how full the slice is";
        registry.register("filter_fill_mean_ratio", help, filters.fill_mean.clone());
        let help = "The greatest share of cells that are set in a slice, where it says how full the slice is";
        registry.register("filter_fill_max_ratio", help, filters.fill_max.clone());
        let help = "The greatest chance in a slice that an event never seen is called a duplicate";
        registry.register("filter_expected_false_positive_max_ratio", help, filters.expected_rate_max.clone());
        registry.register_with_unit("filter_cells", "Memory of cells", Unit::Bytes, filters.bytes.clone());
        let help = "Events recorded that have not expired, added over the slices that count them";
        registry.register("filter_live_events", help, filters.live_events.clone());
        registry.register("filter_test_visits", "Events tested, in each slice", filters.test_visits.clone());
        registry.register("filter_set_visits", "Events recorded, in each slice", filters.set_visits.clone());
        registry.register("filter_positions_tested", "Positions looked at by tests", filters.positions.clone());
        registry.register("filter_submissions", "Runs of batches that owners took up", filters.batches.clone());
        registry.register("filter_events", "Events of these runs", filters.events.clone());
        let help = "Memory of what is remembered of submissions for retries";
        registry.register_with_unit("filter_guard", help, Unit::Bytes, filters.guard_bytes.clone());
        let help = "Events that are not answered, or whose cells are not all set";
        registry.register("filter_inflight_events", help, filters.inflight.clone());
        let help = "Events by their verdicts";
        registry.register("filter_decisions", help, filters.decisions.clone());
        let help = "Events tested and set at the head";
        registry.register("filter_pipeline_events", help, filters.hop_events.clone());
        let help = "Slices that tested and set them";
        registry.register("filter_pipeline_slice_visits", help, filters.hop_slices.clone());
        let help = "Nodes that tested and set them";
        registry.register("filter_pipeline_node_visits", help, filters.hop_nodes.clone());
        let help = "Events called first-seen without the level above, which was out of reach";
        registry.register("filter_local_events", help, filters.local_events.clone());
        let help = "Of these, events that were called first-seen elsewhere too";
        registry.register("filter_double_deliveries", help, filters.double_deliveries.clone());
        let help = "Of these, events that could not be recorded above any more";
        registry.register("filter_journal_lost_events", help, filters.owed_lost.clone());
        let help = "Of these, events that wait to be brought up";
        registry.register("filter_journal_events", help, filters.owed.clone());
        let help = "Runs of cells that another copy had and a complete one lacked when they were compared";
        registry.register("filter_copies_mended", help, filters.copies_mended.clone());
        let help = "Events that had to be in flight and were not; any is a mistake of the program";
        registry.register("filter_astray_events", help, filters.astray.clone());
        filters
    }

    /// Shows the groups of one filter.
    pub(super) fn show(&self, filter: &str, looks: &[GroupLook]) {
        let label = FilterLabel { filter: filter.to_owned() };
        self.show_slices(&label, looks);
        for look in looks {
            let state = &look.state;
            self.batches.of(&label).inc_by(state.batches);
            self.events.of(&label).inc_by(state.events);
            self.guard_bytes.of(&label).inc_by(level(state.guard_bytes));
            self.inflight.of(&label).inc_by(level(state.inflight_events));
            self.copies_mended.of(&label).inc_by(state.mended_runs);
            self.astray.of(&label).inc_by(state.astray_events);
            self.show_owed(&label, &state.owed);
            self.show_decisions(filter, &state.decisions);
            let (tests, sets) = (self.hop(filter, "test"), self.hop(filter, "set"));
            tests(state.hops.tests, state.hops.test_slices, state.hops.test_nodes);
            sets(state.hops.sets, state.hops.set_slices, state.hops.set_nodes);
        }
    }

    /// Shows nothing where every event could climb.
    fn show_owed(&self, label: &FilterLabel, counts: &OwedCounts) {
        if *counts != OwedCounts::default() {
            self.local_events.of(label).inc_by(counts.local_events);
            self.double_deliveries.of(label).inc_by(counts.double_deliveries);
            self.owed_lost.of(label).inc_by(counts.lost_events);
            self.owed.of(label).inc_by(level(counts.waiting_events));
        }
    }

    fn show_slices(&self, label: &FilterLabel, looks: &[GroupLook]) {
        let slices = || looks.iter().flat_map(|look| &look.state.slices);
        self.slices.of(label).set(level(slices().count() as u64));
        self.slices_ready.of(label).set(level(slices().filter(|slice| slice.ready).count() as u64));
        self.slices_complete.of(label).set(level(slices().filter(|slice| slice.complete).count() as u64));
        self.bytes.of(label).set(level(slices().map(|slice| slice.bytes).sum()));
        self.test_visits.of(label).inc_by(slices().map(|slice| slice.load.test_visits).sum());
        self.set_visits.of(label).inc_by(slices().map(|slice| slice.load.record_visits).sum());
        self.positions.of(label).inc_by(slices().map(|slice| slice.load.positions_tested).sum());
        let fills: Vec<f64> = slices().filter_map(|slice| slice.fill).collect();
        if !fills.is_empty() {
            self.fill_min.of(label).set(fills.iter().copied().fold(f64::INFINITY, f64::min));
            self.fill_mean.of(label).set(fills.iter().sum::<f64>() / fills.len() as f64);
            self.fill_max.of(label).set(fills.iter().copied().fold(0.0, f64::max));
        }
        self.expected_rate_max.of(label).set(slices().map(|slice| slice.expected_rate).fold(0.0, f64::max));
        if slices().any(|slice| slice.live_events.is_some()) {
            self.live_events.of(label).set(level(slices().filter_map(|slice| slice.live_events).sum()));
        }
    }

    fn show_decisions(&self, filter: &str, counts: &DecisionCounts) {
        let show = |decision, reason: String, count: u64| {
            self.decisions.of(&DecisionLabels { filter: filter.to_owned(), decision, reason }).inc_by(count);
        };
        show("first_seen", String::new(), counts.first_seen);
        show("duplicate", String::new(), counts.duplicate);
        for reason in Reason::ALL {
            show("undecided", super::reason_name(reason), counts.undecided_for(reason));
        }
    }

    /// Adds events, and the slices and nodes that they visited.
    fn hop(&self, filter: &str, operation: &'static str) -> impl Fn(u64, u64, u64) {
        let labels = HopLabels { filter: filter.to_owned(), operation };
        let (of, at, on) = (self.hop_events.of(&labels), self.hop_slices.of(&labels), self.hop_nodes.of(&labels));
        move |events, slices, nodes| {
            of.inc_by(events);
            at.inc_by(slices);
            on.inc_by(nodes);
        }
    }
}
