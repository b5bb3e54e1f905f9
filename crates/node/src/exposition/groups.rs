//! Metrics of groups and slices.
//!
//! Promises: rates and counts are as their owner gives them, labelled by filter, group and slice, as long as there are
//! not too many series. Must not know: how they come about.

use firstseen_routing::{ClusterMap, SliceState};

use super::gathering::{Gathering, Series};
use super::{filters, gauge_value};
use crate::owner::GroupLook;

/// Shows all looks, which stand in the order of filters. Of a filter with more than `slices_max` slices here, groups and
/// slices are shown together only.
pub(super) fn show(now: &mut Gathering, map: &ClusterMap, looks: &[GroupLook], slices_max: u32) {
    for looks in looks.chunk_by(|one, next| one.filter == next.filter) {
        let Some(record) = looks.first().and_then(|look| map.filters.get(&look.filter)) else { continue };
        filters::show(now, record, looks);
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
        let help = "The share of cells that are set, where it says how full the slice is; from a sample of 1 MiB";
        of.ratio("slice_fill_ratio", help).set(fill);
    }
    let help = "The chance that an event never seen is called a duplicate, from the cells as they are";
    of.ratio("slice_expected_false_positive_ratio", help).set(slice.expected_rate);
    of.bytes("slice_cells", "Memory of cells").set(gauge_value(slice.bytes));
    if let Some(live_events) = slice.live_events {
        let help = "Events recorded that have not expired, where the slice counts them";
        of.gauge("slice_live_events", help).set(gauge_value(live_events));
    }
    of.gauge("slice_generations", "Generations of cells").set(i64::from(slice.generations));
    of.gauge("slice_ready", "1 where the slice answers").set(i64::from(slice.ready));
    let help = "1 where the slice has all that was ever recorded in it";
    of.gauge("slice_complete", help).set(i64::from(slice.complete));
    of.count("slice_test_visits", "Events tested in the slice").inc_by(slice.load.test_visits);
    of.count("slice_set_visits", "Events recorded in the slice").inc_by(slice.load.record_visits);
    of.count("slice_positions_tested", "Positions looked at by tests").inc_by(slice.load.positions_tested);
}

fn show_group(mut of: Series<'_>, GroupLook { state, .. }: &GroupLook) {
    filters::show_decisions(&mut of, "decisions", &state.decisions);
    filters::show_hops(&mut of, ["pipeline_events", "pipeline_slice_visits", "pipeline_node_visits"], &state.hops);
    of.count("submissions", "Runs of batches that owners took up").inc_by(state.batches);
    let help = "Memory of what is remembered of submissions for retries";
    of.bytes("guard", help).set(gauge_value(state.guard_bytes));
    let help = "Memory of a second of the retry horizon, as it was taken lately";
    of.ratio("guard_bytes_per_horizon_second", help).set(state.guard_bytes_per_horizon_second);
    let help = "Events that are not answered, or whose cells are not all set";
    of.gauge("group_inflight_events", help).set(gauge_value(state.inflight_events));
}
