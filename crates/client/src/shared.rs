//! State that all parts of a client share: options, the cluster map, the budget of queued events, and background tasks.
//!
//! The number of events that a client queues is limited, so a slow cluster cannot exhaust the memory of the program.
//!
//! After the client is closed, it starts no further background tasks.
//!
//! This module does not depend on filters, batches or streams.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstseen_routing::{ClusterMap, NodeId};
use firstseen_wire::net::{Channel, Connector};
use firstseen_wire::watch;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::call::lock;
use crate::cluster_time::ClusterTime;
use crate::error::CallError;
use crate::options::ConnectOptions;
use crate::retry::Jitter;
use crate::trace::TraceParent;

/// Destination of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Node that is addressed directly.
    Node(NodeId),
    /// Any reachable node, which relays batches to the nodes that own the slices.
    Relay,
}

/// State that all parts of a client share.
pub(crate) struct Core {
    options: ConnectOptions,
    /// Whether calls wait when a slice is down. Calls wait only once in each outage; later calls of the same outage are
    /// answered at once.
    pub(crate) waits_for_slices: bool,
    connector: Arc<dyn Connector>,
    incarnation: u128,
    present: ClusterTime,
    maps: watch::Sender<Arc<ClusterMap>>,
    /// Version of the current cluster map, as an atomic copy for code that reads it often.
    map_version: AtomicU64,
    /// Newest version of the cluster map that any node has reported.
    version_heard_of: watch::Sender<u64>,
    /// Channel to a node that currently answers and relays batches to nodes that this client cannot reach.
    relay: watch::Sender<Option<Channel>>,
    /// Permits for events that are queued or in flight. An event takes one permit and returns it when it is answered.
    room: Semaphore,
    sequence: AtomicU64,
    jitters: AtomicU64,
    runtime: Handle,
    tasks: Mutex<Vec<AbortHandle>>,
    /// Last error of each seed node, for error messages.
    last_errors: Mutex<String>,
}

impl Core {
    pub(crate) fn new(
        options: ConnectOptions,
        connector: Arc<dyn Connector>,
        incarnation: u128,
        waits_for_slices: bool,
    ) -> Self {
        Self {
            room: Semaphore::new((options.queued_events_max as usize).min(Semaphore::MAX_PERMITS)),
            connector,
            incarnation,
            present: ClusterTime::new(options.wall_clock.clone()),
            options,
            waits_for_slices,
            maps: watch::Sender::new(Arc::new(ClusterMap::default())),
            map_version: AtomicU64::new(0),
            relay: watch::Sender::new(None),
            version_heard_of: watch::Sender::new(0),
            sequence: AtomicU64::new(1),
            jitters: AtomicU64::new(incarnation as u64),
            runtime: Handle::current(),
            tasks: Mutex::default(),
            last_errors: Mutex::default(),
        }
    }

