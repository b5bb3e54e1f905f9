//! Helpers for tests with nodes on free ports in this process, and a producer that speaks the protocol without the
//! client library.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

pub mod calls;
pub mod certs;
pub mod cluster;
pub mod disks;
pub mod logs;
pub mod operator;
pub mod proxy;
pub mod tls_endpoints;
pub mod unfinished;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firstseen_filter::{FilterSecret, FilterSpec, Kind, ProbeShape, Probes, UnitNumber};
use firstseen_node::{Clock, Edges, Limits, Node, NodeConfig, Timing};
use firstseen_routing::{ClusterMap, Decision, FilterId, FilterRecord, NodeId, Operation, Prober, SlicedDefinition};
use firstseen_wire::batch::{self, BatchHeader, Run};
use firstseen_wire::hello;
use firstseen_wire::net::{self, Channel, Connector, TcpConnector};
use firstseen_wire::proto::{admin, producer};
use firstseen_wire::reply::{self, Reply};
use producer::{Batch, BatchReply, ObserveReply, ObserveRequest, observe_reply, observe_request};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// Maximum time that a test waits for any condition.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A node with its data folder.
pub struct TestNode {
    pub node: Node,
    config: NodeConfig,
    folder: tempfile::TempDir,
}

impl TestNode {
    /// Starts a node with these limits.
    pub async fn start(name: &str, limits: Limits) -> Self {
        Self::start_with(name, |config| config.limits = limits).await
    }

    /// Starts a node with a configuration that `change` has modified.
    pub async fn start_with(name: &str, change: impl FnOnce(&mut NodeConfig)) -> Self {
        let (folder, config) = Self::configured(name, change);
        Self::start_in(folder, config).await
    }

    /// Starts a node that never sends pings over its links, so that they carry only messages.
    pub async fn start_without_pings(name: &str) -> Self {
        Self::start_with(name, Self::without_pings).await
    }

    /// Disables pings in a configuration. All nodes of a cluster must have the same timing.
    pub fn without_pings(config: &mut NodeConfig) {
        config.timing.unreachable_after_ms = 3_600_000;
    }

    /// Starts a node that uses `clock`.
    pub async fn start_by(name: &str, clock: Arc<dyn Clock>) -> Self {
        Self::start_changed(name, |_| {}, |edges| edges.clock = clock).await
    }

    /// Starts a node whose configuration and edges are modified by the test.
    pub async fn start_changed(
        name: &str,
        change: impl FnOnce(&mut NodeConfig),
        change_edges: impl FnOnce(&mut Edges),
    ) -> Self {
        let (folder, config) = Self::configured(name, change);
        let mut edges = Edges::of_machine(&config).await.expect("the edges");
        change_edges(&mut edges);
        let node = Node::start(config.clone(), edges).await.expect("the node starts");
        Self { node, config, folder }
    }

    fn configured(name: &str, change: impl FnOnce(&mut NodeConfig)) -> (tempfile::TempDir, NodeConfig) {
        let folder = tempfile::tempdir().expect("a folder");
        let any = "127.0.0.1:0".parse().expect("an address");
        let mut config = NodeConfig {
            http_listen: Some(any),
            memory_max_bytes: 64 << 20,
            owners: Some(2),
            // These times are short enough for tests of outages, and long enough that a busy machine does not cause
            // outages.
            timing: Timing {
                heartbeat_ms: 100,
                election_base_ms: 500,
                election_width_ms: 100,
                unreachable_after_ms: 1_000,
                // All nodes use the clock of this machine.
                clock_skew_max_ms: 0,
                ..Timing::default()
            },
            ..NodeConfig::new(name, any, folder.path())
        };
        change(&mut config);
        (folder, config)
    }

    async fn start_in(folder: tempfile::TempDir, config: NodeConfig) -> Self {
        let edges = Edges::of_machine(&config).await.expect("the edges");
        let node = Node::start(config.clone(), edges).await.expect("the node starts");
        Self { node, config, folder }
    }

    /// Stops the node, and starts it again with its data folder on another port.
    pub async fn restart(self) -> Self {
        self.stop().await.start().await
    }

    /// Stops the node.
    pub async fn stop(self) -> StoppedNode {
        let Self { node, config, folder } = self;
        node.shutdown().await;
        StoppedNode { config, folder }
    }

