//! Metrics of the claims of each filter whose events can be claimed.
//!
//! Promises: one set of series a filter, and none for filters without claims. Must not know: who holds what.

use firstseen_routing::ClaimCounts;

use super::gathering::Series;
use super::gauge_value;
use crate::owner::GroupLook;

/// Shows claims of the events of one filter that this node heads, if its events can be claimed.
pub(super) fn show(filter: &mut Series<'_>, looks: &[GroupLook]) {
    for ClaimCounts { open, bytes, unsure_ms, granted, confirmed, released, expired, lost_held, lost_recorded } in
        looks.iter().filter_map(|look| look.state.claims)
    {
        filter.gauge("claims_open", "Events that are held").inc_by(gauge_value(open));
        filter.bytes("claims", "Memory of claims").inc_by(gauge_value(bytes));
        let unsure = filter.seconds("claims_unsure", "For how long a former head may still hold events");
        unsure.set(unsure.get().max(unsure_ms as f64 / 1e3));
        filter.count("claims_granted", "Claims that were granted").inc_by(granted);
        filter.count("claims_confirmed", "Confirms that recorded their events").inc_by(confirmed);
        filter.count("claims_released", "Events that their holders let go").inc_by(released);
        let help = "Events that were granted again after a lease was over";
        filter.count("claims_expired", help).inc_by(expired);
        let help = "Confirms and releases of events that their callers did not hold any more";
        filter.and("reason", "held").count("claims_lost", help).inc_by(lost_held);
        filter.and("reason", "recorded").count("claims_lost", help).inc_by(lost_recorded);
    }
}
