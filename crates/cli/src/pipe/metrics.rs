//! The metrics of a pipe in the text format of OpenMetrics.

use std::fmt;

use firstseen_pipe::{Figures, LATENCY_BOUNDS_S};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

/// Labels of a series.
type Labels = Vec<(&'static str, String)>;

/// Returns the metrics as text.
pub(super) fn text(figures: &Figures) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("firstseen_pipe");
    let of = &mut registry;
    count(of, "events", "Messages of committed batches", figures.events);
    count(of, "passed_events", "Messages that were written to the output", figures.passed);
    count(of, "new_events", "Events whose keys were new", figures.new);
    count(of, "duplicate_events", "Events that were duplicates", figures.duplicates);
    count(of, "null_value_events", "Messages without a value, which were not compared", figures.tombstones);
    let undecided = figures.undecided.iter().map(|(reason, events)| (*reason, *events));
    by_reason(of, "undecided_events", "Events about which a filter could not decide", undecided);
    let rejected = figures.rejected.iter().map(|(reason, events)| (*reason, *events));
    by_reason(of, "rejected_events", "Messages without a readable key or time", rejected);
    count(of, "dead_letters", "Messages that were written to the topic of dead letters", figures.dead_letters);
    count(of, "commits", "Committed batches", figures.attempts.committed);
    count(of, "aborts", "Aborted attempts to deliver a batch", figures.attempts.aborted);
    count(of, "fenced_aborts", "Aborted attempts of a process that had lost its partitions", figures.attempts.fenced);
    count(of, "unknown_commits", "Attempts whose outcome was unknown at first", figures.attempts.unknown);
    count(of, "rebuilds", "Filters that were rebuilt from the log", figures.rebuilds.filters);
    count(of, "rebuild_events", "Events that were read to rebuild filters", figures.rebuilds.events);
    let rebuild_seconds: Counter<f64, AtomicU64> = Counter::default();
    rebuild_seconds.inc_by(figures.rebuilds.seconds);
    of.register_with_unit("rebuild", "Time that rebuilding filters took", Unit::Seconds, rebuild_seconds);
    count(of, "checkpoints", "Checkpoints that were saved", figures.checkpoints.saved);
    count(of, "failed_checkpoints", "Checkpoints that could not be saved", figures.checkpoints.failed);
    gauge(of, "partitions", "Partitions of this process", figures.partitions.assigned);
    gauge(of, "ready_partitions", "Partitions whose filters are rebuilt", figures.partitions.ready);
    let bytes: Gauge = Gauge::default();
    bytes.set(i64::try_from(figures.partitions.filter_bytes).unwrap_or(i64::MAX));
    of.register_with_unit("filter", "Memory of the filters", Unit::Bytes, bytes);
    let lag = Family::<Labels, Gauge>::default();
    for (partition, events) in &figures.lag {
        let labels = vec![("topic", partition.topic.to_string()), ("partition", partition.partition.to_string())];
        lag.get_or_create(&labels).set(*events);
    }
    of.register("lag_events", "Offsets from the last committed message to the end of the partition", lag);
    let latency = Latency { buckets: figures.latency, sum_s: figures.latency_seconds };
    of.register_with_unit("latency", "Time from the first message of a batch to its commit", Unit::Seconds, latency);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn count(registry: &mut Registry, name: &str, help: &str, number: u64) {
    let counter: Counter = Counter::default();
    counter.inc_by(number);
    registry.register(name, help, counter);
}

fn gauge(registry: &mut Registry, name: &str, help: &str, number: u64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
    registry.register(name, help, gauge);
}

fn by_reason<'a>(registry: &mut Registry, name: &str, help: &str, counts: impl Iterator<Item = (&'a str, u64)>) {
    let family = Family::<Labels, Counter>::default();
    for (reason, events) in counts {
        family.get_or_create(&vec![("reason", reason.to_owned())]).inc_by(events);
    }
    registry.register(name, help, family);
}

/// Histogram of latencies that were counted elsewhere.
#[derive(Debug)]
struct Latency {
    buckets: [u64; LATENCY_BOUNDS_S.len() + 1],
    sum_s: f64,
}

impl EncodeMetric for Latency {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = LATENCY_BOUNDS_S.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.buckets).collect();
        encoder.encode_histogram::<NoLabelSet>(self.sum_s, self.buckets.iter().sum(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use firstseen_pipe::PartitionId;

    use super::*;

    #[test]
    fn metrics_have_their_names_and_labels() {
        let mut figures = Figures { events: 7, latency_seconds: 0.5, ..Figures::default() };
        figures.latency[3] = 2;
        figures.latency[12] = 1;
        figures.undecided.insert("late", 3);
        figures.lag.insert(PartitionId { topic: "clicks".into(), partition: 1 }, 9);
        let text = text(&figures).unwrap();
        for line in [
            "firstseen_pipe_events_total 7",
            "firstseen_pipe_undecided_events_total{reason=\"late\"} 3",
            "firstseen_pipe_lag_events{topic=\"clicks\",partition=\"1\"} 9",
            "firstseen_pipe_latency_seconds_bucket{le=\"0.01\"} 2",
            "firstseen_pipe_latency_seconds_bucket{le=\"+Inf\"} 3",
            "firstseen_pipe_latency_seconds_count 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
