//! Metrics of a node's part of each filter, whatever the number of its slices.
//!
//! Promises: one set of series a filter: sums of what its groups and slices count, and the least, the mean and the
//! greatest of what does not add up. Must not know: series of single slices.

use firstseen_routing::{DecisionCounts, FilterRecord, HopCounts, OwedCounts, Reason, SliceState, SlicedDefinition};

use super::fullness::used_share;
use super::gathering::{Gathering, Series};
use super::{claims, gauge_value, reason_name};
use crate::owner::GroupLook;

/// Shows the groups of one filter; of levels of trees, also what they have decided by themselves.
pub(super) fn show(now: &mut Gathering, record: &FilterRecord, looks: &[GroupLook]) {
    let filter = &mut now.of("filter", record.name.as_str());
    show_slices(filter, &record.definition, looks);
    claims::show(filter, looks);
    for GroupLook { state, .. } in looks {
        filter.count("filter_submissions", "Runs of batches that owners took up").inc_by(state.batches);
        filter.count("filter_events", "Events of these runs").inc_by(state.events);
        let help = "Memory of what is remembered of submissions for retries";
        filter.bytes("filter_guard", help).inc_by(gauge_value(state.guard_bytes));
        let help = "Events that are not answered, or whose cells are not all set";
        filter.gauge("filter_inflight_events", help).inc_by(gauge_value(state.inflight_events));
        let help = "Runs of cells that another copy had and a complete one lacked when they were compared";
        filter.count("filter_copies_mended", help).inc_by(state.mended_runs);
        let help = "Events that had to be in flight and were not; any is a mistake of the program";
        filter.count("filter_astray_events", help).inc_by(state.astray_events);
        if record.branch.is_some() {
            show_owed(filter, &state.owed);
        }
        show_decisions(filter, "filter_decisions", &state.decisions);
        let names = ["filter_pipeline_events", "filter_pipeline_slice_visits", "filter_pipeline_node_visits"];
        show_hops(filter, names, &state.hops);
    }
}

/// Shows what is known of the slices of a filter.
fn show_slices(filter: &mut Series<'_>, definition: &SlicedDefinition, looks: &[GroupLook]) {
    let slices = || looks.iter().flat_map(|look| &look.state.slices);
    let sum = |count: fn(&SliceState) -> u64| slices().map(count).sum::<u64>();
    filter.gauge("filter_slices", "Slices that the node has").set(gauge_value(sum(|_| 1)));
    filter.gauge("filter_slices_ready", "Slices that answer").set(gauge_value(sum(|slice| slice.ready.into())));
    let help = "Slices that have all that was ever recorded in them";
    filter.gauge("filter_slices_complete", help).set(gauge_value(sum(|slice| slice.complete.into())));
    filter.bytes("filter_cells", "Memory of cells").set(gauge_value(sum(|slice| slice.bytes)));
    filter.count("filter_test_visits", "Events tested, in each slice").inc_by(sum(|slice| slice.load.test_visits));
    filter.count("filter_set_visits", "Events recorded, in each slice").inc_by(sum(|slice| slice.load.record_visits));
    let help = "Positions looked at by tests";
    filter.count("filter_positions_tested", help).inc_by(sum(|slice| slice.load.positions_tested));
    let fills: Vec<f64> = slices().filter_map(|slice| slice.fill).collect();
    if !fills.is_empty() {
        let help = "The least share of cells that are set in a slice, where it says how full the slice is";
        filter.ratio("filter_fill_min_ratio", help).set(fills.iter().copied().fold(f64::INFINITY, f64::min));
        let help = "The mean share of cells that are set in a slice, where it says how full the slice is";
        filter.ratio("filter_fill_mean_ratio", help).set(fills.iter().sum::<f64>() / fills.len() as f64);
        let help = "The greatest share of cells that are set in a slice, where it says how full the slice is";
        filter.ratio("filter_fill_max_ratio", help).set(fills.iter().copied().fold(0.0, f64::max));
    }
    if let Some(used) = slices().filter_map(|slice| used_share(definition, slice)).max_by(f64::total_cmp) {
        let help =
            "The greatest share of its room that a slice has used; 1 is what it was sized for, lateness included";
        filter.ratio("filter_used_max_ratio", help).set(used);
    }
    let help = "The greatest chance in a slice that an event never seen is called a duplicate";
    let rate_max = slices().map(|slice| slice.expected_rate).fold(0.0, f64::max);
    filter.ratio("filter_expected_false_positive_max_ratio", help).set(rate_max);
    if slices().any(|slice| slice.live_events.is_some()) {
        let help = "Events recorded that have not expired, added over the slices that count them";
        let live_events = slices().filter_map(|slice| slice.live_events).sum();
        filter.gauge("filter_live_events", help).set(gauge_value(live_events));
    }
}

/// Shows events that a level of a tree has decided by itself.
fn show_owed(filter: &mut Series<'_>, counts: &OwedCounts) {
    let help = "Events called first-seen without the level above, which was out of reach";
    filter.count("filter_local_events", help).inc_by(counts.local_events);
    let help = "Of these, events that were called first-seen elsewhere too";
    filter.count("filter_double_deliveries", help).inc_by(counts.double_deliveries);
    let help = "Of these, events that could not be recorded above any more";
    filter.count("filter_journal_lost_events", help).inc_by(counts.lost_events);
    let help = "Of these, events that wait to be brought up";
    filter.gauge("filter_journal_events", help).inc_by(gauge_value(counts.waiting_events));
}

/// Shows the verdicts on events of a filter or a group.
pub(super) fn show_decisions(of: &mut Series<'_>, name: &'static str, counts: &DecisionCounts) {
    let mut show = |decision: &str, reason: &str, count| {
        of.and("decision", decision).and("reason", reason).count(name, "Events by their verdicts").inc_by(count);
    };
    show("first_seen", "", counts.first_seen);
    show("duplicate", "", counts.duplicate);
    for reason in Reason::ALL {
        show("undecided", &reason_name(reason), counts.undecided_for(reason));
    }
}

/// Shows where the events of a filter or a group were tested and set.
pub(super) fn show_hops(of: &mut Series<'_>, [events, slices, nodes]: [&'static str; 3], hops: &HopCounts) {
    for (operation, events_count, slices_count, nodes_count) in
        [("test", hops.tests, hops.test_slices, hops.test_nodes), ("set", hops.sets, hops.set_slices, hops.set_nodes)]
    {
        let mut of = of.and("operation", operation);
        of.count(events, "Events tested and set at the head").inc_by(events_count);
        of.count(slices, "Slices that tested and set them").inc_by(slices_count);
        of.count(nodes, "Nodes that tested and set them").inc_by(nodes_count);
    }
}
