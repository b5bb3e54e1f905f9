//! The metrics of a node as text: what is counted as things happen, and what is gathered on each scrape.
//!
//! Promises: series stand in the same order on every scrape, and the number of slices with series of their own is
//! bounded. Must not know: who reads them, over which connection.

mod claims;
mod cluster;
mod door;
mod filters;
mod gathering;
mod groups;
mod http_door;
mod machine;
mod peers;
mod process;
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
use crate::open_counts::{OpenCounts, OpenDoors};
use gathering::Gathering;
pub(crate) use text_format::{TextFormat, older};

/// What the text of the metrics is made of.
pub(crate) struct Exposition {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    pub(crate) levels: Arc<Levels>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) open: Arc<OpenCounts>,
    pub(crate) doors: Arc<OpenDoors>,
    /// Memory that slices may take here.
    pub(crate) memory_max_bytes: u64,
    /// Slices of a filter that have series of their own.
    pub(crate) slices_max: u32,
}

impl Exposition {
    /// Everything as text, gathered now.
    pub(crate) async fn text(&self) -> Result<String, fmt::Error> {
        let looks = self.health.owners.look(None).await;
        let map = self.health.views.borrow().map.clone();
        // A stream that goes by an older map may have begun series of a filter that has been dropped meanwhile.
        self.metrics.keep_filters(&map.filters.values().map(|record| record.name.as_str()).collect());
        let nodes: BTreeSet<&str> = map.nodes.values().map(|record| record.name.as_str()).collect();
        self.metrics.keep_nodes(&nodes);
        let mut now = Gathering::with_prefix("firstseen");
        show_node(&mut now.registry, self);
        peers::show(&mut now, &self.health, &self.levels);
        if let Some(door) = self.doors.redis.get() {
            door::show(&mut now, door);
        }
        if let Some(door) = self.doors.http.get() {
            http_door::show(&mut now, door);
        }
        cluster::show(&mut now, &map);
        machine::show(&mut now.registry, &self.health, self.memory_max_bytes, &looks);
        refused::show(&mut now, self.audit.refusals());
        process::show_build(&mut now);
        groups::show(&mut now, &map, &looks, self.slices_max);
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

/// Shows one figure that only rises.
fn show_counter(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let counter: Counter = Counter::default();
    counter.inc_by(value);
    registry.register(name, help, counter);
}

/// Shows one figure that may rise and fall.
fn show_gauge(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(gauge_value(value));
    registry.register(name, help, gauge);
}

/// The same in bytes.
fn show_bytes(registry: &mut Registry, name: &str, help: &str, bytes: u64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(gauge_value(bytes));
    registry.register_with_unit(name, help, Unit::Bytes, gauge);
}

fn gauge_value(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The state of the node now.
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
        ("ready", "1 where the node serves all that it should", u64::from(health.not_ready().is_none())),
        ("raft_leader", "1 where the node leads the cluster's agreement", u64::from(is_leader)),
        ("raft_leader_id", "The number of the leader as far as the node knows; 0 for none", leader_id),
        ("raft_term", "The newest term of the cluster's agreement", status.term),
        ("raft_applied_index", "The newest entry that the map shows", status.last_applied),
        ("map_version", "The version of the map that the node acts on", view.map.version),
        ("streams_open", "Producer streams that are open", u64::from(open.streams.load(Ordering::Relaxed))),
        ("watches_open", "Streams on which the map is sent", u64::from(open.watches.load(Ordering::Relaxed))),
        ("inflight_bytes", "Bytes of calls, messages and batches that are under way", exposition.budget.taken()),
        ("batches_inflight", "Batches that are not answered", open.batches.load(Ordering::Relaxed)),
        ("queue_events", "Events that wait for their owners", owners.events_queued()),
        ("link_messages_waiting", "Messages to other nodes that are not acknowledged", waiting),
        (
            "clock_wrong",
            "1 where nothing is stamped by the node's clock, as it is too far from most others or was set",
            u64::from(is_wrong),
        ),
        (
            "clock_apart",
            "1 where the node's clock is further from most others than half of what it may be",
            u64::from(is_apart),
        ),
        ("journal_segments", "Files of the journal of slices", keeper.segments()),
        ("journal_waiting_bytes", "Bytes of records that wait for the disk", keeper.waiting_bytes()),
        ("journal_disk_full", "1 where the disk of the journal is full", u64::from(keeper.is_full())),
        ("journal_disk_hung", "1 where the disk of the journal hangs", u64::from(keeper.hangs())),
        (
            "data_disk_short",
            "1 where the disk of the data folder has no room but what is kept back for the cluster's agreement",
            u64::from(*meta.short_of_room().borrow()),
        ),
        (
            "data_disk_hung",
            "1 where the disk of what the cluster agrees on hangs",
            u64::from(*meta.disk_hangs().borrow()),
        ),
    ];
    for (name, help, value) in gauges {
        show_gauge(registry, name, help, value);
    }
}
