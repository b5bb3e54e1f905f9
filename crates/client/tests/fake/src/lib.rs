//! Fake cluster for tests of the client. Its nodes speak the producer protocol over real sockets, and remember events
//! exactly instead of with a filter. For each batch, a test can decide how the node reacts.
//!
//! A fake node decodes every batch by the rules of the protocol, and keeps the batch so that a test can inspect it.
//!
//! This crate does not depend on the client.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use firstseen_filter::{FilterSpec, FrequencySpec, Kind};
use firstseen_routing::{
    Answers, ClockSource, ClusterId, ClusterMap, Decision, Epoch, Fence, FilterId, FilterPolicies, FilterRecord, Hold,
    Incarnation, NodeId, NodeRecord, Operation, Prober, Reason, SliceOwner, SlicedDefinition, Slicing, SubmissionName,
};
use firstseen_wire::batch::{BatchReader, BatchShape, OwnedRun};
use firstseen_wire::hello::{Credit, accept_hello, welcome};
use firstseen_wire::map::filter_message;
use firstseen_wire::net::producer_server;
use firstseen_wire::proto::producer::{self as proto, observe_reply, observe_request, producer_server::Producer};
use firstseen_wire::reply::{self, refusal};
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// What a fake node does with a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// Records and answers the batch.
    Answer,
    /// Records the batch, and answers it after this number of milliseconds.
    AnswerAfter(u64),
    /// Refuses the whole batch with this reason.
    Refuse(Reason),
    /// Records the batch, and then breaks the stream without a reply.
    LoseReply,
    /// Ignores the batch.
    Ignore,
}

/// Batch that has arrived at a fake node.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Node at which the batch arrived.
    pub node: NodeId,
    /// Number of the stream, counted over all nodes.
    pub stream: u64,
    /// Sequence number that the producer gave the batch.
    pub sequence: u64,
    /// Filter that the batch is for.
    pub filter: FilterId,
    /// Operation that the batch requests.
    pub operation: Operation,
    /// Events of the batch, by slice group.
    pub runs: Vec<OwnedRun>,
    /// Encoded message, as it was sent.
    pub bytes: Vec<u8>,
}

impl Arrival {
    /// Returns the number of events in the batch.
    pub fn events(&self) -> usize {
        self.runs.iter().map(|run| run.probes.len()).sum()
    }
}

/// Event, identified by filter, slice group and positions.
type Key = (FilterId, u32, String);

/// Answer of a fake node to one event.
#[derive(Clone, Copy)]
struct EventAnswer {
    decision: Decision,
    estimate: f32,
    hold: Hold,
}

type Judge = Box<dyn Fn(&Arrival, usize) -> Fate + Send>;

struct State {
    judge: Judge,
    arrivals: Vec<Arrival>,
    recorded: HashSet<Key>,
    /// Number of times that each event was counted.
    counts: HashMap<Key, f32>,
    /// Fences of the events that are claimed.
    claims: HashMap<Key, Fence>,
    claims_granted: u64,
    /// Replies that were given, by producer, sequence number and slice group.
    replies: HashMap<(u128, u64, u32), Vec<EventAnswer>>,
    /// First verdict for each idempotency key that a caller has set.
    named: HashMap<SubmissionName, Decision>,
    streams: u64,
    unanswered_max: usize,
    credits: u32,
    clock_ms: u64,
    /// Node that does not answer requests for descriptions of filters.
    hesitates: Option<NodeId>,
}