    /// Starts a task that ends when the client ends.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        if self.room.is_closed() { drop(task) } else { tasks.push(self.runtime.spawn(task).abort_handle()) }
    }

    /// Rejects all later calls, and aborts all tasks.
    pub(crate) fn close(&self) {
        self.room.close();
        mem::take(&mut *lock(&self.tasks)).iter().for_each(AbortHandle::abort);
    }

    pub(crate) fn options(&self) -> &ConnectOptions {
        &self.options
    }

    pub(crate) fn connector(&self) -> &dyn Connector {
        &*self.connector
    }

    pub(crate) fn incarnation(&self) -> u128 {
        self.incarnation
    }

    /// Returns the clock that gives the time of day.
    pub(crate) fn present(&self) -> &ClusterTime {
        &self.present
    }

    /// Returns the trace context of the calling task.
    #[inline]
    pub(crate) fn current_trace(&self) -> Option<TraceParent> {
        self.options.traceparent.as_ref().and_then(|current| current())
    }

    /// Returns a random generator for waiting times. Each caller gets its own sequence.
    pub(crate) fn jitter(&self) -> Jitter {
        Jitter::new(self.jitters.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed).rotate_left(17))
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the maximum duration of a call.
    pub(crate) fn patience(&self) -> Duration {
        // Adding a very large deadline to the clock would overflow, so the deadline is limited to about 30 years.
        Duration::from_millis(self.options.deadline_ms.min(1_000_000_000_000))
    }

    /// Returns the deadline of a call that starts now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.patience()
    }

    /// Reserves space for `events` more events. Returns `false` if there is not enough space.
    pub(crate) fn try_reserve(&self, events: u32) -> bool {
        self.room.try_acquire_many(events).map(SemaphorePermit::forget).is_ok()
    }

    /// Waits until there is space for `events` more events, and reserves it. Returns `false` if the deadline passes
    /// first.
    pub(crate) async fn reserve(&self, events: u32, deadline: Instant) -> Result<bool, CallError> {
        if self.try_reserve(events) {
            return Ok(true);
        }
        match timeout_at(deadline, self.room.acquire_many(events)).await {
            Ok(Ok(room)) => {
                room.forget();
                Ok(true)
            }
            Ok(Err(_)) => Err(CallError::Closed),
            Err(_) => Ok(false),
        }
    }

    /// Waits until no event is queued or in flight.
    pub(crate) async fn quiet(&self) {
        drop(self.room.acquire_many(self.options.queued_events_max).await);
    }

    /// Returns the space of `events` events that have been answered.
    pub(crate) fn release(&self, events: usize) {
        self.room.add_permits(events);
    }

    pub(crate) fn map(&self) -> Arc<ClusterMap> {
        self.maps.borrow().clone()
    }

    pub(crate) fn maps(&self) -> watch::Receiver<Arc<ClusterMap>> {
        self.maps.subscribe()
    }

    pub(crate) fn map_version(&self) -> u64 {
        self.map_version.load(Ordering::Acquire)
    }

    /// Replaces the cluster map if `map` is newer. Returns an error if `map` belongs to another cluster.
    pub(crate) fn set_map(&self, map: ClusterMap) -> Result<(), String> {
        let current = self.map();
        if current.version > 0 && current.cluster != map.cluster {
            return Err("this node belongs to another cluster than the first that answered".to_owned());
        }
        if map.version > current.version {
            // The version is stored before the map is sent, so that a reader who sees the new map also finds its
            // version.
            self.map_version.store(map.version, Ordering::Release);
            self.maps.send(Arc::new(map));
        }
        Ok(())
    }

    /// Notes that some node has a cluster map of this version.
    pub(crate) fn note_map_version(&self, version: u64) {
        self.version_heard_of.send_if_modified(|known| {
            version > *known && {
                *known = version;
                true
            }
        });
    }

    /// Waits until a version of the cluster map that some node has reported has not arrived here for `lag_max`.
    pub(crate) async fn map_is_behind_for(&self, lag_max: Duration) {
        let mut heard_of = self.version_heard_of.subscribe();
        let mut maps = self.maps();
        loop {
            // Neither channel can close here, because `self` owns both senders.
            let _ = heard_of.wait_for(|version| *version > self.map_version()).await;
            let awaited = *heard_of.borrow();
            if timeout(lag_max, maps.wait_for(|map| map.version >= awaited)).await.is_err() {
                return;
            }
        }
    }

    /// Returns whether the client is closed. A closed client rejects all calls.
    pub(crate) fn is_closed(&self) -> bool {
        self.room.is_closed()
    }

    /// Sets the channel to the node that relays batches. `None` means that no node relays.
    pub(crate) fn set_relay(&self, channel: Option<Channel>) {
        self.relay.send(channel);
    }

    pub(crate) fn set_last_errors(&self, last_errors: &BTreeMap<String, String>) {
        let all: Vec<String> =
            last_errors.iter().map(|(address, complaint)| format!("{address}: {complaint}")).collect();
        *lock(&self.last_errors) = all.join("; ");
    }

    pub(crate) fn last_errors(&self) -> String {
        let last_errors = lock(&self.last_errors);
        if last_errors.is_empty() { "no answer at all".to_owned() } else { last_errors.clone() }
    }

    /// Returns a channel to a target.
    pub(crate) fn channel(&self, target: Target) -> Result<Channel, String> {
        match target {
            Target::Relay => self.relay.borrow().clone().ok_or_else(|| "no node answers".to_owned()),
            Target::Node(id) => {
                let map = self.map();
                let node = map.nodes.get(&id).ok_or_else(|| format!("node {id} has left the cluster"))?;
                self.connector.channel(&node.address, Some(&node.name)).map_err(|error| error.to_string())
            }
        }
    }

    /// Returns the address of a target, or `None` if the target is any relaying node.
    pub(crate) fn address(&self, target: Target) -> Option<String> {
        match target {
            Target::Relay => None,
            Target::Node(id) => self.map().nodes.get(&id).map(|node| node.address.clone()),
        }
    }
}
