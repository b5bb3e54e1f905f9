//! Metrics of a node's part of each filter, whatever the number of its slices.
//!
//! Promises: one set of series a filter: sums of what its groups and slices count, and the least, the mean and the
//! greatest of what does not add up. Must not know: series of single slices.

use firstseen_routing::OwedCounts;
use firstseen_routing::{DecisionCounts, FilterRecord, Reason, SlicedDefinition};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::{Registry, Unit};

use super::claims::Claims;
use super::fullness::used_share;
use super::{Count, FilterLabel, Gauges, Ratio, gauge_value};
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

/// What is known of the slices of a filter.
#[derive(Default)]
struct Slices {
    all: Gauges<FilterLabel>,
    ready: Gauges<FilterLabel>,
    complete: Gauges<FilterLabel>,
    fill_min: Ratio<FilterLabel>,
    fill_mean: Ratio<FilterLabel>,
    fill_max: Ratio<FilterLabel>,
    used_max: Ratio<FilterLabel>,
    expected_rate_max: Ratio<FilterLabel>,
    bytes: Gauges<FilterLabel>,
    live_events: Gauges<FilterLabel>,
    test_visits: Count<FilterLabel>,
    set_visits: Count<FilterLabel>,
    positions: Count<FilterLabel>,
}

/// Where the events of a filter were tested and set.
#[derive(Default)]
struct Hops {
    events: Count<HopLabels>,
    slices: Count<HopLabels>,
    nodes: Count<HopLabels>,
}

/// Events that a level of a tree has decided by itself.
#[derive(Default)]
struct Owed {
    local: Count<FilterLabel>,
    double_deliveries: Count<FilterLabel>,
    lost: Count<FilterLabel>,
    waiting: Gauges<FilterLabel>,
}

#[derive(Default)]
pub(super) struct Filters {
    slices: Slices,
    batches: Count<FilterLabel>,
    events: Count<FilterLabel>,
    guard_bytes: Gauges<FilterLabel>,
    inflight: Gauges<FilterLabel>,
    decisions: Count<DecisionLabels>,
    hops: Hops,
    owed: Owed,
    claims: Claims,
    copies_mended: Count<FilterLabel>,
    astray: Count<FilterLabel>,
}

impl Slices {
    fn new(registry: &mut Registry) -> Self {
        let slices = Self::default();
        registry.register("filter_slices", "Slices that the node has", slices.all.clone());
        registry.register("filter_slices_ready", "Slices that answer", slices.ready.clone());
        let help = "Slices that have all that was ever recorded in them";
        registry.register("filter_slices_complete", help, slices.complete.clone());
        let help = "The least share of cells that are set in a slice, where it says how full the slice is";
        registry.register("filter_fill_min_ratio", help, slices.fill_min.clone());
        let help = "The mean share of cells that are set in a slice, where it says how full the slice is";
        registry.register("filter_fill_mean_ratio", help, slices.fill_mean.clone());
        let help = "The greatest share of cells that are set in a slice, where it says how full the slice is";
        registry.register("filter_fill_max_ratio", help, slices.fill_max.clone());
        let help =
            "The greatest share of its room that a slice has used; 1 is what it was sized for, lateness included";
        registry.register("filter_used_max_ratio", help, slices.used_max.clone());
        let help = "The greatest chance in a slice that an event never seen is called a duplicate";
        registry.register("filter_expected_false_positive_max_ratio", help, slices.expected_rate_max.clone());
        registry.register_with_unit("filter_cells", "Memory of cells", Unit::Bytes, slices.bytes.clone());
        let help = "Events recorded that have not expired, added over the slices that count them";
        registry.register("filter_live_events", help, slices.live_events.clone());
        registry.register("filter_test_visits", "Events tested, in each slice", slices.test_visits.clone());
        registry.register("filter_set_visits", "Events recorded, in each slice", slices.set_visits.clone());
        registry.register("filter_positions_tested", "Positions looked at by tests", slices.positions.clone());
        slices
    }

    fn show(&self, label: &FilterLabel, definition: &SlicedDefinition, looks: &[GroupLook]) {
        let slices = || looks.iter().flat_map(|look| &look.state.slices);
        self.all.of(label).set(gauge_value(slices().count() as u64));
        self.ready.of(label).set(gauge_value(slices().filter(|slice| slice.ready).count() as u64));
        self.complete.of(label).set(gauge_value(slices().filter(|slice| slice.complete).count() as u64));
        self.bytes.of(label).set(gauge_value(slices().map(|slice| slice.bytes).sum()));
        self.test_visits.of(label).inc_by(slices().map(|slice| slice.load.test_visits).sum());
        self.set_visits.of(label).inc_by(slices().map(|slice| slice.load.record_visits).sum());
        self.positions.of(label).inc_by(slices().map(|slice| slice.load.positions_tested).sum());
        let fills: Vec<f64> = slices().filter_map(|slice| slice.fill).collect();
        if !fills.is_empty() {
            self.fill_min.of(label).set(fills.iter().copied().fold(f64::INFINITY, f64::min));
            self.fill_mean.of(label).set(fills.iter().sum::<f64>() / fills.len() as f64);
            self.fill_max.of(label).set(fills.iter().copied().fold(0.0, f64::max));
        }
        if let Some(used) = slices().filter_map(|slice| used_share(definition, slice)).max_by(f64::total_cmp) {
            self.used_max.of(label).set(used);
        }
        self.expected_rate_max.of(label).set(slices().map(|slice| slice.expected_rate).fold(0.0, f64::max));
        if slices().any(|slice| slice.live_events.is_some()) {
            self.live_events.of(label).set(gauge_value(slices().filter_map(|slice| slice.live_events).sum()));
        }
    }
}

