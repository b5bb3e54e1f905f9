//! Creates the text that a node returns when its metrics are scraped. Some metrics are updated whenever an event
//! occurs. Other metrics, such as the state of slices, are collected at the time of the scrape. The series have the
//! same order in every scrape, and the number of slices that have their own series is limited.

mod claims;
mod cluster;
mod filters;
mod gathering;
mod groups;
mod http_endpoint;
mod machine;
mod peers;
mod process;
mod redis;
mod refused;
mod text_format;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firstseen_client::Levels;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::audit::Audit;
use crate::budget::Budget;
use crate::clocks::ClockAlarms;
use crate::health::Health;
use crate::metrics::{Metrics, by_name};
use crate::open_counts::{OpenCounts, OpenEndpoints};
use crate::owing::Owing;
use gathering::Gathering;
pub(crate) use text_format::{TextFormat, older};

/// Sources of the exposed metrics.
pub(crate) struct Exposition {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    pub(crate) levels: Arc<Levels>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) open: Arc<OpenCounts>,
    pub(crate) endpoints: Arc<OpenEndpoints>,
    /// Maximum memory of the slices on this node, in bytes.
    pub(crate) memory_max_bytes: u64,
    /// Maximum number of slices of a filter that have their own series.
    pub(crate) slices_max: u32,
    /// Maximum number of events that a slice group of a tree level may owe to its parent level.
    pub(crate) owed_events_max: u32,
}

impl Exposition {
    /// Collects all metrics now, and returns them as text.
    pub(crate) async fn text(&self) -> Result<String, fmt::Error> {
        let looks = self.health.owners.look(None).await;
        let map = self.health.views.borrow().map.clone();
        // A stream that uses an older cluster map may have created series for a filter that was dropped in the
        // meantime.
        self.metrics.keep_filters(&map.filters.values().map(|record| record.name.as_str()).collect());
        let nodes: BTreeSet<&str> = map.nodes.values().map(|record| record.name.as_str()).collect();
        self.metrics.keep_nodes(&nodes);
        let mut now = Gathering::with_prefix("firstseen");
        show_node(&mut now.registry, self);
        peers::show(&mut now, &self.health, &self.levels);
        if let Some(endpoint) = self.endpoints.redis.get() {
            redis::show(&mut now, endpoint);
        }
        if let Some(endpoint) = self.endpoints.http.get() {
            http_endpoint::show(&mut now, endpoint);
        }
        cluster::show(&mut now, &map);
        machine::show(&mut now.registry, &self.health, self.memory_max_bytes, &looks);
        refused::show(&mut now, self.audit.refusals());
        process::show_build(&mut now);
        let owing = Owing { now_ms: self.health.clock.monotonic_ms(), events_max: self.owed_events_max };
        groups::show(&mut now, &map, &looks, self.slices_max, owing);
        let mut process = Registry::default();
        process::show(&mut process);
        let mut unsorted = String::new();
        encode_registry(&mut unsorted, self.metrics.registry())?;
        encode_registry(&mut unsorted, &now.registry)?;
        encode_registry(&mut unsorted, &process)?;
        let mut text = by_name(&unsorted);
        encode_eof(&mut text)?;
        Ok(text)
    }
}

/// Adds a single counter, which only increases.
fn show_counter(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let counter: Counter = Counter::default();
    counter.inc_by(value);
    registry.register(name, help, counter);
}

/// Adds a single gauge, which may increase and decrease.
fn show_gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(gauge_value(value));
    registry.register(name, help, gauge);
}

/// Adds a single gauge in bytes.
fn show_bytes(registry: &mut Registry, name: &str, help: &str, bytes: u64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(gauge_value(bytes));
    registry.register_with_unit(name, help, Unit::Bytes, gauge);
}

fn gauge_value(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Adds the current state of the node.
fn show_node(registry: &mut Registry, exposition: &Exposition) {
    let Exposition { health, open, .. } = exposition;
    let Health { meta, owners, keeper, clocks, .. } = &**health;
    let status = meta.status();
    let view = health.views.newest();
    let waiting: u64 = view.links.values().map(|link| link.waiting()).sum();
    let is_leader = status.leader.is_some() && status.leader == view.node();
    let leader_id = status.leader.map_or(0, |leader| leader.0);
    let ClockAlarms { is_wrong, is_apart } = clocks.alarms(health.clock.now());
    let gauges = [
        ("ready", "1 if the node is fully ready", u64::from(health.not_ready().is_none())),
        ("raft_leader", "1 if the node is the leader of the consensus group", u64::from(is_leader)),
        ("raft_leader_id", "Number of the leader as far as the node knows; 0 if no leader is known", leader_id),
        ("raft_term", "Newest term of the consensus", status.term),
        ("raft_applied_index", "Index of the newest log entry that the cluster map includes", status.last_applied),
        ("map_version", "Version of the cluster map that the node acts on", view.map.version),
        ("streams_open", "Producer streams that are open", u64::from(open.streams.load(Ordering::Relaxed))),
        (
            "watches_open",
            "Streams on which clients receive the cluster map",
            u64::from(open.watches.load(Ordering::Relaxed)),
        ),
        ("inflight_bytes", "Bytes of calls, messages and batches in flight", exposition.budget.taken()),
        ("batches_inflight", "Unanswered batches", open.batches.load(Ordering::Relaxed)),
        ("queue_events", "Events that wait for their owner threads", owners.events_queued()),
        ("link_messages_waiting", "Messages to other nodes that have not been acknowledged", waiting),
        (
            "clock_wrong",
            "1 if the node's clock is not used for events, because it differs too much from most others or was set",
            u64::from(is_wrong),
        ),
        (
            "clock_apart",
            "1 if the node's clock differs from most others by more than half of the allowed difference",
            u64::from(is_apart),
        ),
        ("journal_segments", "Files of the journal of slices", keeper.segments()),
        ("journal_waiting_bytes", "Bytes of records that wait for the disk", keeper.waiting_bytes()),
        ("journal_disk_full", "1 if the disk of the journal is full", u64::from(keeper.is_full())),
        ("journal_disk_hung", "1 if the disk of the journal hangs", u64::from(keeper.hangs())),
        (
            "data_disk_short",
            "1 if the disk of the data folder has no space left except for the space reserved for the consensus log",
            u64::from(*meta.nearly_full().borrow()),
        ),
        ("data_disk_hung", "1 if the disk of the consensus log hangs", u64::from(*meta.disk_hangs().borrow())),
    ];
    for (name, help, value) in gauges {
        show_gauge(registry, name, help, value);
    }
}
