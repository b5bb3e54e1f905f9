//! Describes the slices on this node for operators. The slices are returned in ascending order of their numbers.

use firstseen_routing::FilterId;
use firstseen_wire::proto::admin::{Claims, SliceState};

use crate::owner::GroupLook;

/// Returns the slices of `filter` that belong to the given slice groups.
pub(super) fn slices(looks: &[GroupLook], filter: FilterId) -> Vec<SliceState> {
    let of_filter = looks.iter().filter(|look| look.filter == filter);
    let mut slices: Vec<SliceState> = of_filter
        .flat_map(|look| &look.state.slices)
        .map(|slice| SliceState {
            slice: slice.slice,
            ready: slice.ready,
            complete: slice.complete,
            complete_from_ms: slice.complete_from_ms,
            bytes: slice.bytes,
            generations: slice.generations,
            live_events: slice.live_events.unwrap_or(0),
            live_events_unknown: slice.live_events.is_none(),
            fill: slice.fill,
            expected_rate: slice.expected_rate,
            positions_tested: slice.load.positions_tested,
            test_visits: slice.load.test_visits,
            record_visits: slice.load.record_visits,
        })
        .collect();
    slices.sort_by_key(|slice| slice.slice);
    slices
}

/// Returns the greatest event time that these groups have accepted for `filter`, in milliseconds since 1970.
pub(super) fn clock_ms(looks: &[GroupLook], filter: FilterId) -> Option<u64> {
    looks.iter().filter(|look| look.filter == filter).filter_map(|look| look.state.clock_ms).max()
}

/// Returns the sum of the claims on events whose head node is this node. Returns `None` if no group supports claims.
pub(super) fn claims(looks: &[GroupLook]) -> Option<Claims> {
    let claims = looks.iter().filter_map(|look| look.state.claims);
    claims.fold(None, |sum: Option<Claims>, claims| {
        let Claims { open, bytes, unsure_ms } = sum.unwrap_or_default();
        let unsure_ms = unsure_ms.max(claims.unsure_ms);
        Some(Claims { open: open + claims.open, bytes: bytes + claims.bytes, unsure_ms })
    })
}
