//! What a node says of itself to those that show it to people.
//!
//! Promises: counts are those since the node was started; nothing is said of filters that the map does not have. Must not know:
//! who asks, how often.

use std::sync::Arc;
use std::time::Duration;

use firstseen_meta::{NEWEST_FORMAT, holds_format};
use firstseen_routing::{ClusterMap, FilterId, FilterRecord, NodeId, Reason};
use firstseen_wire::proto::peer::{Climbs, FilterSample, HeldClaims, SampleReply};
use firstseen_wire::proto::producer;
use firstseen_wire::validity::{Doubt, Validity};

use crate::metrics::{Metrics, reason_name};
use crate::owner::GroupLook;
use crate::shared::Shared;

/// Certificates that end later than this are not looked at: no certificate should.
const CERTIFICATE_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// How this node fares now.
pub(crate) async fn sample(shared: &Arc<Shared>) -> SampleReply {
    let looks = shared.owners.look(None).await;
    let view = shared.view();
    let node = view.node().unwrap_or_default();
    let by_filter = looks.chunk_by(|one, next| one.filter == next.filter);
    let filters = by_filter.filter_map(|looks| {
        let id = looks.first()?.filter;
        let record = view.map.filters.get(&id)?;
        Some(filter_sample(&view.map, (id, record, node), looks, &shared.metrics))
    });
    let filters: Vec<FilterSample> = filters.collect();
    SampleReply {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        newest_format: NEWEST_FORMAT.0.into(),
        holds_format: holds_format(&shared.meta),
        not_ready: shared.not_ready().unwrap_or_default(),
        cells_bytes: filters.iter().map(|filter| filter.cells_bytes).sum(),
        certificate_ends_ms: certificate_ends_ms(shared).await,
        filters,
    }
}

fn filter_sample(
    map: &ClusterMap,
    (id, record, node): (FilterId, &FilterRecord, NodeId),
    looks: &[GroupLook],
    metrics: &Metrics,
) -> FilterSample {
    let slices = || looks.iter().flat_map(|look| &look.state.slices);
    let is_asked = |slice: u32| map.asked(record, slice).is_some_and(|asked| asked.node == node);
    let counting = slices().filter(|slice| is_asked(slice.slice)).filter_map(|slice| slice.live_events);
    let counting: Vec<u64> = counting.collect();
    let sum = |count: &dyn Fn(&GroupLook) -> u64| looks.iter().map(count).sum::<u64>();
    let undecided = Reason::ALL.into_iter().flat_map(|reason| {
        let events = sum(&|look| look.state.decisions.undecided_for(reason));
        if events > 0 { vec![number(reason), events] } else { Vec::new() }
    });
    let claims = looks.iter().filter_map(|look| look.state.claims);
    let (audited_tests, audited_false_positives) = metrics.audited(&record.name).counts();
    FilterSample {
        filter_id: id.0,
        counting_slices: counting.len() as u32,
        live_events: counting.iter().sum(),
        live_events_max: counting.iter().copied().max().unwrap_or(0),
        expected_rate_max: slices().map(|slice| slice.expected_rate).fold(0.0, f64::max),
        cells_bytes: slices().map(|slice| slice.bytes).sum(),
        first_seen: sum(&|look| look.state.decisions.first_seen),
        duplicate: sum(&|look| look.state.decisions.duplicate),
        undecided: undecided.collect(),
        latency_batches: metrics.latencies(&record.name),
        climbs: record.branch.as_ref().filter(|branch| !branch.is_root()).map(|_| {
            let (events, duplicate) = metrics.climbs(&record.name).events_and_duplicates();
            Climbs { events, duplicate }
        }),
        claims: claims.fold(None, |held: Option<HeldClaims>, more| {
            let HeldClaims { open, bytes, unsure_ms } = held.unwrap_or_default();
            let unsure_ms = unsure_ms.max(more.unsure_ms);
            Some(HeldClaims { open: open + more.open, bytes: bytes + more.bytes, unsure_ms })
        }),
        audited_tests,
        audited_false_positives,
    }
}

/// The number of a reason for other nodes.
fn number(reason: Reason) -> u64 {
    let name = format!("REASON_{}", reason_name(reason).to_ascii_uppercase());
    producer::Reason::from_str_name(&name).map_or(0, |reason| reason as u64)
}

/// The name of the reason with this number; none of one that a newer version has.
pub(super) fn reason_of(number: u64) -> Option<String> {
    let reason = producer::Reason::try_from(i32::try_from(number).ok()?).ok()?;
    Some(reason.as_str_name().strip_prefix("REASON_")?.to_ascii_lowercase())
}

async fn certificate_ends_ms(shared: &Shared) -> u64 {
    let Some(files) = shared.config.tls.as_ref().map(|tls| tls.files()) else { return 0 };
    let now = Duration::from_millis(shared.clock.wall_ms());
    // Files are read where a hanging disk holds up nobody.
    let read = tokio::task::spawn_blocking(move || files.doubts(now, CERTIFICATE_MAX));
    let doubts = read.await.ok().and_then(Result::ok).unwrap_or_default();
    let ends = doubts.into_iter().filter_map(|Doubt { validity, .. }| match validity {
        Validity::Over(at_s) | Validity::EndsSoon(at_s) => Some(at_s.saturating_mul(1_000)),
        Validity::NotYet(_) => None,
    });
    ends.min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_number_by_which_it_is_found_again() {
        for reason in Reason::ALL {
            assert_eq!(reason_of(number(reason)), Some(reason_name(reason)), "{reason:?}");
        }
        assert_eq!((reason_of(0).as_deref(), reason_of(u64::MAX)), (Some("unspecified"), None));
    }
}
