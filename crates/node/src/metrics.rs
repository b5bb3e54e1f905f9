//! The metrics of a node that are updated as events occur. Metrics that are collected at scrape time are in
//! `exposition`.
//!
//! # Guarantees
//! - Metrics are updated once for each batch, never once for each event.
//! - Their order is the same on every scrape.

mod audits;
mod latency;
mod links;
mod parent_queries;
mod scrapes;
mod sorted;

use std::collections::BTreeSet;
use std::fmt;

use firstseen_routing::Reason;
use firstseen_wire::proto::producer::{Batch, BatchReply};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use prost::Message;

use audits::{AuditMeter, AuditMetrics};
use latency::LatencyCounts;
pub(crate) use links::LinkMeter;
use links::LinkMetrics;
pub(crate) use parent_queries::LevelQueryMeter;
use parent_queries::LevelQueryMetrics;
pub(crate) use scrapes::Scrapes;
pub(crate) use sorted::{Sorted, by_name};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct ListenerLabel {
    listener: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct FilterLabel {
    filter: String,
}

impl FilterLabel {
    fn of(filter: &str) -> Self {
        Self { filter: filter.to_owned() }
    }

    /// Returns whether the filter of this label is in `names`. The series for batches of unknown filters has an empty
    /// name and is always kept.
    fn is_kept(&self, names: &BTreeSet<&str>) -> bool {
        self.filter.is_empty() || names.contains(self.filter.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct CertificateLabel {
    certificate: &'static str,
}

type Count<L> = Sorted<L, Counter>;
type Gauges<L> = Sorted<L, Gauge>;
type Spread<L> = Sorted<L, Histogram>;

/// Metrics of the connections of one listener.
#[derive(Clone, Default)]
pub(crate) struct ConnectionMeter {
    /// Number of open connections.
    pub(crate) open: Gauge,
    /// Number of connections that were closed once their role was known, because there was no room for them.
    pub(crate) refused: Counter,
    /// Number of connections that were closed to make room for other connections.
    pub(crate) closed: Counter,
}

/// Reason why a message between nodes is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkRefusal {
    /// The message is of a kind that this version does not know.
    UnknownKind,
    /// A received message violates the protocol: its fields contradict each other or exceed their limits.
    Unreadable,
    /// A message that should be sent violates the protocol in the same way.
    Unsendable,
}

/// Counts the batches of one filter. Streams and owners keep their meters, so that batches need no lookups by name.
#[derive(Clone)]
pub(crate) struct BatchMeter {
    events: Histogram,
    latency_seconds: Histogram,
    latencies: LatencyCounts,
    queue_age_seconds: Histogram,
    received_bytes: Counter,
    received_events: Counter,
    degraded_events: Counter,
    audits: AuditMeter,
}

impl BatchMeter {
    /// Counts a received batch.
    pub(crate) fn received(&self, batch: &Batch) {
        self.events.observe(f64::from(batch.events));
        self.audits.came(batch);
        self.received_events.inc_by(u64::from(batch.events));
        self.received_bytes.inc_by(batch.encoded_len() as u64);
    }

    /// Records how long a run of a batch has waited for its owner, in milliseconds.
    pub(crate) fn queue_age(&self, age_ms: u64) {
        self.queue_age_seconds.observe(age_ms as f64 / 1e3);
    }

    /// Counts events whose replies were marked as degraded.
    pub(crate) fn degraded(&self, events: usize) {
        self.degraded_events.inc_by(events as u64);
    }

    /// Records how long the reply to a batch took, in microseconds.
    pub(crate) fn answered(&self, elapsed_us: u64) {
        self.latency_seconds.observe(elapsed_us as f64 / 1e6);
        self.latencies.count(elapsed_us);
    }
}

/// The metrics of a node's streams, links and owners.
pub(crate) struct Metrics {
    registry: Registry,
    batch_events: Spread<FilterLabel>,
    queue_age_seconds: Spread<FilterLabel>,
    latency_seconds: Spread<FilterLabel>,
    latencies: Sorted<FilterLabel, LatencyCounts>,
    received_bytes: Count<FilterLabel>,
    received_events: Count<FilterLabel>,
    degraded_events: Count<FilterLabel>,
    audits: AuditMetrics,
    sent_bytes: Counter,
    refused: Count<ReasonLabel>,
    relayed: Counter,
    links: LinkMetrics,
    link_refused: Count<ReasonLabel>,
    connections_open: Gauges<ListenerLabel>,
    connections_refused: Count<ListenerLabel>,
    connections_closed: Count<ListenerLabel>,
    climbs: LevelQueryMetrics,
    unpersisted: Counter,
    certificate_ends: Gauges<CertificateLabel>,
}

/// Creates a histogram with buckets from 0.1 ms to 52 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 20))
}

/// Creates a histogram with buckets from 1 to 8,192.
fn events() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 14))
}