    /// Waits until the node considers exactly these other nodes unreachable.
    pub async fn finds_unreachable(&self, others: &[NodeId]) {
        let others: Vec<u64> = others.iter().map(|node| node.0).collect();
        let waiting = async {
            // Each check is a separate request.
            while self.status().await.unreachable != others {}
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{others:?} are never unreachable"));
    }

    /// Waits until the cluster map lists exactly these nodes as down.
    pub async fn finds_down(&self, others: &[NodeId]) {
        let waiting = async {
            let is_so = |map: &ClusterMap| map.nodes.keys().filter(|node| map.is_down(**node)).eq(others);
            while !is_so(&self.map().await) {}
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{others:?} are never down"));
    }

    /// Returns the data folder of the node.
    pub fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }

    pub async fn status(&self) -> admin::StatusReply {
        self.admin().status(admin::StatusRequest::default()).await.expect("status").into_inner()
    }

    pub fn channel(&self) -> Channel {
        TcpConnector::default().channel(self.node.addr(), None).expect("an address")
    }

    pub fn admin(&self) -> admin::admin_client::AdminClient<Channel> {
        net::admin_client(self.channel())
    }

    pub async fn init(&self) {
        self.admin().init(admin::InitRequest {}).await.expect("init");
    }

    /// Adds `other` to the cluster, and waits until it is ready.
    pub async fn join(&self, other: &TestNode) -> u64 {
        let address = other.node.addr().to_owned();
        let request = admin::JoinRequest { command_id: vec![].into(), address };
        let node_id = self.admin().join(request).await.expect("join").into_inner().node_id;
        other.ready().await;
        node_id
    }

    /// Waits until the node is ready.
    pub async fn ready(&self) {
        wait_for("ready", || self.node.not_ready().is_none()).await;
    }

    /// Waits until the node acts on a cluster map with this filter and has its slices of the filter.
    pub async fn knows(&self, filter: &str) {
        let mut producer = net::producer_client(self.channel());
        let request = producer::DescribeFilterRequest { name: filter.to_owned() };
        let waiting = async {
            while producer.describe_filter(request.clone()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("it never knew {filter}"));
        self.ready().await;
    }

    pub async fn create(&self, name: &str, slicing: &str) -> FilterId {
        let spec = FilterSpec {
            capacity_events: Some(10_000),
            ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window"))
        };
        let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition");
        let reply = self.admin().create_filter(request_to_create(name, &definition)).await;
        let reply = reply.expect("create").into_inner();
        FilterId(reply.filter.expect("the filter").id)
    }

    /// Returns the newest cluster map, and first waits until this node acts on it. The wait is necessary because a node
    /// shows a new map in its status slightly before it acts on the map. Without the wait, the node could still decide
    /// the test's next events according to the previous map.
    pub async fn map(&self) -> ClusterMap {
        let map = ClusterMap::try_from(self.status().await.map.expect("a map")).expect("a map that can be read");
        self.acts_on(map.version).await;
        map
    }

    /// Waits until the node acts on this version of the cluster map or a newer one.
    pub async fn acts_on(&self, version: u64) {
        wait_for("a map counts", || self.node.map_version() >= version).await;
    }

    /// Returns a metric of the node: the value on the first line that begins with `name`.
    pub async fn metric(&self, name: &str) -> f64 {
        self.metric_if_any(name).await.unwrap_or_else(|| panic!("no {name}"))
    }

    /// Returns a metric of the node if it exists. Metrics with labels for filters or reasons appear with their first
    /// value.
    async fn metric_if_any(&self, name: &str) -> Option<f64> {
        // Metrics that were collected for another request may be up to one second old.
        let text = self.node.metrics().await;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{line}")))
    }

    /// Waits until a metric of the node is `value`.
    pub async fn metric_becomes(&self, name: &str, value: f64) {
        let waiting = async {
            // Each check is a separate request.
            while self.metric_if_any(name).await != Some(value) {}
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{name} never became {value}"));
    }

    pub async fn get(&self, path: &str) -> (u16, String) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let address = self.node.http_addr().expect("http");
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("connects");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("read");
        let (head, body) = text.split_once("\r\n\r\n").expect("a response");
        (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code"), body.to_owned())
    }
}

/// A stopped node with its data folder.
pub struct StoppedNode {
    config: NodeConfig,
    folder: tempfile::TempDir,
}

impl StoppedNode {
    /// Returns the data folder of the node.
    pub fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }

    /// Starts the node again on another port.
    pub async fn start(self) -> TestNode {
        TestNode::start_in(self.folder, self.config).await
    }
}

/// Waits until `is_so` returns `true`, or fails.
pub async fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited too long: {what}"));
}

/// Starts a cluster of three nodes.
pub async fn three_nodes() -> [TestNode; 3] {
    three_nodes_with(|_| {}).await
}

/// Starts a cluster of three nodes with configurations that `change` has modified.
pub async fn three_nodes_with(change: impl Fn(&mut NodeConfig)) -> [TestNode; 3] {
    let nodes = [
        TestNode::start_with("a", &change).await,
        TestNode::start_with("b", &change).await,
        TestNode::start_with("c", &change).await,
    ];
    nodes[0].init().await;
    nodes[0].join(&nodes[1]).await;
    nodes[0].join(&nodes[2]).await;
    nodes
}

/// Returns a request for a filter whose nodes choose the times of events and a random secret.
pub fn request_to_create(name: &str, definition: &SlicedDefinition) -> admin::CreateFilterRequest {
    admin::CreateFilterRequest {
        name: name.to_owned(),
        definition_json: firstseen_wire::map::definition_json(definition),
        clock: producer::ClockSource::Wall.into(),
        lookup: producer::Lookup::Pipelined.into(),
        answer: producer::AnswerWhen::Early.into(),
        // The retry horizon is longer than any test, however slow the machine is. After the horizon, a retry would
        // receive another reply.
        retry_horizon_ms: 600_000,
        ..Default::default()
    }
}

/// A stream whose messages the test writes itself.
pub struct RawStream {
    pub requests: mpsc::Sender<ObserveRequest>,
    pub replies: Streaming<ObserveReply>,
}

impl RawStream {
    /// Opens a stream whose first message is `first`.
    pub async fn open(node: &TestNode, first: ObserveRequest) -> Self {
        Self::over(node.channel(), first).await
    }