/// Fake nodes with their common state.
#[derive(Clone)]
pub struct FakeCluster {
    state: Arc<Mutex<State>>,
    maps: watch::Sender<ClusterMap>,
    addresses: Vec<String>,
    servers: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// Secret of all filters.
pub const SECRET: [u8; 32] = [7; 32];

/// Returns the definition of a filter of kind `timing`.
pub fn definition(window: &str, slicing: &str) -> SlicedDefinition {
    let spec = FilterSpec {
        capacity_events: Some(100_000),
        ..FilterSpec::new(Kind::Timing, window.parse().expect("a window"))
    };
    SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition")
}

/// Maximum time that a test waits for anything. The limit ends tests that hang, and is long enough for slow machines.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until a condition holds. Panics after [`TIMEOUT`].
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + TIMEOUT;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

impl FakeCluster {
    /// Starts `nodes` nodes, numbered from 1, without any filter.
    pub async fn start(nodes: u64) -> Self {
        let state = State {
            judge: Box::new(|_, _| Fate::Answer),
            arrivals: Vec::new(),
            recorded: HashSet::new(),
            counts: HashMap::new(),
            claims: HashMap::new(),
            claims_granted: 0,
            replies: HashMap::new(),
            named: HashMap::new(),
            streams: 0,
            unanswered_max: 0,
            credits: 64,
            clock_ms: 0,
            hesitates: None,
        };
        let map = ClusterMap { cluster: ClusterId([1; 16]), version: 1, ..ClusterMap::default() };
        let mut cluster = Self {
            state: Arc::new(Mutex::new(state)),
            maps: watch::Sender::new(map),
            addresses: Vec::new(),
            servers: Arc::default(),
        };
        for node in 1..=nodes {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address").to_string();
            cluster.addresses.push(address.clone());
            let record = NodeRecord {
                name: format!("node-{node}"),
                site: "here".to_owned(),
                address,
                incarnation: Incarnation(1),
                memory_bytes: 1 << 30,
                voter: true,
                is_down: false,
            };
            cluster.maps.send_modify(|map| drop(map.nodes.insert(NodeId(node), record)));
            let service = producer_server(FakeNode { cluster: cluster.clone(), node: NodeId(node) });
            let serve = tonic::transport::Server::builder()
                .tcp_nodelay(true)
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener));
            lock(&cluster.servers).push(tokio::spawn(async move { serve.await.expect("served") }));
        }
        cluster
    }

    /// Adds a filter whose slices are assigned to the nodes in turn.
    pub fn add_filter(&self, name: &str, definition: SlicedDefinition, clock: ClockSource) -> FilterId {
        let mut added = FilterId(0);
        self.change(|map| {
            let nodes = map.nodes.len() as u64;
            let owner = |slice: u32| SliceOwner {
                node: NodeId(1 + u64::from(slice) % nodes),
                complete_since: Incarnation(1),
                ..SliceOwner::default()
            };
            let record = FilterRecord {
                name: name.to_owned(),
                epoch: Epoch::FIRST,
                owners: (0..definition.slicing.slices()).map(owner).collect(),
                definition,
                policies: FilterPolicies { clock, ..FilterPolicies::default() },
                copies: Vec::new(),
                generations: Vec::new(),
                branch: None,
                line: Default::default(),
            };
            added = FilterId(map.filters.len() as u64 + 1);
            map.filters.insert(added, record);
        });
        added
    }

    /// Changes the cluster map and increases its version.
    pub fn change(&self, change: impl FnOnce(&mut ClusterMap)) {
        self.maps.send_modify(|map| {
            change(map);
            map.version += 1;
        });
    }

    /// Returns the current cluster map.
    pub fn map(&self) -> ClusterMap {
        self.maps.borrow().clone()
    }

    /// Sets the function that decides about later batches. Its second parameter is the number of batches that have
    /// arrived before.
    pub fn judge(&self, judge: impl Fn(&Arrival, usize) -> Fate + Send + 'static) {
        lock(&self.state).judge = Box::new(judge);
    }

    /// Sets how many batches may be unanswered on streams that are opened from now on.
    pub fn set_credits(&self, credits: u32) {
        lock(&self.state).credits = credits;
    }

    /// Sets the clock reading that later replies carry.
    pub fn set_clock_ms(&self, clock_ms: u64) {
        lock(&self.state).clock_ms = clock_ms;
    }

    /// Makes a node ignore all requests for descriptions of filters.
    pub fn ignore_descriptions(&self, node: NodeId) {
        lock(&self.state).hesitates = Some(node);
    }

    /// Returns all batches that have arrived.
    pub fn arrivals(&self) -> Vec<Arrival> {
        lock(&self.state).arrivals.clone()
    }

    /// Returns the number of recorded events.
    pub fn recorded(&self) -> usize {
        lock(&self.state).recorded.len()
    }

    /// Returns the greatest number of batches that were unanswered on one stream at the same time.
    pub fn unanswered_max(&self) -> usize {
        lock(&self.state).unanswered_max
    }

    /// Returns the address of the first node.
    pub fn seed(&self) -> String {
        self.addresses[0].clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no test has panicked with it")
}