impl Hops {
    fn new(registry: &mut Registry) -> Self {
        let hops = Self::default();
        let help = "Events tested and set at the head";
        registry.register("filter_pipeline_events", help, hops.events.clone());
        let help = "Slices that tested and set them";
        registry.register("filter_pipeline_slice_visits", help, hops.slices.clone());
        let help = "Nodes that tested and set them";
        registry.register("filter_pipeline_node_visits", help, hops.nodes.clone());
        hops
    }

    /// Adds events, and the slices and nodes that they visited.
    fn of(&self, filter: &str, operation: &'static str) -> impl Fn(u64, u64, u64) {
        let labels = HopLabels { filter: filter.to_owned(), operation };
        let (of, at, on) = (self.events.of(&labels), self.slices.of(&labels), self.nodes.of(&labels));
        move |events, slices, nodes| {
            of.inc_by(events);
            at.inc_by(slices);
            on.inc_by(nodes);
        }
    }
}

impl Owed {
    fn new(registry: &mut Registry) -> Self {
        let owed = Self::default();
        let help = "Events called first-seen without the level above, which was out of reach";
        registry.register("filter_local_events", help, owed.local.clone());
        let help = "Of these, events that were called first-seen elsewhere too";
        registry.register("filter_double_deliveries", help, owed.double_deliveries.clone());
        let help = "Of these, events that could not be recorded above any more";
        registry.register("filter_journal_lost_events", help, owed.lost.clone());
        let help = "Of these, events that wait to be brought up";
        registry.register("filter_journal_events", help, owed.waiting.clone());
        owed
    }

    fn show(&self, label: &FilterLabel, counts: &OwedCounts) {
        self.local.of(label).inc_by(counts.local_events);
        self.double_deliveries.of(label).inc_by(counts.double_deliveries);
        self.lost.of(label).inc_by(counts.lost_events);
        self.waiting.of(label).inc_by(gauge_value(counts.waiting_events));
    }
}

impl Filters {
    /// The order of registering is the order of the series.
    pub(super) fn new(registry: &mut Registry) -> Self {
        let slices = Slices::new(registry);
        let filters = Self { slices, ..Self::default() };
        registry.register("filter_submissions", "Runs of batches that owners took up", filters.batches.clone());
        registry.register("filter_events", "Events of these runs", filters.events.clone());
        let help = "Memory of what is remembered of submissions for retries";
        registry.register_with_unit("filter_guard", help, Unit::Bytes, filters.guard_bytes.clone());
        let help = "Events that are not answered, or whose cells are not all set";
        registry.register("filter_inflight_events", help, filters.inflight.clone());
        let help = "Events by their verdicts";
        registry.register("filter_decisions", help, filters.decisions.clone());
        let (hops, owed) = (Hops::new(registry), Owed::new(registry));
        let help = "Runs of cells that another copy had and a complete one lacked when they were compared";
        registry.register("filter_copies_mended", help, filters.copies_mended.clone());
        let help = "Events that had to be in flight and were not; any is a mistake of the program";
        registry.register("filter_astray_events", help, filters.astray.clone());
        Self { hops, owed, claims: Claims::new(registry), ..filters }
    }

    /// Shows the groups of one filter; of levels of trees, also what they have decided by themselves.
    pub(super) fn show(&self, record: &FilterRecord, looks: &[GroupLook]) {
        let filter = record.name.as_str();
        let label = FilterLabel { filter: filter.to_owned() };
        self.slices.show(&label, &record.definition, looks);
        self.claims.show(&label, looks);
        for look in looks {
            let state = &look.state;
            self.batches.of(&label).inc_by(state.batches);
            self.events.of(&label).inc_by(state.events);
            self.guard_bytes.of(&label).inc_by(gauge_value(state.guard_bytes));
            self.inflight.of(&label).inc_by(gauge_value(state.inflight_events));
            self.copies_mended.of(&label).inc_by(state.mended_runs);
            self.astray.of(&label).inc_by(state.astray_events);
            if record.branch.is_some() {
                self.owed.show(&label, &state.owed);
            }
            self.show_decisions(filter, &state.decisions);
            let (tests, sets) = (self.hops.of(filter, "test"), self.hops.of(filter, "set"));
            tests(state.hops.tests, state.hops.test_slices, state.hops.test_nodes);
            sets(state.hops.sets, state.hops.set_slices, state.hops.set_nodes);
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
}
