//! The phases of one measurement. The cluster is formed and then rests without events. Afterwards, producers send new
//! events, and then the same events again. Finally the cluster map is changed once. The traffic of each phase is
//! counted separately.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_routing::{Prober, SlicedDefinition};
use firstseen_wire::map::map_bytes;
use firstseen_wire::proto::admin;
use tokio::time::{Instant, sleep_until};
use xxhash_rust::xxh3::xxh3_128;

use super::board::Board;
use super::counts::Counts;
use super::figures::{Change, ClusterFigures, Figures, Flow};
use super::load::Load;
use super::{FILTER, define, without_faults};
use crate::clock::now_us;
use crate::cluster::{self, Admin, PORT};
use crate::net::SimConnector;
use crate::trace::{Delivered, Delivery};

/// Time after which everything that a change has caused is done.
const SETTLED: Duration = Duration::from_secs(3);
/// Time for which the cluster is observed without events.
const REST: Duration = Duration::from_secs(5);
/// Time without events after which all cells are set and acknowledged.
const QUIET: Duration = Duration::from_millis(200);
/// Name of the filter that changes the map.
const OTHER_FILTER: &str = "another";

/// The operator of one measurement.
pub(super) struct Course {
    pub(super) nodes: usize,
    pub(super) slicing: String,
    pub(super) definition: SlicedDefinition,
    pub(super) connector: SimConnector,
    pub(super) board: Board,
    pub(super) load: Arc<Load>,
    /// Addresses of the nodes.
    pub(super) hosts: BTreeSet<IpAddr>,
    pub(super) producers: BTreeSet<IpAddr>,
}

impl Course {
    /// Runs all phases, and stores the figures in `figures`.
    pub(super) async fn run(self, figures: Arc<Mutex<Option<Figures>>>) -> turmoil::Result {
        let mut first = cluster::form(self.nodes, &self.connector).await?;
        while !cluster::have_started(&cluster::map(&mut first).await?, self.nodes) {
            tokio::time::sleep(SETTLED).await;
        }
        self.create(&mut first, FILTER, &self.definition).await?;
        let map = cluster::map(&mut first).await?;
        self.board.all_at(map.version).await;
        tokio::time::sleep(SETTLED).await;
        let deliveries = self.connector.recorder.take().deliveries;
        let connections = deliveries.iter().filter(|delivery| self.opens(delivery)).count();
        let started = self.counted().await;
        self.connector.recorder.take();
        tokio::time::sleep(REST).await;
        let rest_bytes = self.bytes_between_nodes(&self.connector.recorder.take().deliveries);
        let begun = self.counted().await;
        let rest = begun.since(&started);
        self.load.new_events().await;
        let between = self.counted().await;
        self.load.known_events().await;
        let ended = self.counted().await;
        tokio::time::sleep(SETTLED).await;
        let change = self.change(&mut first, rest_bytes).await?;
        self.load.end();
        let cluster = ClusterFigures {
            connections,
            at_rest_bytes_per_s: rest_bytes / REST.as_secs_f64() / self.nodes as f64,
            map_bytes: map_bytes(&map),
            change,
        };
        let new = self.flow(&between.since(&begun).without(&rest));
        let known = self.flow(&ended.since(&between).without(&rest));
        let hashes = Prober::new(&self.definition)?.shape().hashes();
        let made = Figures { nodes: self.nodes, slicing: self.slicing, hashes, new, known, cluster };
        *figures.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        Ok(())
    }

    /// Returns what nodes have counted so far, once nothing is in flight.
    async fn counted(&self) -> Counted {
        tokio::time::sleep(QUIET).await;
        let counts = Counts::of(&self.board.metrics().await);
        Counted { counts, seconds: now_us() as f64 / 1e6 }
    }

    async fn create(&self, first: &mut Admin, name: &str, definition: &SlicedDefinition) -> turmoil::Result {
        let request = admin::CreateFilterRequest {
            command_id: xxh3_128(name.as_bytes()).to_le_bytes().to_vec().into(),
            name: name.to_owned(),
            definition_json: serde_json::to_string(definition)?,
            ..cluster::create(&without_faults(self.nodes))?
        };
        cluster::retry(first, |mut client| {
            let request = request.clone();
            async move { client.create_filter(request).await }
        })
        .await?;
        Ok(())
    }