    /// Opens a stream on a channel that may have other streams.
    pub async fn over(channel: Channel, first: ObserveRequest) -> Self {
        let (requests, outbound) = mpsc::channel(1024);
        requests.send(first).await.expect("room");
        // The limits of the client library are not used, because the limits of the node are tested.
        let mut client = producer::producer_client::ProducerClient::new(channel);
        let replies = client.observe(ReceiverStream::new(outbound)).await.expect("a stream").into_inner();
        Self { requests, replies }
    }

    /// Opens a stream, and receives the welcome message.
    pub async fn greeted(node: &TestNode, producer: u128) -> (Self, hello::Credit) {
        Self::greeted_over(node.channel(), producer).await
    }

    /// Opens a stream on a channel that may have other streams, and receives the welcome message.
    pub async fn greeted_over(channel: Channel, producer: u128) -> (Self, hello::Credit) {
        let mut stream = Self::over(channel, hello::hello(producer)).await;
        let welcome = stream.next().await.expect("no status").expect("a welcome");
        (stream, hello::accept_welcome(&welcome).expect("a welcome"))
    }

    pub async fn next(&mut self) -> Result<Option<ObserveReply>, Status> {
        tokio::time::timeout(PATIENCE, self.replies.message()).await.expect("a message in time")
    }

    pub async fn send(&self, batch: Batch) {
        let request = ObserveRequest { message: Some(observe_request::Message::Batch(batch)) };
        self.requests.send(request).await.expect("the stream is open");
    }

    /// Sends a batch and waits for its reply.
    pub async fn ask(&mut self, batch: Batch) -> BatchReply {
        let sequence = batch.sequence;
        self.send(batch).await;
        let reply = self.next().await.expect("no status").expect("a reply");
        match reply.message {
            Some(observe_reply::Message::Reply(reply)) if reply.sequence == sequence => reply,
            other => panic!("not the reply to {sequence}: {other:?}"),
        }
    }

    /// Returns the status that ends the stream, and skips all replies before it.
    pub async fn end(&mut self) -> Status {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the stream ended well"),
                Err(status) => return status,
            }
        }
    }
}

