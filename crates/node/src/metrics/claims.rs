//! Metrics of the claims of each filter whose events can be claimed.
//!
//! Promises: one set of series a filter, and none for filters without claims. Must not know: who holds what.

use firstseen_routing::ClaimCounts;

use super::gathering::Series;
use super::gauge_value;
use crate::owner::GroupLook;

/// Shows claims of the events of one filter that this node heads, if its events can be claimed.
pub(super) fn show(filter: &mut Series<'_>, looks: &[GroupLook]) {
    let all = || looks.iter().filter_map(|look| look.state.claims);
    let Some(unsure_ms) = all().map(|claims| claims.unsure_ms).max() else { return };
    let sum = |count: fn(ClaimCounts) -> u64| all().map(count).sum::<u64>();
    filter.gauge("claims_open", "Events that are held").set(gauge_value(sum(|claims| claims.open)));
    filter.bytes("claims", "Memory of claims").set(gauge_value(sum(|claims| claims.bytes)));
    let help = "For how long a former head may still hold events";
    filter.seconds("claims_unsure", help).set(unsure_ms as f64 / 1e3);
    filter.count("claims_granted", "Claims that were granted").inc_by(sum(|claims| claims.granted));
    filter.count("claims_confirmed", "Confirms that recorded their events").inc_by(sum(|claims| claims.confirmed));
    filter.count("claims_released", "Events that their holders let go").inc_by(sum(|claims| claims.released));
    let help = "Events that were granted again after a lease was over";
    filter.count("claims_expired", help).inc_by(sum(|claims| claims.expired));
    for (reason, count) in [("held", sum(|claims| claims.lost_held)), ("recorded", sum(|claims| claims.lost_recorded))]
    {
        let help = "Confirms and releases of events that their callers did not hold any more";
        filter.and("reason", reason).count("claims_lost", help).inc_by(count);
    }
}
