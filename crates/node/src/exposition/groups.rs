//! Metrics of individual slice groups and slices. Their series are labelled with the filter, the group and the slice,
//! and their values come directly from the owner threads. If this node has too many slices of a filter, the filter has
//! no series of this kind, because their number would grow without limit.

use firstseen_routing::{ClusterMap, SliceState};

use super::gathering::{Gathering, Series};
use super::{filters, gauge_value};
use crate::owing::Owing;
use crate::owner::GroupLook;

/// Adds the slice groups of this node to the metrics of a scrape. `looks` contains the states of the groups, and must
/// be ordered by filter. Every filter receives series that summarize its slices. Series for individual groups and
/// slices are added only if this node has at most `slices_max` slices of the filter, because their number would
/// otherwise be too large.
pub(super) fn show(now: &mut Gathering, map: &ClusterMap, looks: &[GroupLook], slices_max: u32, owing: Owing) {
    for looks in looks.chunk_by(|one, next| one.filter == next.filter) {
        let Some(record) = looks.first().and_then(|look| map.filters.get(&look.filter)) else { continue };
        filters::show(now, record, looks, owing);
        if looks.iter().map(|look| look.state.slices.len()).sum::<usize>() > slices_max as usize {
            continue;
        }
        let mut filter = now.of("filter", record.name.as_str());
        for look in looks {
            show_group(filter.and("group", look.group), look);
            look.state.slices.iter().for_each(|slice| show_slice(filter.and("slice", slice.slice), slice));
        }
    }
}

fn show_slice(mut of: Series<'_>, slice: &SliceState) {
    if let Some(fill) = slice.fill {
        let help = "Share of set cells from a sample of 1 MiB, if it indicates how full the slice is";
        of.ratio("slice_fill_ratio", help).set(fill);
    }
    let help = "Expected false-positive rate according to the current cells";
    of.ratio("slice_expected_false_positive_ratio", help).set(slice.expected_rate);
    of.bytes("slice_cells", "Memory of cells").set(gauge_value(slice.bytes));
    if let Some(live_events) = slice.live_events {
        let help = "Recorded events that have not expired, if the slice counts them";
        of.gauge("slice_live_events", help).set(gauge_value(live_events));
    }
    of.gauge("slice_generations", "Generations of cells").set(i64::from(slice.generations));
    of.gauge("slice_ready", "1 if the slice answers lookups").set(i64::from(slice.ready));
    let help = "1 if the slice contains all events that were ever recorded in it";
    of.gauge("slice_complete", help).set(i64::from(slice.complete));
    of.count("slice_test_visits", "Events that were tested in the slice").inc_by(slice.load.test_visits);
    of.count("slice_set_visits", "Events that were recorded in the slice").inc_by(slice.load.record_visits);
    of.count("slice_positions_tested", "Positions that tests have read").inc_by(slice.load.positions_tested);
}

fn show_group(mut of: Series<'_>, GroupLook { state, .. }: &GroupLook) {
    filters::show_decisions(&mut of, "decisions", &state.decisions);
    filters::show_hops(&mut of, ["pipeline_events", "pipeline_slice_visits", "pipeline_node_visits"], &state.hops);
    of.count("submissions", "Runs of batches that owner threads have processed").inc_by(state.batches);
    let help = "Memory of the replay guards, which store replies for retries";
    of.bytes("guard", help).set(gauge_value(state.guard_bytes));
    let help = "Memory of the replay guard for each second of the retry horizon, at the recent rate";
    of.ratio("guard_bytes_per_horizon_second", help).set(state.guard_bytes_per_horizon_second);
    let help = "Events that are unanswered, or whose cells are not all set yet";
    of.gauge("group_inflight_events", help).set(gauge_value(state.inflight_events));
}
