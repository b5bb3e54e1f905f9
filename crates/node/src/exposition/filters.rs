//! Metrics of a node's part of each filter, whatever the number of its slices.
//!
//! Promises: one set of series a filter: sums of what its groups and slices count, and the least, the mean and the
//! greatest of what does not add up. Must not know: series of single slices.

use firstseen_routing::{DecisionCounts, FilterRecord, HopCounts, OwedCounts, Reason, SliceState, SlicedDefinition};

use super::gathering::{Gathering, Series};
use super::{claims, gauge_value};
use crate::fullness::used_share;
use crate::metrics::reason_name;
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
    let slices: Vec<&SliceState> = looks.iter().flat_map(|look| &look.state.slices).collect();
    filter.gauge("filter_slices", "Slices that the node has").set(gauge_value(slices.len() as u64));
    let ready = sum(&slices, |slice| slice.ready.into());
    filter.gauge("filter_slices_ready", "Slices that answer").set(gauge_value(ready));
    let complete = sum(&slices, |slice| slice.complete.into());
    let help = "Slices that have all that was ever recorded in them";
    filter.gauge("filter_slices_complete", help).set(gauge_value(complete));
    filter.bytes("filter_cells", "Memory of cells").set(gauge_value(sum(&slices, |slice| slice.bytes)));
    let test_visits = sum(&slices, |slice| slice.load.test_visits);
    filter.count("filter_test_visits", "Events tested, in each slice").inc_by(test_visits);
    let record_visits = sum(&slices, |slice| slice.load.record_visits);
    filter.count("filter_set_visits", "Events recorded, in each slice").inc_by(record_visits);
    let positions_tested = sum(&slices, |slice| slice.load.positions_tested);
    filter.count("filter_positions_tested", "Positions looked at by tests").inc_by(positions_tested);
    let fills: Vec<f64> = slices.iter().filter_map(|slice| slice.fill).collect();
    if !fills.is_empty() {
        let help = "The least share of cells that are set in a slice, where it says how full the slice is";
        filter.ratio("filter_fill_min_ratio", help).set(fills.iter().copied().fold(f64::INFINITY, f64::min));
        let help = "The mean share of cells that are set in a slice, where it says how full the slice is";
        filter.ratio("filter_fill_mean_ratio", help).set(fills.iter().sum::<f64>() / fills.len() as f64);
        let help = "The greatest share of cells that are set in a slice, where it says how full the slice is";
        filter.ratio("filter_fill_max_ratio", help).set(fills.iter().copied().fold(0.0, f64::max));
    }
    if let Some(used) = slices.iter().filter_map(|slice| used_share(definition, slice)).max_by(f64::total_cmp) {
        let help =
            "The greatest share of its room that a slice has used; 1 is what it was sized for, lateness included";
        filter.ratio("filter_used_max_ratio", help).set(used);
    }
    let help = "The greatest chance in a slice that an event never seen is called a duplicate";
    let rate_max = slices.iter().map(|slice| slice.expected_rate).fold(0.0, f64::max);
    filter.ratio("filter_expected_false_positive_max_ratio", help).set(rate_max);
    if slices.iter().any(|slice| slice.live_events.is_some()) {
        let help = "Events recorded that have not expired, added over the slices that count them";
        let live_events = slices.iter().filter_map(|slice| slice.live_events).sum();
        filter.gauge("filter_live_events", help).set(gauge_value(live_events));
    }
}

fn sum(slices: &[&SliceState], count: impl Fn(&SliceState) -> u64) -> u64 {
    slices.iter().map(|slice| count(slice)).sum()
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
    let decided = [("first_seen", String::new(), counts.first_seen), ("duplicate", String::new(), counts.duplicate)];
    let undecided = Reason::ALL.map(|reason| ("undecided", reason_name(reason), counts.undecided_for(reason)));
    for (decision, reason, count) in decided.into_iter().chain(undecided) {
        let mut of = of.and("decision", decision);
        of.and("reason", reason.as_str()).count(name, "Events by their verdicts").inc_by(count);
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
