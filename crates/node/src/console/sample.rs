//! Creates the status sample of this node, which the consoles of all nodes collect and show. The counters in a sample
//! start at zero when the node starts. A sample describes only the filters that are in the cluster map, so dropped
//! filters disappear from the console.

use std::sync::Arc;
use std::time::Duration;

use firstseen_meta::{NEWEST_FORMAT, holds_format};
use firstseen_routing::{ClusterMap, FilterRecord, NodeId, Reason, SliceState};
use firstseen_wire::proto::peer::{Climbs, FilterSample, HeldClaims, OwedEvents, SampleReply};
use firstseen_wire::proto::producer;
use firstseen_wire::tls::TlsFiles;
use firstseen_wire::validity::{Doubt, Validity};

use crate::health::Health;
use crate::metrics::{Metrics, reason_name};
use crate::owing::Owing;
use crate::owner::GroupLook;

/// Certificates that expire later than this are ignored. No certificate should be valid for such a long time.
const CERTIFICATE_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// The source of this node's samples.
pub(crate) struct NodeSample {
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    /// Certificate files of the node.
    pub(crate) tls: Option<TlsFiles>,
    /// Maximum number of events that a slice group of a tree level may owe to its parent level.
    pub(crate) owed_events_max: u32,
}

impl NodeSample {
    /// Returns the current sample of this node.
    pub(crate) async fn take(&self) -> SampleReply {
        let looks = self.health.owners.look(None).await;
        let view = self.health.views.newest();
        let node = view.node().unwrap_or_default();
        let owing = Owing { now_ms: self.health.clock.monotonic_ms(), events_max: self.owed_events_max };
        let mut filters = Vec::new();
        for looks in looks.chunk_by(|one, next| one.filter == next.filter) {
            if let Some(record) = looks.first().and_then(|look| view.map.filters.get(&look.filter)) {
                filters.push(filter_sample(&view.map, record, node, looks, &self.metrics, owing));
            }
        }
        SampleReply {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            newest_format: NEWEST_FORMAT.0.into(),
            holds_format: holds_format(&self.health.meta),
            not_ready: self.health.not_ready().unwrap_or_default(),
            cells_bytes: filters.iter().map(|filter| filter.cells_bytes).sum(),
            certificate_ends_ms: self.certificate_ends_ms().await,
            filters,
        }
    }

    async fn certificate_ends_ms(&self) -> u64 {
        let Some(files) = self.tls.clone() else { return 0 };
        let now = Duration::from_millis(self.health.clock.wall_ms());
        // The files are read on a blocking thread because the disk may hang.
        let read = tokio::task::spawn_blocking(move || files.doubts(now, CERTIFICATE_MAX));
        let doubts = read.await.ok().and_then(Result::ok).unwrap_or_default();
        let ends = doubts.into_iter().filter_map(|Doubt { validity, .. }| match validity {
            Validity::Over(at_s) | Validity::EndsSoon(at_s) => Some(at_s.saturating_mul(1_000)),
            Validity::NotYet(_) => None,
        });
        ends.min().unwrap_or(0)
    }
}

/// Returns the sample of this node's slice groups of one filter.
fn filter_sample(
    map: &ClusterMap,
    record: &FilterRecord,
    node: NodeId,
    looks: &[GroupLook],
    metrics: &Metrics,
    owing: Owing,
) -> FilterSample {
    let slices: Vec<&SliceState> = looks.iter().flat_map(|look| &look.state.slices).collect();
    let asked = slices.iter().filter(|slice| map.asked(record, slice.slice).is_some_and(|asked| asked.node == node));
    let counting: Vec<u64> = asked.filter_map(|slice| slice.live_events).collect();
    let mut undecided = Vec::new();
    for reason in Reason::ALL {
        let events = looks.iter().map(|look| look.state.decisions.undecided_for(reason)).sum();
        if events > 0 {
            undecided.extend([number(reason), events]);
        }
    }
    let is_below_root = record.branch.as_ref().is_some_and(|branch| !branch.is_root());
    let claims = looks.iter().filter_map(|look| look.state.claims);
    let (audited_tests, audited_false_positives) = metrics.audited(&record.name).counts();
    FilterSample {
        filter_id: looks.first().map_or(0, |look| look.filter.0),
        counting_slices: counting.len() as u32,
        live_events: counting.iter().sum(),
        live_events_max: counting.iter().copied().max().unwrap_or(0),
        expected_rate_max: slices.iter().map(|slice| slice.expected_rate).fold(0.0, f64::max),
        cells_bytes: slices.iter().map(|slice| slice.bytes).sum(),
        first_seen: looks.iter().map(|look| look.state.decisions.first_seen).sum(),
        duplicate: looks.iter().map(|look| look.state.decisions.duplicate).sum(),
        undecided,
        latency_batches: metrics.latencies(&record.name),
        owed: is_below_root.then(|| OwedEvents {
            events: Owing::events(looks),
            oldest_age_ms: owing.oldest_age_ms(looks),
            group_events: owing.fullest(looks),
            group_events_max: owing.events_max.into(),
        }),
        climbs: is_below_root.then(|| {
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

/// Returns the number of a reason in the protocol.
fn number(reason: Reason) -> u64 {
    let name = format!("REASON_{}", reason_name(reason).to_ascii_uppercase());
    producer::Reason::from_str_name(&name).map_or(0, |reason| reason as u64)
}

/// Returns the name of the reason with this number. Returns `None` for a reason of a newer version.
pub(super) fn reason_of(number: u64) -> Option<String> {
    let reason = producer::Reason::try_from(i32::try_from(number).ok()?).ok()?;
    Some(reason.as_str_name().strip_prefix("REASON_")?.to_ascii_lowercase())
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
