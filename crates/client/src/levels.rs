//! The client inside of a node: events of one level of a tree that are brought to the level above.
//!
//! Promises: the same as for every call of a client, for events of which only the positions are known. Must not know:
//! why events climb.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstseen_filter::FilterSecret;
use firstseen_routing::Climbed;
use firstseen_routing::{Climb, ClusterMap, Decision, FilterId, Reason};
use firstseen_wire::net::Connector;
use tokio::time::Instant;

use crate::call::{ManyCall, lock};
use crate::intake::FilterCore;
use crate::options::ConnectOptions;
use crate::piece::Piece;
use crate::sender::Senders;
use crate::shared::Core;
use crate::traffic::NodeTraffic;

/// Brings events to levels of trees. The node gives it the map, so that it watches none.
pub struct Levels {
    core: Arc<Core>,
    senders: Arc<Senders>,
    filters: Mutex<BTreeMap<FilterId, Arc<FilterCore>>>,
}

impl Levels {
    /// For a process with this incarnation, by which its submissions are named.
    pub fn new(connector: Arc<dyn Connector>, incarnation: u128) -> Self {
        // A node that has the map can reach the others, so no relay is needed. The node bounds the events that climb: a
        // level would wait in vain for room that levels below it have taken. And the producer waits for slices that are
        // down: a level that waited too would use up the producer's time.
        let options =
            ConnectOptions { relay_after_ms: u64::MAX, queued_events_max: u32::MAX, ..ConnectOptions::default() };
        let core = Arc::new(Core::new(options, connector, incarnation, false));
        Self { senders: Senders::new(core.clone()), core, filters: Mutex::default() }
    }

    /// Acts on this map from now on.
    pub fn follow(&self, map: &ClusterMap) {
        lock(&self.filters).retain(|id, _| map.filters.contains_key(id));
        if let Err(complaint) = self.core.set_map(map.clone()) {
            tracing::error!(complaint, "a map that cannot be followed");
        }
    }

    /// Brings events up: they are on their way when this returns, so climbs keep their order. The future waits for
    /// their verdicts, for `patience` at most.
    pub fn climb(&self, climb: Climb, patience: Duration) -> impl Future<Output = Climbed> + Send + use<> {
        let number = climb.number;
        let events = climb.probes.len();
        let deadline = Instant::now() + patience;
        let call = ManyCall::new(events, climb.traceparent.as_deref().and_then(|trace| trace.parse().ok()));
        let refused = match self.filter(climb.to) {
            Some(filter) if self.core.try_reserve(events as u32) => {
                self.senders.dispatch(Piece::of_climb(filter, climb, deadline, &call));
                None
            }
            Some(_) => Some(Reason::Overloaded),
            None => Some(Reason::UnknownFilter),
        };
        async move {
            if let Some(reason) = refused {
                let decisions = vec![Decision::Undecided(reason); events];
                return Climbed { number, decisions, ..Climbed::default() };
            }
            let answers = call.wait().await;
            let (seen, degraded) = call.noted();
            Climbed { number, decisions: answers.iter().map(|answer| answer.decision).collect(), seen, degraded }
        }
    }

    /// Counts of batches and bytes sent to each node so far.
    pub fn traffic(&self) -> Vec<NodeTraffic> {
        self.senders.traffic()
    }

    fn filter(&self, id: FilterId) -> Option<Arc<FilterCore>> {
        let mut filters = lock(&self.filters);
        if let Some(filter) = filters.get(&id) {
            return Some(filter.clone());
        }
        let record = self.core.map().filters.get(&id)?.clone();
        // Positions are given, so nothing is hashed.
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
