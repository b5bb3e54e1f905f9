//! What all parts of a client share: its options, the cluster's map, room for events, and tasks.
//!
//! Promises: what is queued is bounded; nothing is started once the client is closed. Must not know: filters, batches, streams.

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
use crate::error::CallError;
use crate::options::ConnectOptions;
use crate::present::Present;
use crate::retry::Jitter;
use crate::trace::TraceParent;

/// Where batches are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A node, at its own address.
    Node(NodeId),
    /// Any node that can be reached: it relays batches to the nodes that own their slices.
    Relay,
}

/// What all parts of a client share.
pub(crate) struct Core {
    options: ConnectOptions,
    /// Callers wait for slices that are down, but only once in each outage.
    pub(crate) waits_for_slices: bool,
    connector: Arc<dyn Connector>,
    incarnation: u128,
    present: Present,
    maps: watch::Sender<Arc<ClusterMap>>,
    /// The version of the present map, for readers that look often.
    map_version: AtomicU64,
    /// The newest version that any node has named.
    version_heard_of: watch::Sender<u64>,
    /// A channel to a node that answers, which relays batches for the others.
    relay: watch::Sender<Option<Channel>>,
    /// Room for events that are queued or in flight.
    room: Semaphore,
    sequence: AtomicU64,
    jitters: AtomicU64,
    runtime: Handle,
    tasks: Mutex<Vec<AbortHandle>>,
    /// The last errors of the seeds.
    complaints: Mutex<String>,
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
            present: Present::new(options.wall_clock.clone()),
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
            complaints: Mutex::default(),
        }
    }

    /// Starts a task that ends with the client.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        if self.room.is_closed() { drop(task) } else { tasks.push(self.runtime.spawn(task).abort_handle()) }
    }

    /// Refuses calls from now on, and ends all tasks.
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

    /// The time of day.
    pub(crate) fn present(&self) -> &Present {
        &self.present
    }

    /// The trace that the calling task belongs to.
    #[inline]
    pub(crate) fn current_trace(&self) -> Option<TraceParent> {
        self.options.traceparent.as_ref().and_then(|current| current())
    }

    /// A generator that no other part has.
    pub(crate) fn jitter(&self) -> Jitter {
        Jitter::new(self.jitters.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed).rotate_left(17))
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// How long a call may take.
    pub(crate) fn patience(&self) -> Duration {
        // A deadline beyond what a clock can show is cut to some thirty years.
        Duration::from_millis(self.options.deadline_ms.min(1_000_000_000_000))
    }

    /// When a call that starts now is over.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.patience()
    }

    /// Takes room for `events` more, if there is some.
    pub(crate) fn try_reserve(&self, events: u32) -> bool {
        self.room.try_acquire_many(events).map(SemaphorePermit::forget).is_ok()
    }

    /// Waits until there is room for `events` more; `false` when the deadline is over first.
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

    /// So many events have been answered: gives their room back.
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

    /// Takes a map if it is newer; an error if it is another cluster's.
    pub(crate) fn set_map(&self, map: ClusterMap) -> Result<(), String> {
        let current = self.map();
        if current.version > 0 && current.cluster != map.cluster {
            return Err("this node belongs to another cluster than the first that answered".to_owned());
        }
        if map.version > current.version {
            // The version comes first: a reader that has seen the map finds its version too.
            self.map_version.store(map.version, Ordering::Release);
            self.maps.send(Arc::new(map));
        }
        Ok(())
    }

    /// A node has a map of this version.
    pub(crate) fn heard_of_version(&self, version: u64) {
        self.version_heard_of.send_if_modified(|known| {
            version > *known && {
                *known = version;
                true
            }
        });
    }

    /// Returns when a version that a node has named has been missing for so long.
    pub(crate) async fn map_is_behind_for(&self, lag_max: Duration) {
        let mut heard_of = self.version_heard_of.subscribe();
        let mut maps = self.maps();
        loop {
            // Both senders live as long as this.
            let _ = heard_of.wait_for(|version| *version > self.map_version()).await;
            let awaited = *heard_of.borrow();
            if timeout(lag_max, maps.wait_for(|map| map.version >= awaited)).await.is_err() {
                return;
            }
        }
    }

    /// Whether the client is closed: no more calls are answered.
    pub(crate) fn is_closed(&self) -> bool {
        self.room.is_closed()
    }

    /// The node that relays from now on. `None` means that none does.
    pub(crate) fn set_relay(&self, channel: Option<Channel>) {
        self.relay.send(channel);
    }

    pub(crate) fn complain(&self, complaints: &BTreeMap<String, String>) {
        let all: Vec<String> =
            complaints.iter().map(|(address, complaint)| format!("{address}: {complaint}")).collect();
        *lock(&self.complaints) = all.join("; ");
    }

    pub(crate) fn complaints(&self) -> String {
        let complaints = lock(&self.complaints);
        if complaints.is_empty() { "no answer at all".to_owned() } else { complaints.clone() }
    }

    /// A channel to a target.
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

    /// The address of a target that is one node.
    pub(crate) fn address(&self, target: Target) -> Option<String> {
        match target {
            Target::Relay => None,
            Target::Node(id) => self.map().nodes.get(&id).map(|node| node.address.clone()),
        }
    }
}
