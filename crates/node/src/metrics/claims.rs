//! Metrics of the claims of each filter whose events can be claimed.
//!
//! Promises: one set of series a filter, and none for filters without claims. Must not know: who holds what.

use firstseen_routing::ClaimCounts;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::{Registry, Unit};

use super::{Count, FilterLabel, Gauges, Ratio, gauge_value};
use crate::owner::GroupLook;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct EndLabels {
    filter: String,
    reason: &'static str,
}

/// Claims of the events that this node heads.
#[derive(Default)]
pub(super) struct Claims {
    open: Gauges<FilterLabel>,
    bytes: Gauges<FilterLabel>,
    unsure_s: Ratio<FilterLabel>,
    granted: Count<FilterLabel>,
    confirmed: Count<FilterLabel>,
    released: Count<FilterLabel>,
    expired: Count<FilterLabel>,
    lost: Count<EndLabels>,
}

impl Claims {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let claims = Self::default();
        let help = "Events that are held";
        registry.register("claims_open", help, claims.open.clone());
        registry.register_with_unit("claims", "Memory of claims", Unit::Bytes, claims.bytes.clone());
        let help = "For how long a former head may still hold events";
        registry.register_with_unit("claims_unsure", help, Unit::Seconds, claims.unsure_s.clone());
        registry.register("claims_granted", "Claims that were granted", claims.granted.clone());
        registry.register("claims_confirmed", "Confirms that recorded their events", claims.confirmed.clone());
        registry.register("claims_released", "Events that their holders let go", claims.released.clone());
        let help = "Events that were granted again after a lease was over";
        registry.register("claims_expired", help, claims.expired.clone());
        let help = "Confirms and releases of events that their callers did not hold any more";
        registry.register("claims_lost", help, claims.lost.clone());
        claims
    }

    /// Shows the groups of one filter, if its events can be claimed.
    pub(super) fn show(&self, label: &FilterLabel, looks: &[GroupLook]) {
        let all = || looks.iter().filter_map(|look| look.state.claims);
        if all().next().is_none() {
            return;
        }
        let sum = |count: fn(ClaimCounts) -> u64| all().map(count).sum::<u64>();
        self.open.of(label).set(gauge_value(sum(|claims| claims.open)));
        self.bytes.of(label).set(gauge_value(sum(|claims| claims.bytes)));
        let unsure_ms = all().map(|claims| claims.unsure_ms).max().unwrap_or(0);
        self.unsure_s.of(label).set(unsure_ms as f64 / 1e3);
        self.granted.of(label).inc_by(sum(|claims| claims.granted));
        self.confirmed.of(label).inc_by(sum(|claims| claims.confirmed));
        self.released.of(label).inc_by(sum(|claims| claims.released));
        self.expired.of(label).inc_by(sum(|claims| claims.expired));
        let lost = |reason| self.lost.of(&EndLabels { filter: label.filter.clone(), reason });
        lost("held").inc_by(sum(|claims| claims.lost_held));
        lost("recorded").inc_by(sum(|claims| claims.lost_recorded));
    }
}
