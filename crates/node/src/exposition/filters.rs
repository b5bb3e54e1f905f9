//! Metrics that summarize the slices of each filter on this node. A filter has one set of series, regardless of its
//! number of slices. Values that can be added, such as numbers of events, are exposed as sums over the slices. For
//! values such as a fill level, the minimum, the mean and the maximum are exposed.

use firstseen_routing::{DecisionCounts, FilterRecord, HopCounts, OwedCounts, Reason, SliceState, SlicedDefinition};

use super::gathering::{Gathering, Series};
use super::{claims, gauge_value};
use crate::fullness::used_share;
use crate::metrics::reason_name;
use crate::owing::Owing;
use crate::owner::GroupLook;

/// Adds the slice groups of one filter. For levels of a filter tree, the decisions that a level made on its own are
/// included.
pub(super) fn show(now: &mut Gathering, record: &FilterRecord, looks: &[GroupLook], owing: Owing) {
    let filter = &mut now.of("filter", record.name.as_str());
    show_slices(filter, &record.definition, looks);
    claims::show(filter, looks);
    for GroupLook { state, .. } in looks {
        filter.count("filter_submissions", "Runs of batches that owner threads have processed").inc_by(state.batches);
        filter.count("filter_events", "Events of these runs").inc_by(state.events);
        let help = "Memory of the replay guards, which store replies for retries";
        filter.bytes("filter_guard", help).inc_by(gauge_value(state.guard_bytes));
        let help = "Events that are unanswered, or whose cells are not all set yet";
        filter.gauge("filter_inflight_events", help).inc_by(gauge_value(state.inflight_events));
        let help = "Runs of cells that a comparison of complete copies found in one copy but not in the other";
        filter.count("filter_copies_mended", help).inc_by(state.mended_runs);
        let help = "Events that should have been in flight but were not; each is a programming error";
        filter.count("filter_astray_events", help).inc_by(state.missing_in_flight);
        if record.branch.is_some() {
            show_owed(filter, &state.owed);
        }
        show_decisions(filter, "filter_decisions", &state.decisions);
        let names = ["filter_pipeline_events", "filter_pipeline_slice_visits", "filter_pipeline_node_visits"];
        show_hops(filter, names, &state.hops);
    }
    if record.branch.is_some() {
        show_waiting(filter, looks, owing);
    }
}

/// Adds the state of a filter's slices.
fn show_slices(filter: &mut Series<'_>, definition: &SlicedDefinition, looks: &[GroupLook]) {
    let slices: Vec<&SliceState> = looks.iter().flat_map(|look| &look.state.slices).collect();
    filter.gauge("filter_slices", "Slices on this node").set(gauge_value(slices.len() as u64));
    let ready = sum(&slices, |slice| slice.ready.into());
    filter.gauge("filter_slices_ready", "Slices that answer lookups").set(gauge_value(ready));
    let complete = sum(&slices, |slice| slice.complete.into());
    let help = "Slices that contain all events that were ever recorded in them";
    filter.gauge("filter_slices_complete", help).set(gauge_value(complete));
    filter.bytes("filter_cells", "Memory of cells").set(gauge_value(sum(&slices, |slice| slice.bytes)));
    let test_visits = sum(&slices, |slice| slice.load.test_visits);
    filter.count("filter_test_visits", "Events tested, in each slice").inc_by(test_visits);
    let record_visits = sum(&slices, |slice| slice.load.record_visits);
    filter.count("filter_set_visits", "Events recorded, in each slice").inc_by(record_visits);
    let positions_tested = sum(&slices, |slice| slice.load.positions_tested);
    filter.count("filter_positions_tested", "Positions that tests have read").inc_by(positions_tested);
    let fills: Vec<f64> = slices.iter().filter_map(|slice| slice.fill).collect();
    if !fills.is_empty() {
        let help = "Minimum share of set cells in a slice, if it indicates how full the slice is";
        filter.ratio("filter_fill_min_ratio", help).set(fills.iter().copied().fold(f64::INFINITY, f64::min));
        let help = "Mean share of set cells in a slice, if it indicates how full the slice is";
        filter.ratio("filter_fill_mean_ratio", help).set(fills.iter().sum::<f64>() / fills.len() as f64);
        let help = "Maximum share of set cells in a slice, if it indicates how full the slice is";
        filter.ratio("filter_fill_max_ratio", help).set(fills.iter().copied().fold(0.0, f64::max));
    }
    if let Some(used) = slices.iter().filter_map(|slice| used_share(definition, slice)).max_by(f64::total_cmp) {
        let help = "Maximum share of its capacity that a slice has used; 1 is the capacity that it was sized for, \
                    including lateness";
        filter.ratio("filter_used_max_ratio", help).set(used);
    }
    let help = "Maximum expected false-positive rate of a slice";
    let rate_max = slices.iter().map(|slice| slice.expected_rate).fold(0.0, f64::max);
    filter.ratio("filter_expected_false_positive_max_ratio", help).set(rate_max);
    if slices.iter().any(|slice| slice.live_events.is_some()) {
        let help = "Recorded events that have not expired, summed over the slices that count them";
        let live_events = slices.iter().filter_map(|slice| slice.live_events).sum();
        filter.gauge("filter_live_events", help).set(gauge_value(live_events));
    }
}

