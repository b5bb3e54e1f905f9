//! A client: the map, a courier for every node, and the filters that are in use.
//!
//! Promises: what is queued is bounded; when the last handle is dropped, everything ends and every caller is answered.
//! Must not know: how batches are made and sent.

use std::collections::BTreeMap;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use firstseen_routing::{ClusterMap, FilterId, Heads, NodeId};
use firstseen_wire::net::{Channel, Connector};
use firstseen_wire::watch;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::call::lock;
use crate::courier::Courier;
use crate::dock::{Dock, Target};
use crate::error::{CallError, ConnectError, FilterError};
use crate::filter::Filter;
use crate::intake::FilterCore;
use crate::options::ConnectOptions;
use crate::piece::Piece;
use crate::present::Present;
use crate::retry::Jitter;
use crate::trace::TraceParent;
use crate::traffic::NodeTraffic;
use crate::watch::Watcher;

/// A connection to a cluster. Clones share it; when the last is dropped everything is closed, and calls of filters that
/// are still held are refused.
#[derive(Clone)]
pub struct Client {
    core: Arc<Core>,
    _closer: Arc<Closer>,
}

struct Closer(Arc<Core>);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Client {
    /// Connects to a cluster, and waits for its first map for at most the deadline.
    ///
    /// # Errors
    /// [`ConnectError`]: what is missing, or that no node answered.
    ///
    /// ```
    /// use firstseen_client::Client;
    /// # firstseen_fake::run(async |seed| {
    /// let client = Client::connect([seed]).await?;
    /// # Ok(())
    /// # });
    /// ```
    pub async fn connect(options: impl Into<ConnectOptions>) -> Result<Self, ConnectError> {
        // In a box, so that the client is compiled here, and not again in each crate that waits for it.
        let connecting: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(Self::start(options.into()));
        connecting.await
    }

    async fn start(options: ConnectOptions) -> Result<Self, ConnectError> {
        let options = options.checked()?;
        let connector = options.connector()?;
        let incarnation = options.incarnation()?;
        for seed in &options.seeds {
            connector.channel(seed, None)?;
        }
        let core = Arc::new(Core::new(options, connector, incarnation, true));
        let client = Self { _closer: Arc::new(Closer(core.clone())), core };
        let (give_up, hopeless) = oneshot::channel();
        client.core.spawn(Watcher::new(client.core.clone(), give_up).run());
        client.core.spawn(Courier::new(client.core.clone(), client.core.relay_dock.clone()).run());
        let mut maps = client.core.maps.subscribe();
        let has_map = maps.wait_for(|map| map.version > 0);
        let first = async {
            tokio::select! {
                biased;
                map = has_map => Ok(map.is_ok()),
                // Sent only where no seed can ever answer; until then the map is awaited.
                Ok(mismatches) = hopeless => Err(ConnectError::Settings(mismatches)),
            }
        };
        match timeout_at(client.core.deadline(), first).await {
            Ok(Ok(true)) => Ok(client.clone()),
            Ok(Err(error)) => Err(error),
            _ => Err(ConnectError::Unreachable {
                waited_ms: client.core.options.deadline_ms,
                tried: client.core.complaints(),
            }),
        }
    }

    /// Opens the filter of this name.
    ///
    /// # Errors
    /// [`FilterError`]: no such filter, no node answers, or the description cannot be used.
    ///
    /// ```
    /// # use firstseen_client::{Client, FilterError};
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// let clicks = client.filter("clicks").await?;
    /// assert_eq!(clicks.info().name, "clicks");
    /// assert!(matches!(client.filter("clix").await, Err(FilterError::NotFound { .. })));
    /// # Ok(())
    /// # });
    /// ```
    pub async fn filter(&self, name: &str) -> Result<Filter, FilterError> {
        self.core.open(name, self.core.deadline()).await.map(Filter::new)
    }

    /// Waits until nothing is queued or on its way any more, as a program does before it ends: answers that nobody awaits, and
    /// the releases of claims that were dropped. Returns whether that was so in time; meanwhile new calls wait.
    ///
    /// ```
    /// # use firstseen_client::{Client, Claiming};
    /// # use std::time::Duration;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// # let jobs = client.filter("jobs").await?;
    /// drop(jobs.claim("job-1", Duration::from_secs(5)).await?);
    /// assert!(client.flush(Duration::from_secs(2)).await);
    /// # Ok(())
    /// # });
    /// ```
    pub async fn flush(&self, within: Duration) -> bool {
        timeout(within, self.core.quiet()).await.is_ok()
    }

    /// Returns the map of the cluster as it is now: its nodes, and its filters.
    ///
    /// ```
    /// # use firstseen_client::Client;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// assert!(client.map().filter_named("clicks").is_some());
    /// # Ok(())
    /// # });
    /// ```
    pub fn map(&self) -> Arc<ClusterMap> {
        self.core.map()
    }

