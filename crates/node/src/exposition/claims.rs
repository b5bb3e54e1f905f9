//! Metrics of claims. A claim makes one consumer the only one that may deliver an event for some time. Every filter
//! that supports claims has one set of series, and filters that do not support claims have no such series.

use firstseen_routing::ClaimCounts;

use super::gathering::Series;
use super::gauge_value;
use crate::owner::GroupLook;

/// Adds the claims on events of a filter whose head node is this node. Nothing is added if the filter does not support
/// claims.
pub(super) fn show(filter: &mut Series<'_>, looks: &[GroupLook]) {
    for ClaimCounts { open, bytes, unsure_ms, granted, confirmed, released, expired, lost_held, lost_recorded } in
        looks.iter().filter_map(|look| look.state.claims)
    {
        filter.gauge("claims_open", "Events that are claimed").inc_by(gauge_value(open));
        filter.bytes("claims", "Memory of claims").inc_by(gauge_value(bytes));
        let unsure = filter.seconds("claims_unsure", "Time for which a former head node may still hold claims");
        unsure.set(unsure.get().max(unsure_ms as f64 / 1e3));
        filter.count("claims_granted", "Claims that were granted").inc_by(granted);
        filter.count("claims_confirmed", "Confirmations that recorded their events").inc_by(confirmed);
        filter.count("claims_released", "Events that their holders released").inc_by(released);
        let help = "Claims that were granted again after a lease had ended";
        filter.count("claims_expired", help).inc_by(expired);
        let help = "Confirmations and releases of events whose claims had been lost";
        filter.and("reason", "held").count("claims_lost", help).inc_by(lost_held);
        filter.and("reason", "recorded").count("claims_lost", help).inc_by(lost_recorded);
    }
}