fn sum(slices: &[&SliceState], count: impl Fn(&SliceState) -> u64) -> u64 {
    slices.iter().map(|slice| count(slice)).sum()
}

/// Adds the events that a tree level has decided on its own.
fn show_owed(filter: &mut Series<'_>, counts: &OwedCounts) {
    let help = "Events that were decided as first-seen without the parent level, which was unreachable";
    filter.count("filter_local_events", help).inc_by(counts.local_events);
    let help = "Locally decided events that were also decided as first-seen elsewhere";
    filter.count("filter_double_deliveries", help).inc_by(counts.double_deliveries);
    let help = "Locally decided events that could not be recorded at the parent level any more";
    filter.count("filter_journal_lost_events", help).inc_by(counts.lost_events);
    let help = "Locally decided events that wait to be sent to the parent level";
    filter.gauge("filter_journal_events", help).inc_by(gauge_value(counts.waiting_events));
}

/// Adds how long the events have waited that a tree level has decided on its own, and how much room is left for them.
fn show_waiting(filter: &mut Series<'_>, looks: &[GroupLook], owing: Owing) {
    let help = "Time for which the oldest locally decided event has waited to be sent to the parent level, at most \
                since the start of the process";
    filter.ratio("filter_journal_oldest_seconds", help).set(owing.oldest_age_ms(looks) as f64 / 1e3);
    let help = "Locally decided events that wait in the fullest slice group, as a share of its limit";
    filter
        .ratio("filter_journal_full_max_ratio", help)
        .set(owing.fullest(looks) as f64 / owing.events_max.max(1) as f64);
}

/// Adds the verdicts on events of a filter or a slice group.
pub(super) fn show_decisions(of: &mut Series<'_>, name: &'static str, counts: &DecisionCounts) {
    let decided = [("first_seen", String::new(), counts.first_seen), ("duplicate", String::new(), counts.duplicate)];
    let undecided = Reason::ALL.map(|reason| ("undecided", reason_name(reason), counts.undecided_for(reason)));
    for (decision, reason, count) in decided.into_iter().chain(undecided) {
        let mut of = of.and("decision", decision);
        of.and("reason", reason.as_str()).count(name, "Events by verdict").inc_by(count);
    }
}

/// Adds the numbers of nodes and slices on which the events of a filter or a slice group were tested and set.
pub(super) fn show_hops(of: &mut Series<'_>, [events, slices, nodes]: [&'static str; 3], hops: &HopCounts) {
    for (operation, events_count, slices_count, nodes_count) in
        [("test", hops.tests, hops.test_slices, hops.test_nodes), ("set", hops.sets, hops.set_slices, hops.set_nodes)]
    {
        let mut of = of.and("operation", operation);
        of.count(events, "Events that were tested and set at their head nodes").inc_by(events_count);
        of.count(slices, "Slices that tested and set these events").inc_by(slices_count);
        of.count(nodes, "Nodes that tested and set these events").inc_by(nodes_count);
    }
}
