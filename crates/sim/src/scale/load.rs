//! Producers that send batch after batch, first new events and then the same events again.
//!
//! Clusters of different sizes are loaded equally: the number of events in flight per node does not depend on the
//! number of nodes. The producers also check the verdicts. A new event must be first-seen, apart from false positives,
//! and a known event must be a duplicate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use firstseen_client::{Batch, Client, ConnectOptions, Filter, Verdict};
use firstseen_wire::watch;

use super::FILTER;
use crate::clock::{EPOCH_MS, now_us};
use crate::cluster::node_address;
use crate::net::SimConnector;

/// Range of the new events' times, in milliseconds.
pub(super) const WINDOW_MS: u64 = 3_600_000;
/// Number of events in flight per node.
pub(super) const IN_FLIGHT_PER_NODE: u64 = 1024;
/// Number of nodes per producer.
const NODES_PER_PRODUCER: usize = 10;
/// Maximum number of events in a message of a producer.
const BATCH_EVENTS: u32 = 8192;
/// Interval at which the operator checks whether producers are done.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum share of new events that may be called duplicates by a filter with one percent false positives.
const HIDDEN_MAX: f64 = 0.02;

/// The phases of the producers' work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Waiting,
    New,
    Known,
    Over,
}

/// The producers' work.
pub(super) struct Load {
    nodes: usize,
    events: u64,
    /// Number of new events that were sent.
    taken: AtomicU64,
    /// Number of producers that have finished the current stage.
    done: AtomicU32,
    stage: watch::Sender<Stage>,
    stages: watch::Receiver<Stage>,
}

impl Load {
    pub(super) fn new(nodes: usize, events_per_node: u64) -> Self {
        let (stage, stages) = watch::channel(Stage::Waiting);
        let events = events_per_node * nodes as u64;
        Self { nodes, events, taken: AtomicU64::new(0), done: AtomicU32::new(0), stage, stages }
    }

    /// Returns the number of different events of all producers.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn producers(&self) -> u32 {
        self.nodes.div_ceil(NODES_PER_PRODUCER) as u32
    }

    /// Lets all producers send their events for the first time.
    pub(super) async fn new_events(&self) {
        self.execute(Stage::New).await;
    }

    /// Lets all producers send their events again.
    pub(super) async fn known_events(&self) {
        self.execute(Stage::Known).await;
    }

    /// Lets all producers end.
    pub(super) fn end(&self) {
        self.stage.send(Stage::Over);
    }

    async fn execute(&self, stage: Stage) {
        self.done.store(0, Ordering::Relaxed);
        self.stage.send(stage);
        while self.done.load(Ordering::Relaxed) < self.producers() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Runs the producer with index `place`.
    pub(super) async fn produce(self: Arc<Self>, place: u32, connector: SimConnector) -> turmoil::Result {
        let mut stages = self.stages.clone();
        stages.wait_for(|stage| *stage >= Stage::New).await?;
        let client = Client::connect(ConnectOptions {
            connector: Some(Arc::new(connector)),
            incarnation: Some(u128::from(place) + 1),
            wall_clock: Some(Arc::new(|| EPOCH_MS + now_us() / 1000)),
            batch_events_max: BATCH_EVENTS,
            ..ConnectOptions::from((0..self.nodes).map(|index| node_address((index + place as usize) % self.nodes)))
        })
        .await?;
        let filter = client.filter(FILTER).await?;
        self.send(place.into(), &filter, Stage::New).await?;
        stages.wait_for(|stage| *stage >= Stage::Known).await?;
        self.send(place.into(), &filter, Stage::Known).await?;
        // Until then, the producer follows the map.
        stages.wait_for(|stage| *stage == Stage::Over).await?;
        Ok(())
    }

    /// Sends this producer's share of all events, one batch at a time.
    async fn send(&self, place: u64, filter: &Filter, stage: Stage) -> turmoil::Result {
        let producers = u64::from(self.producers());
        let mut event = self.events * place / producers;
        let end = self.events * (place + 1) / producers;
        let in_flight = IN_FLIGHT_PER_NODE * self.nodes as u64 / producers;
        let begun_ms = EPOCH_MS + now_us() / 1000;
        let events = end - event;
        let mut wrong = 0;
        while event < end {
            let next = end.min(event + in_flight);
            let keys: Vec<[u8; 16]> = (event..next).map(|event| u128::from(event).to_le_bytes()).collect();
            let time_ms = match stage {
                // The times of all producers advance together, like those of events that occur now.
                Stage::New => {
                    let taken = self.taken.fetch_add(next - event, Ordering::Relaxed);
                    begun_ms - WINDOW_MS + taken * WINDOW_MS / self.events
                }
                _ => begun_ms,
            };
            let right = if stage == Stage::New { Verdict::FirstSeen } else { Verdict::Duplicate };
            for verdict in filter.observe_batch(Batch::from(&keys).times_ms(&vec![time_ms; keys.len()])).await? {
                match verdict {
                    Verdict::Undecided(reason) => return Err(format!("an event was undecided: {reason:?}").into()),
                    verdict => wrong += u64::from(verdict != right),
                }
            }
            event = next;
        }
        let wrong_max = if stage == Stage::New { HIDDEN_MAX * events as f64 } else { 0.0 };
        if wrong as f64 > wrong_max {
            return Err(format!("{wrong} of {events} verdicts were wrong").into());
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