    /// Returns counts of the batches and bytes that were sent to each node so far.
    ///
    /// ```
    /// # use firstseen_client::Client;
    /// # firstseen_fake::run(async |seed| {
    /// # let client = Client::connect([seed]).await?;
    /// client.filter("clicks").await?.observe("click").await?;
    /// let batches: u64 = client.traffic().iter().map(|node| node.batches).sum();
    /// assert_eq!(batches, 1);
    /// # Ok(())
    /// # });
    /// ```
    pub fn traffic(&self) -> Vec<NodeTraffic> {
        self.core.traffic()
    }
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
    relay_dock: Arc<Dock>,
    docks: Mutex<BTreeMap<NodeId, Arc<Dock>>>,
    filters: Mutex<BTreeMap<FilterId, Weak<FilterCore>>>,
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
            relay_dock: Arc::new(Dock::new(Target::Relay)),
            docks: Mutex::default(),
            filters: Mutex::default(),
            version_heard_of: watch::Sender::new(0),
            sequence: AtomicU64::new(1),
            jitters: AtomicU64::new(incarnation as u64),
            runtime: Handle::current(),
            tasks: Mutex::default(),
            complaints: Mutex::default(),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        if self.room.is_closed() { drop(task) } else { tasks.push(self.runtime.spawn(task).abort_handle()) }
    }

    pub(crate) fn close(&self) {
        self.room.close();
        mem::take(&mut *lock(&self.tasks)).iter().for_each(AbortHandle::abort);
        let filters: Vec<_> = lock(&self.filters).values().filter_map(Weak::upgrade).collect();
        filters.iter().for_each(|filter| filter.close());
        let docks: Vec<_> = mem::take(&mut *lock(&self.docks)).into_values().collect();
        docks.iter().chain([&self.relay_dock]).for_each(|dock| dock.clear());
        self.relay.send(None);
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
    async fn quiet(&self) {
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
        let (mut heard_of, mut maps) = (self.version_heard_of.subscribe(), self.maps());
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

    /// The site of the client, in trees.
    pub(crate) fn site(&self) -> Option<&str> {
        self.options.site.as_deref()
    }

    /// Filters that are in use.
    pub(crate) fn filters(&self) -> &Mutex<BTreeMap<FilterId, Weak<FilterCore>>> {
        &self.filters
    }

    pub(crate) fn set_relay(&self, channel: Channel) {
        self.relay.send(Some(channel));
    }

    pub(crate) fn complain(&self, complaints: &BTreeMap<String, String>) {
        let all: Vec<String> =
            complaints.iter().map(|(address, complaint)| format!("{address}: {complaint}")).collect();
        *lock(&self.complaints) = all.join("; ");
    }

    fn complaints(&self) -> String {
        let complaints = lock(&self.complaints);
        if complaints.is_empty() { "no answer at all".to_owned() } else { complaints.clone() }
    }

    /// A channel to the target of a courier.
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

    /// The dock of a node; its courier is started with the first work for it.
    pub(crate) fn dock(self: &Arc<Self>, node: NodeId) -> Arc<Dock> {
        let mut docks = lock(&self.docks);
        if let Some(dock) = docks.get(&node) {
            return dock.clone();
        }
        let dock = Arc::new(Dock::new(Target::Node(node)));
        docks.insert(node, dock.clone());
        drop(docks);
        self.spawn(Courier::new(self.clone(), dock.clone()).run());
        dock
    }

    /// Counts of batches and bytes sent to each node so far, and through any node that relays.
    pub(crate) fn traffic(&self) -> Vec<NodeTraffic> {
        let map = self.map();
        let name = |node: &NodeId| map.nodes.get(node).map_or_else(|| node.to_string(), |record| record.name.clone());
        let docks = lock(&self.docks);
        let by_node = docks.iter().map(|(node, dock)| dock.traffic.of(&name(node)));
        let all = by_node.chain([self.relay_dock.traffic.of("")]);
        all.filter(|traffic| traffic.batches > 0).collect()
    }

    pub(crate) fn relay_dock(&self) -> &Dock {
        &self.relay_dock
    }

    /// Brings a batch to the heads of its events.
    pub(crate) fn dispatch(self: &Arc<Self>, mut piece: Piece) {
        let map = self.map();
        let Some(record) = map.filters.get(&piece.filter.id()) else {
            piece.filter.line().misses(&map, piece.filter.id());
            let reason = piece.tries.reason_for_callers(firstseen_routing::Reason::UnknownFilter);
            return piece.answer_alike(reason);
        };
        piece.routed_by = map.version;
        let heads = Heads::new(&map, record);
        match piece.head(&heads) {
            Some(head) => self.dock(head).deliver(piece),
            None => piece.split(&heads).into_iter().for_each(|(head, part)| self.dock(head).deliver(part)),
        }
    }
}