impl Metrics {
    /// Creates metrics that are all zero.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("firstseen");
        let climbs = LevelQueryMetrics::new(&mut registry);
        let audits = AuditMetrics::new(&mut registry);
        let links = LinkMetrics::new(&mut registry);
        let mut metrics = Self {
            registry,
            batch_events: Sorted::new(events),
            queue_age_seconds: Sorted::new(seconds),
            latency_seconds: Sorted::new(seconds),
            latencies: Sorted::default(),
            received_bytes: Sorted::default(),
            received_events: Sorted::default(),
            degraded_events: Sorted::default(),
            audits,
            sent_bytes: Counter::default(),
            refused: Sorted::default(),
            relayed: Counter::default(),
            links,
            link_refused: Sorted::default(),
            connections_open: Sorted::default(),
            connections_refused: Sorted::default(),
            connections_closed: Sorted::default(),
            climbs,
            unpersisted: Counter::default(),
            certificate_ends: Sorted::default(),
        };
        metrics.register_batches();
        metrics.register_ways();
        // Each series exists from the start. A counter that appears with its first event would show no increase at that
        // time.
        for reason in Reason::ALL {
            metrics.refused.of(&ReasonLabel { reason: reason_name(reason) });
        }
        for refusal in [LinkRefusal::UnknownKind, LinkRefusal::Unreadable, LinkRefusal::Unsendable] {
            metrics.link_refused.of(&ReasonLabel { reason: reason_name(refusal) });
        }
        metrics
    }

    fn register_batches(&mut self) {
        let registry = &mut self.registry;
        registry.register("batch_events", "Events of a batch", self.batch_events.clone());
        let help = "Time that runs of batches waited for their owner thread";
        registry.register_with_unit("queue_age", help, Unit::Seconds, self.queue_age_seconds.clone());
        let help = "Time from the arrival of a batch to its reply, if this node owns the slices";
        registry.register_with_unit("batch_latency", help, Unit::Seconds, self.latency_seconds.clone());
        let help = "Bytes of batches from producers; an empty filter stands for filters that are unknown here";
        registry.register_with_unit("producer_received", help, Unit::Bytes, self.received_bytes.clone());
        let help = "Events of batches from producers; an empty filter stands for filters that are unknown here";
        registry.register("producer_received_events", help, self.received_events.clone());
        let help = "Events whose replies were marked as degraded because slices that could contain them were not asked";
        registry.register("degraded_events", help, self.degraded_events.clone());
        let help = "Bytes of replies to producers";
        registry.register_with_unit("producer_sent", help, Unit::Bytes, self.sent_bytes.clone());
        let help = "Batches that were rejected as a whole, by reason";
        registry.register("batches_refused", help, self.refused.clone());
        let help = "Batches that were forwarded to the node that owns the slices";
        registry.register("batches_relayed", help, self.relayed.clone());
    }

    fn register_ways(&mut self) {
        let registry = &mut self.registry;
        let help = "Messages between nodes that cannot be decoded or encoded, by reason; each is a programming error";
        registry.register("link_messages_refused", help, self.link_refused.clone());
        let help = "Records of slice groups without a journal; each is a programming error";
        registry.register("journal_records_unkept", help, self.unpersisted.clone());
        let help = "Expiry time of the node's certificate and of the authority's certificate, since 1970";
        registry.register_with_unit("certificate_expiry_timestamp", help, Unit::Seconds, self.certificate_ends.clone());
        let help = "Connections that are open";
        registry.register("connections_open", help, self.connections_open.clone());
        let help = "Connections that were closed at once because too many are open";
        registry.register("connections_refused", help, self.connections_refused.clone());
        let help = "Idle connections that were closed to make room for others";
        registry.register("connections_closed", help, self.connections_closed.clone());
    }

    /// Counts a record that could not be persisted because its group has no journal. Returns how often that happened
    /// before.
    pub(crate) fn unpersisted(&self) -> u64 {
        self.unpersisted.inc()
    }

    /// Returns the meter of a filter's batches.
    pub(crate) fn meter(&self, filter: &str) -> BatchMeter {
        let label = FilterLabel::of(filter);
        BatchMeter {
            events: self.batch_events.of(&label),
            latency_seconds: self.latency_seconds.of(&label),
            latencies: self.latencies.of(&label),
            queue_age_seconds: self.queue_age_seconds.of(&label),
            received_bytes: self.received_bytes.of(&label),
            received_events: self.received_events.of(&label),
            degraded_events: self.degraded_events.of(&label),
            audits: self.audits.of(filter),
        }
    }

    /// Removes the series of filters that are not in `names`. Such filters have been dropped and are no longer counted.
    pub(crate) fn keep_filters(&self, names: &BTreeSet<&str>) {
        self.latencies.retain(|label| label.is_kept(names));
        for spread in [&self.batch_events, &self.queue_age_seconds, &self.latency_seconds] {
            spread.retain(|label| label.is_kept(names));
        }
        for count in [&self.received_bytes, &self.received_events, &self.degraded_events] {
            count.retain(|label| label.is_kept(names));
        }
        self.audits.keep_filters(names);
        self.climbs.keep_filters(names);
    }

    /// Returns the number of a filter's batches in each latency class (`SampleReply`).
    pub(crate) fn latencies(&self, filter: &str) -> Vec<u64> {
        self.latencies.of(&FilterLabel::of(filter)).all()
    }

    /// Returns the meter of a filter's audits, which measure its false-positive rate.
    pub(crate) fn audited(&self, filter: &str) -> AuditMeter {
        self.audits.of(filter)
    }

    /// Returns the meter of a filter's queries to other tree levels.
    pub(crate) fn climbs(&self, filter: &str) -> LevelQueryMeter {
        self.climbs.of(filter)
    }

    /// Returns the gauges for the expiry times of the node's certificate and of the authority's certificate.
    pub(crate) fn certificate_ends(&self) -> [Gauge; 2] {
        ["own", "authority"].map(|certificate| self.certificate_ends.of(&CertificateLabel { certificate }))
    }

    /// Returns the metrics of a listener's connections.
    pub(crate) fn connections(&self, listener: &'static str) -> ConnectionMeter {
        let label = ListenerLabel { listener };
        ConnectionMeter {
            open: self.connections_open.of(&label),
            refused: self.connections_refused.of(&label),
            closed: self.connections_closed.of(&label),
        }
    }

    /// Counts a batch for a filter that this node does not know.
    pub(crate) fn stray_batch(&self, batch: &Batch) {
        let label = FilterLabel::of("");
        self.received_events.of(&label).inc_by(u64::from(batch.events));
        self.received_bytes.of(&label).inc_by(batch.encoded_len() as u64);
    }

    /// Counts a reply that is about to be sent.
    pub(crate) fn reply(&self, reply: &BatchReply) {
        self.sent_bytes.inc_by(reply.encoded_len() as u64);
    }

    /// Returns the meter of the link to or from a node.
    pub(crate) fn link(&self, peer: &str) -> LinkMeter {
        self.links.of(peer)
    }

    /// Counts a rejected message between nodes.
    pub(crate) fn link_refused(&self, refusal: LinkRefusal) {
        self.link_refused.of(&ReasonLabel { reason: reason_name(refusal) }).inc();
    }

    /// Counts a batch that was rejected as a whole.
    pub(crate) fn refused(&self, reason: Reason) {
        self.refused.of(&ReasonLabel { reason: reason_name(reason) }).inc();
    }

    /// Counts a forwarded batch.
    pub(crate) fn relayed(&self) {
        self.relayed.inc();
    }

    /// Removes the series of links to nodes that are not in `names`.
    pub(crate) fn keep_nodes(&self, names: &BTreeSet<&str>) {
        self.links.keep(|peer| names.contains(peer));
    }

    /// Returns the registry of all metrics that are updated as events occur.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }
}

/// Returns the name of a reason in snake case, as other programs read it.
pub(crate) fn reason_name(reason: impl fmt::Debug) -> String {
    format!("{reason:?}").chars().fold(String::new(), |mut name, letter| {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_names_that_they_have_in_json() {
        for reason in Reason::ALL {
            let json = serde_json::to_string(&reason).expect("a reason is a word");
            assert_eq!(json, format!("\"{}\"", reason_name(reason)));
        }
        assert_eq!(reason_name(LinkRefusal::UnknownKind), "unknown_kind");
    }
}