/// The information that a producer needs to hash and pack the events of a filter.
pub struct Hashing {
    pub id: FilterId,
    pub record: FilterRecord,
    pub map: ClusterMap,
    prober: Prober,
    secret: FilterSecret,
}

impl Hashing {
    pub async fn of(node: &TestNode, name: &str) -> Self {
        Self::with(node, name, FilterSecret::from_seed(7)).await
    }

    /// Creates this information for a producer that hashes with `secret`.
    pub async fn with(node: &TestNode, name: &str, secret: FilterSecret) -> Self {
        let map = node.map().await;
        let (id, record) = map.filter_named(name).expect("the filter");
        let prober = Prober::new(&record.definition).expect("a prober");
        Self { id, record: record.clone(), prober, secret, map }
    }

    /// Returns the shape in which events are packed.
    pub fn shape(&self) -> ProbeShape {
        self.prober.shape()
    }

    /// Divides events into batches, one for each head node (the node that decides an event). Each batch contains the
    /// events that its node decides. Nodes that decide none of the events get no batch.
    ///
    /// The result is ordered by node. Each element contains the node, the indexes in `events` of the events in the
    /// batch, and the batch itself.
    pub fn batches(&self, sequence: u64, events: &[&str]) -> Vec<(NodeId, Vec<usize>, Batch)> {
        let mut heads: std::collections::BTreeMap<NodeId, std::collections::BTreeMap<u32, (Probes, Vec<usize>)>> =
            std::collections::BTreeMap::new();
        for (index, event) in events.iter().enumerate() {
            let digest = self.secret.digest(event.as_bytes());
            let group = self.prober.group(digest);
            let mut probe = Probes::new(self.prober.shape());
            self.prober.push(digest, &mut probe);
            let slice = self.prober.head_slice(group, &probe, 0);
            let node = self.record.owners[slice as usize].node;
            let empty = || (Probes::new(self.prober.shape()), Vec::new());
            let (probes, indexes) = heads.entry(node).or_default().entry(group).or_insert_with(empty);
            self.prober.push(digest, probes);
            indexes.push(index);
        }
        let mut batches = Vec::new();
        for (number, (node, groups)) in (0..).zip(heads) {
            let runs: Vec<Run<'_>> = groups.iter().map(|(group, (probes, _))| run(*group, probes)).collect();
            let indexes = groups.values().flat_map(|(_, indexes)| indexes.iter().copied()).collect();
            let batch = batch::encode(&self.header(sequence + number, node), &runs).expect("a batch");
            batches.push((node, indexes, batch));
        }
        batches
    }

    fn header(&self, sequence: u64, node: NodeId) -> BatchHeader {
        BatchHeader {
            sequence,
            filter: self.id,
            epoch: self.record.epoch,
            incarnation: self.map.nodes[&node].incarnation,
            operation: Operation::Observe,
            ttl_ms: None,
            deadline_in_ms: 30_000,
            base_unit: UnitNumber::FIRST,
            clock_ms: None,
            traceparent: String::new(),
            from: None,
            again: false,
        }
    }

    /// Returns the only batch of these events, for filters with one slice.
    pub fn batch(&self, sequence: u64, events: &[&str]) -> Batch {
        self.batches(sequence, events).remove(0).2
    }

    /// Sends `events` over `stream`, and returns their verdicts. The events may belong to slices of several nodes.
    pub async fn observe(&self, stream: &mut RawStream, sequence: u64, events: &[&str]) -> Vec<Decision> {
        let mut decisions = vec![None; events.len()];
        for (_, indexes, batch) in self.batches(sequence, events) {
            let reply = stream.ask(batch).await;
            let Reply { answers, detail, .. } = reply::decode(&reply, indexes.len()).expect("answers");
            assert_eq!(detail, "", "refused: {answers:?}");
            indexes.iter().zip(answers.decisions()).for_each(|(index, decision)| decisions[*index] = Some(*decision));
        }
        decisions.into_iter().map(|decision| decision.expect("every event is answered")).collect()
    }
}

fn run(group: u32, probes: &Probes) -> Run<'_> {
    Run { group, probes, range: 0..probes.len(), ticks: &[], names: &[], fences: &[] }
}