    /// Measures the cost of one change of the cluster map. The change is the creation of a filter with one slice.
    /// `rest_bytes` is the number of bytes that nodes exchange in a period of the same length without a change. These
    /// bytes are not part of the cost, so they are subtracted.
    async fn change(&self, first: &mut Admin, rest_bytes: f64) -> turmoil::Result<Change> {
        self.connector.recorder.take();
        let begun = Instant::now();
        let begun_us = now_us();
        self.create(first, OTHER_FILTER, &define("none", 1)?).await?;
        let version = cluster::map(first).await?.version;
        self.board.all_at(version).await;
        let ms = (now_us() - begun_us) / 1000;
        sleep_until(begun + REST).await;
        let deliveries = self.connector.recorder.take().deliveries;
        let to_producers = bytes(deliveries.iter().filter(|delivery| self.producers.contains(&delivery.to.ip())));
        Ok(Change {
            bytes: self.bytes_between_nodes(&deliveries) - rest_bytes,
            bytes_to_a_producer: to_producers / self.producers.len() as f64,
            ms,
        })
    }

    fn flow(&self, counts: &Counts) -> Flow {
        let events = self.load.events() as f64;
        let bytes: Vec<f64> = counts.bytes.values().copied().collect();
        Flow {
            sent_per_event: counts.sent_events / events,
            visits_per_event: counts.visits / events,
            messages_per_event: total(counts.messages.values()) / events,
            bytes_per_event: total(counts.bytes.values()) / events,
            node_visits_per_1000_events: 1000.0 * counts.visits / events / self.nodes as f64,
            busiest_node: times_mean(&counts.work),
            links: bytes.len(),
            link_messages_per_1000_events: self.per_link(total(counts.messages.values()), bytes.len()),
            link_bytes_per_1000_events: self.per_link(total(counts.bytes.values()), bytes.len()),
            busiest_link: times_mean(&bytes),
        }
    }

    /// Returns the share of a count per link and 1,000 events, or `None` if there are no links.
    fn per_link(&self, counted: f64, links: usize) -> Option<f64> {
        (links > 0).then(|| 1000.0 * counted / self.load.events() as f64 / links as f64)
    }

    fn bytes_between_nodes(&self, deliveries: &[Delivery]) -> f64 {
        bytes(deliveries.iter().filter(|delivery| self.is_between_nodes(delivery)))
    }

    fn is_between_nodes(&self, delivery: &Delivery) -> bool {
        [delivery.from, delivery.to].iter().all(|host| self.hosts.contains(&host.ip()))
    }

    /// Returns whether a node has accepted a connection from another node.
    fn opens(&self, delivery: &Delivery) -> bool {
        delivery.what == Delivered::Connection && delivery.to.port() == PORT && self.is_between_nodes(delivery)
    }
}

/// What nodes had counted at one moment, or between two moments.
struct Counted {
    counts: Counts,
    /// Time of the moment, or time between the two moments.
    seconds: f64,
}

impl Counted {
    fn since(&self, before: &Self) -> Self {
        Self { counts: self.counts.since(&before.counts), seconds: self.seconds - before.seconds }
    }

    /// Returns the counts without the traffic that links have in the same time at rest.
    fn without(self, rest: &Self) -> Counts {
        self.counts.without(&rest.counts, self.seconds / rest.seconds)
    }
}

fn total<'a>(counts: impl Iterator<Item = &'a f64>) -> f64 {
    counts.fold(0.0, |sum, count| sum + count)
}

/// Returns the greatest count as a multiple of the mean, or `None` if there are no counts.
fn times_mean(counts: &[f64]) -> Option<f64> {
    let most = counts.iter().copied().fold(0.0, f64::max);
    (!counts.is_empty()).then(|| most * counts.len() as f64 / total(counts.iter()))
}

fn bytes<'a>(deliveries: impl Iterator<Item = &'a Delivery>) -> f64 {
    deliveries.fold(0.0, |sum, delivery| match delivery.what {
        Delivered::Bytes { length, .. } => sum + length as f64,
        _ => sum,
    })
}
