//! What a node counts, and how it is shown.
//!
//! Promises: counted once a batch or gathered on a scrape, never once an event. Must not know: who reads it.

mod groups;

use std::fmt;

use firstseen_routing::Reason;
use firstseen_wire::proto::producer::{Batch, BatchReply};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use prost::Message;

use crate::owner::GroupLook;
use crate::shared::Shared;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FilterLabel {
    filter: String,
}

type ByFilter = Family<FilterLabel, Histogram, fn() -> Histogram>;

/// Batches of one filter. A stream keeps it, so that nothing is looked up by name for a batch.
#[derive(Clone)]
pub(crate) struct BatchMeter {
    events: Histogram,
    latency_seconds: Histogram,
}

impl BatchMeter {
    /// A batch of so many events came in.
    pub(crate) fn received(&self, events: u32) {
        self.events.observe(f64::from(events));
    }

    /// A batch was answered after this long.
    pub(crate) fn answered(&self, elapsed_us: u64) {
        self.latency_seconds.observe(elapsed_us as f64 / 1e6);
    }
}

/// What the streams, links and owners of a node count.
pub(crate) struct Metrics {
    registry: Registry,
    batch_events: ByFilter,
    queue_age_seconds: Histogram,
    latency_seconds: ByFilter,
    received_bytes: Counter,
    sent_bytes: Counter,
    received_events: Counter,
    refused: Family<ReasonLabel, Counter>,
    relayed: Counter,
    link_received_bytes: Counter,
    link_sent_bytes: Counter,
}

/// Buckets from 0.1 ms to 52 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 20))
}

/// Buckets from 1 to 8,192.
fn events() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 14))
}

impl Metrics {
    /// Nothing is counted yet.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("firstseen");
        let queue_age_seconds = seconds();
        let latency_seconds = ByFilter::new_with_constructor(seconds);
        let batch_events = ByFilter::new_with_constructor(events);
        let (received_bytes, sent_bytes, received_events) =
            (Counter::default(), Counter::default(), Counter::default());
        let (link_received_bytes, link_sent_bytes) = (Counter::default(), Counter::default());
        let refused = Family::<ReasonLabel, Counter>::default();
        let relayed = Counter::default();
        registry.register("batch_events", "Events of a batch", batch_events.clone());
        let help = "How long runs of batches waited for their owner";
        registry.register_with_unit("queue_age", help, Unit::Seconds, queue_age_seconds.clone());
        let help = "From a batch coming in to its reply, where this node owns the slices";
        registry.register_with_unit("batch_latency", help, Unit::Seconds, latency_seconds.clone());
        let help = "Bytes of batches from producers";
        registry.register_with_unit("producer_received", help, Unit::Bytes, received_bytes.clone());
        let help = "Bytes of replies to producers";
        registry.register_with_unit("producer_sent", help, Unit::Bytes, sent_bytes.clone());
        let help = "Bytes of frames from other nodes, and of acknowledgements";
        registry.register_with_unit("link_received", help, Unit::Bytes, link_received_bytes.clone());
        let help = "Bytes of frames to other nodes, with those that are sent again";
        registry.register_with_unit("link_sent", help, Unit::Bytes, link_sent_bytes.clone());
        registry.register("producer_received_events", "Events of batches from producers", received_events.clone());
        registry.register("batches_refused", "Batches that were refused as a whole, by reason", refused.clone());
        registry.register("batches_relayed", "Batches forwarded to the node that owns the slices", relayed.clone());
        Self {
            registry,
            batch_events,
            queue_age_seconds,
            latency_seconds,
            received_bytes,
            sent_bytes,
            received_events,
            refused,
            relayed,
            link_received_bytes,
            link_sent_bytes,
        }
    }

    /// The batches of a filter, by its name.
    pub(crate) fn meter(&self, filter: &str) -> BatchMeter {
        let label = FilterLabel { filter: filter.to_owned() };
        BatchMeter {
            events: self.batch_events.get_or_create(&label).clone(),
            latency_seconds: self.latency_seconds.get_or_create(&label).clone(),
        }
    }

    /// A batch came in.
    pub(crate) fn batch(&self, batch: &Batch) {
        self.received_events.inc_by(u64::from(batch.events));
        self.received_bytes.inc_by(batch.encoded_len() as u64);
    }

    /// A reply goes out.
    pub(crate) fn reply(&self, reply: &BatchReply) {
        self.sent_bytes.inc_by(reply.encoded_len() as u64);
    }

    /// A run has waited this long for its owner.
    pub(crate) fn queue_age(&self, age_ms: u64) {
        self.queue_age_seconds.observe(age_ms as f64 / 1e3);
    }

    /// Something came from another node.
    pub(crate) fn link_received(&self, message: &impl Message) {
        self.link_received_bytes.inc_by(message.encoded_len() as u64);
    }

    /// Something is sent to another node.
    pub(crate) fn link_sent(&self, message: &impl Message) {
        self.link_sent_bytes.inc_by(message.encoded_len() as u64);
    }

    /// A batch was refused as a whole.
    pub(crate) fn refused(&self, reason: Reason) {
        self.refused.get_or_create(&ReasonLabel { reason: reason_name(reason) }).inc();
    }

    /// A batch was forwarded.
    pub(crate) fn relayed(&self) {
        self.relayed.inc();
    }

    /// Everything as text.
    pub(crate) fn text(&self, shared: &Shared, looks: &[GroupLook]) -> Result<String, fmt::Error> {
        let mut now = Registry::with_prefix("firstseen");
        node_now(&mut now, shared);
        groups::register(&mut now, &shared.view(), looks);
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &now)?;
        encode_eof(&mut text)?;
        Ok(text)
    }
}

/// The reason as other programs see it.
fn reason_name(reason: Reason) -> String {
    format!("{reason:?}").chars().fold(String::new(), |mut name, letter| {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
        name
    })
}

/// What a node is now.
fn node_now(registry: &mut Registry, shared: &Shared) {
    use std::sync::atomic::Ordering::Relaxed;
    let status = shared.meta.status();
    let view = shared.view();
    let waiting: u64 = view.links.values().map(|link| link.waiting()).sum();
    let is_leader = status.leader.is_some() && status.leader == view.node();
    let gauges = [
        ("ready", "1 where the node serves all that it should", u64::from(shared.not_ready().is_none())),
        ("raft_leader", "1 where the node leads the cluster's agreement", u64::from(is_leader)),
        ("raft_leader_id", "The number of the leader as far as the node knows; 0 for none", leader(&status)),
        ("raft_term", "The newest term of the cluster's agreement", status.term),
        ("raft_applied_index", "The newest entry that the map shows", status.last_applied),
        ("map_version", "The version of the map that the node acts on", view.map.version),
        ("streams_open", "Producer streams that are open", u64::from(shared.streams.load(Relaxed))),
        ("batches_inflight", "Batches that are not answered", shared.batches.load(Relaxed)),
        ("queue_events", "Events that wait for their owners", shared.owners.events_queued()),
        ("link_messages_waiting", "Messages to other nodes that are not acknowledged", waiting),
    ];
    for (name, help, value) in gauges {
        let gauge = Gauge::<i64>::default();
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, gauge);
    }
}

fn leader(status: &firstseen_meta::MetaStatus) -> u64 {
    status.leader.map_or(0, |leader| leader.0)
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
    }
}