struct FakeNode {
    cluster: FakeCluster,
    node: NodeId,
}

type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Producer for FakeNode {
    type ObserveStream = Replies<proto::ObserveReply>;
    type WatchMapStream = Replies<proto::ClusterMap>;

    async fn observe(
        &self,
        request: Request<Streaming<proto::ObserveRequest>>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let (replies, outgoing) = mpsc::channel(1024);
        let (cluster, node) = (self.cluster.clone(), self.node);
        tokio::spawn(async move { serve_stream(cluster, node, request.into_inner(), replies).await });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn describe_filter(
        &self,
        request: Request<proto::DescribeFilterRequest>,
    ) -> Result<Response<proto::DescribeFilterReply>, Status> {
        let hesitates = lock(&self.cluster.state).hesitates == Some(self.node);
        if hesitates {
            std::future::pending::<()>().await;
        }
        let map = self.cluster.map();
        let name = request.into_inner().name;
        let (id, record) = map.filter_named(&name).ok_or_else(|| Status::not_found("no such filter"))?;
        Ok(Response::new(proto::DescribeFilterReply {
            filter: Some(filter_message(id, record)),
            secret: SECRET.to_vec().into(),
            clock_ms: 0,
            map_version: map.version,
            slices_ready: 1,
            former: None,
            former_secret: Vec::new().into(),
            former_clock_ms: 0,
            wall_ms: 0,
        }))
    }

    async fn watch_map(
        &self,
        request: Request<proto::WatchMapRequest>,
    ) -> Result<Response<Self::WatchMapStream>, Status> {
        let (sender, outgoing) = mpsc::channel(4);
        let (mut maps, mut known) = (self.cluster.maps.subscribe(), request.into_inner().known_version);
        tokio::spawn(async move {
            loop {
                let map = maps.borrow_and_update().clone();
                if map.version > known {
                    known = map.version;
                    if sender.send(Ok(proto::ClusterMap::from(&map))).await.is_err() {
                        return;
                    }
                }
                if maps.changed().await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }
}

async fn serve_stream(
    cluster: FakeCluster,
    node: NodeId,
    mut requests: Streaming<proto::ObserveRequest>,
    replies: mpsc::Sender<Result<proto::ObserveReply, Status>>,
) {
    let Ok(Some(first)) = requests.message().await else { return };
    let producer = accept_hello(&first).expect("a greeting");
    let (stream, inflight_batches_max) = {
        let mut state = lock(&cluster.state);
        state.streams += 1;
        (state.streams, state.credits)
    };
    let credit = Credit { node, incarnation: Incarnation(1), batch_events_max: 4096, inflight_batches_max };
    let _ = replies.send(Ok(welcome(&credit))).await;
    let unanswered = Arc::new(Mutex::new(0usize));
    while let Ok(Some(request)) = requests.message().await {
        let Some(observe_request::Message::Batch(batch)) = request.message else { panic!("a second greeting") };
        {
            let mut unanswered = lock(&unanswered);
            *unanswered += 1;
            let mut state = lock(&cluster.state);
            state.unanswered_max = state.unanswered_max.max(*unanswered);
        }
        let (reply, wait_ms) = match cluster.take(node, stream, producer, &batch) {
            Ok(reply) => reply,
            Err(true) => {
                let _ = replies.send(Err(Status::unavailable("broken by the test"))).await;
                return;
            }
            Err(false) => continue,
        };
        let message = proto::ObserveReply { message: Some(observe_reply::Message::Reply(reply)) };
        let (replies, unanswered) = (replies.clone(), unanswered.clone());
        let answer = async move {
            if wait_ms > 0 {
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            }
            *lock(&unanswered) -= 1;
            let _ = replies.send(Ok(message)).await;
        };
        if wait_ms == 0 { answer.await } else { drop(tokio::spawn(answer)) }
    }
}

impl FakeCluster {
    /// Returns the reply to a batch and the delay before it, or an error if the stream is to break instead.
    fn take(
        &self,
        node: NodeId,
        stream: u64,
        producer: u128,
        batch: &proto::Batch,
    ) -> Result<(proto::BatchReply, u64), bool> {
        let map = self.map();
        let reader = BatchReader::new(batch).expect("a header");
        let header = reader.header();
        let filter = &map.filters[&header.filter];
        let prober = Prober::new(&filter.definition).expect("a prober");
        let shape = BatchShape { probes: prober.shape(), groups: prober.groups() };
        let runs = reader.runs(shape, &mut Vec::new()).expect("runs");
        let arrival = Arrival {
            node,
            stream,
            sequence: header.sequence,
            filter: header.filter,
            operation: header.operation,
            runs,
            bytes: batch.encode_to_vec(),
        };
        let mut state = lock(&self.state);
        let fate = (state.judge)(&arrival, state.arrivals.len());
        state.arrivals.push(arrival.clone());
        if fate == Fate::Ignore {
            return Err(false);
        }
        if let Fate::Refuse(reason) = fate {
            return Ok((refusal(header.sequence, batch.events, reason, "the test refuses", map.version), 0));
        }
        let told: Vec<EventAnswer> =
            arrival.runs.iter().flat_map(|run| state.decide(producer, &arrival, run)).collect();
        let is_counted = matches!(arrival.operation, Operation::Count | Operation::Estimate);
        let is_claim = matches!(arrival.operation, Operation::Claim { .. });
        let answers = Answers::new(told.iter().map(|told| told.decision).collect())
            .with_estimates(told.iter().filter(|_| is_counted).map(|told| told.estimate).collect())
            .with_holds(told.iter().filter(|_| is_claim).map(|told| told.hold).collect())
            .with_clock(firstseen_wire::ticks::read_ms(state.clock_ms));
        let reply = reply::encode(header.sequence, &answers, map.version);
        match fate {
            Fate::LoseReply => Err(true),
            Fate::AnswerAfter(wait_ms) => Ok((reply, wait_ms)),
            _ => Ok((reply, 0)),
        }
    }
}

impl State {
    /// Decides the events of a run exactly. A retry of the same run gets the same reply.
    fn decide(&mut self, producer: u128, arrival: &Arrival, run: &OwnedRun) -> Vec<EventAnswer> {
        let name = (producer, arrival.sequence, run.group);
        if let Some(replies) = self.replies.get(&name) {
            return replies.clone();
        }
        let told: Vec<EventAnswer> = (0..run.probes.len()).map(|event| self.decide_one(arrival, run, event)).collect();
        self.replies.insert(name, told.clone());
        told
    }

    fn decide_one(&mut self, arrival: &Arrival, run: &OwnedRun, event: usize) -> EventAnswer {
        let probe = format!("{:?} {:?}", run.probes.positions(event), run.probes.block(event));
        let key = (arrival.filter, run.group, probe);
        let mut told = EventAnswer { decision: Decision::FirstSeen, estimate: 0.0, hold: Hold::None };
        let fence = run.fences.get(event).copied();
        match arrival.operation {
            Operation::Observe => {
                let name = run.names.get(event);
                if let Some(decision) = name.and_then(|name| self.named.get(name)) {
                    told.decision = *decision;
                    return told;
                }
                if !self.recorded.insert(key) {
                    told.decision = Decision::Duplicate;
                }
                if let Some(name) = name {
                    self.named.insert(*name, told.decision);
                }
            }
            Operation::Lookup if self.recorded.contains(&key) => told.decision = Decision::Duplicate,
            Operation::Count => {
                let count = self.counts.entry(key).or_default();
                *count += 1.0;
                told.estimate = *count;
            }
            Operation::Estimate => told.estimate = self.counts.get(&key).copied().unwrap_or_default(),
            Operation::Claim { .. } if self.recorded.contains(&key) => told.decision = Decision::Duplicate,
            Operation::Claim { lease_ms } if self.claims.contains_key(&key) => {
                told.decision = Decision::Undecided(Reason::Claimed);
                told.hold = Hold::Other { left_ms: lease_ms };
            }
            Operation::Claim { .. } => {
                self.claims_granted += 1;
                let fence = Fence::of_number(arrival.filter, Epoch::FIRST, self.claims_granted);
                self.claims.insert(key, fence);
                told.decision = Decision::Undecided(Reason::Claimed);
                told.hold = Hold::Own(fence);
            }
            Operation::Confirm if self.claims.get(&key).copied() == fence => {
                self.claims.remove(&key);
                self.recorded.insert(key);
            }
            Operation::Confirm if self.recorded.contains(&key) => told.decision = Decision::Duplicate,
            Operation::Confirm => told.decision = Decision::Undecided(Reason::Claimed),
            Operation::Release if self.claims.get(&key).copied() == fence => drop(self.claims.remove(&key)),
            Operation::Release => told.decision = Decision::Duplicate,
            _ => {}
        }
        told
    }
}

/// Sorts arrivals by sequence number.
pub fn by_sequence(arrivals: &[Arrival]) -> BTreeMap<u64, Vec<Arrival>> {
    let mut sorted: BTreeMap<u64, Vec<Arrival>> = BTreeMap::new();
    arrivals.iter().for_each(|arrival| sorted.entry(arrival.sequence).or_default().push(arrival.clone()));
    sorted
}

/// Runs the code of an example against a cluster of one fake node with four empty filters. The filter `clicks` stamps
/// events on arrival. Events of `visits` carry their own times. The filter `jobs` grants claims of up to 10 s, and
/// `words` counts frequencies.
///
/// # Panics
/// Panics if the example fails.
pub fn run(example: impl AsyncFnOnce(String) -> Result<(), Box<dyn Error>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let cluster = FakeCluster::of_examples().await;
        example(cluster.seed()).await.expect("the example runs");
    });
}

/// Runs a blocking example against the same cluster as [`run`].
///
/// # Panics
/// Panics if the example fails.
pub fn run_blocking(example: impl FnOnce(String) -> Result<(), Box<dyn Error>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let cluster = runtime.block_on(FakeCluster::of_examples());
    example(cluster.seed()).expect("the example runs");
}

impl FakeCluster {
    async fn of_examples() -> Self {
        let cluster = Self::start(1).await;
        cluster.add_filter("clicks", definition("1d", "none"), ClockSource::Wall);
        cluster.add_filter("visits", definition("1d", "none"), ClockSource::Event);
        let jobs = cluster.add_filter("jobs", definition("1d", "none"), ClockSource::Wall);
        let decaying = FrequencySpec::new("1d".parse().expect("an epoch"), 0.5).resolve().expect("a definition");
        let decaying = SlicedDefinition { group: decaying, slicing: Slicing::NONE };
        cluster.add_filter("words", decaying, ClockSource::Wall);
        cluster.change(|map| {
            if let Some(record) = map.filters.get_mut(&jobs) {
                record.policies.claim_lease_max_ms = NonZeroU32::new(10_000);
            }
        });
        cluster
    }
}
