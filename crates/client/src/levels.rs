//! Client inside a node, which sends events from one level of a tree of filters to the level above or below.
//!
//! A node knows only the positions of an event, because producers compute the positions from the key and never send the
//! key. Unlike the client of a producer, this client therefore works without keys. In all other respects, it gives
//! events the same guarantees.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstseen_filter::FilterSecret;
use firstseen_routing::LevelReply;
use firstseen_routing::{ClusterMap, Decision, FilterId, LevelQuery, Reason};
use firstseen_wire::net::Connector;
use tokio::time::Instant;

use crate::call::{ManyCall, lock};
use crate::intake::FilterCore;
use crate::options::ConnectOptions;
use crate::routed_batch::RoutedBatch;
use crate::sender::Senders;
use crate::shared::Core;
use crate::traffic::NodeTraffic;

/// Sends events to other levels of trees. The node supplies the cluster map, so this client does not watch the map
/// itself.
pub struct Levels {
    core: Arc<Core>,
    senders: Arc<Senders>,
    filters: Mutex<BTreeMap<FilterId, Arc<FilterCore>>>,
}

impl Levels {
    /// Creates the client for a process with this incarnation number, which is part of the idempotency keys of its
    /// batches.
    pub fn new(connector: Arc<dyn Connector>, incarnation: u128) -> Self {
        // Three options differ from those of a producer. A node that has the cluster map can reach the other nodes, so
        // no relay is needed. The number of events is not limited here, because the node limits it: a level would
        // otherwise wait for space that lower levels occupy. And this client does not wait for slices that are down,
        // because the producer waits for them itself, and waiting twice would use up the producer's time.
        let options =
            ConnectOptions { relay_after_ms: u64::MAX, queued_events_max: u32::MAX, ..ConnectOptions::default() };
        let core = Arc::new(Core::new(options, connector, incarnation, false));
        Self { senders: Senders::new(core.clone()), core, filters: Mutex::default() }
    }

    /// Adopts a new cluster map.
    pub fn follow(&self, map: &ClusterMap) {
        lock(&self.filters).retain(|id, _| map.filters.contains_key(id));
        if let Err(complaint) = self.core.set_map(map.clone()) {
            tracing::error!(complaint, "cannot use a cluster map");
        }
    }

    /// Sends events to another level of the tree, and returns a future that waits for the verdicts for at most
    /// `patience`. The events are already in the queue when this function returns, so the events of consecutive calls
    /// keep their order.
    pub fn climb(&self, climb: LevelQuery, patience: Duration) -> impl Future<Output = LevelReply> + Send + use<> {
        let number = climb.number;
        let events = climb.probes.len();
        let deadline = Instant::now() + patience;
        let call = ManyCall::new(events, climb.traceparent.as_deref().and_then(|trace| trace.parse().ok()));
        let refused = match self.filter(climb.to) {
            Some(filter) if self.core.try_reserve(events as u32) => {
                self.senders.dispatch(RoutedBatch::of_level_query(filter, climb, deadline, &call));
                None
            }
            Some(_) => Some(Reason::Overloaded),
            None => Some(Reason::UnknownFilter),
        };
        async move {
            if let Some(reason) = refused {
                let decisions = vec![Decision::Undecided(reason); events];
                return LevelReply { number, decisions, ..LevelReply::default() };
            }
            let answers = call.wait().await;
            LevelReply {
                number,
                decisions: answers.iter().map(|answer| answer.decision).collect(),
                seen: call.seen(),
                degraded: call.degraded(),
                ..LevelReply::default()
            }
        }
    }

    /// Returns the number of batches and bytes that were sent to each node so far.
    pub fn traffic(&self) -> Vec<NodeTraffic> {
        self.senders.traffic()
    }

    fn filter(&self, id: FilterId) -> Option<Arc<FilterCore>> {
        let mut filters = lock(&self.filters);
        if let Some(filter) = filters.get(&id) {
            return Some(filter.clone());
        }
        let record = self.core.map().filters.get(&id)?.clone();
        // The secret is never used, because the events arrive as positions and are not hashed here.
        let secret = FilterSecret::from_material(&[0; 32]);
        let filter = Arc::new(FilterCore::new(self.core.clone(), self.senders.clone(), id, record, secret, None).ok()?);
        filters.insert(id, filter.clone());
        Some(filter)
    }
}

impl Drop for Levels {
    fn drop(&mut self) {
        self.core.close();
        self.senders.clear();
    }
}
