//! The nodes of a simulated cluster, and the operator who sets the cluster up. The nodes run the production code. Only
//! the disk, the network and the clock of each node are simulated.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firstseen_filter::{Ability, FilterSpec, Kind, Layout, Window};
use firstseen_journal::{Disk, MemoryDisk};
use firstseen_meta::{MetaStorage, RESERVE_FILE};
use firstseen_node::{Edges, NoLastTime, Node, NodeConfig, OwnerSpawner, RedisListener, Timing};
use firstseen_routing::{
    ClockSource, ClusterMap, FilterId, FilterRecord, Incarnation, NodeId, SliceMove, SliceOwner, SlicedDefinition,
    Slicing,
};
use firstseen_wire::map::{clock_message, durability_message, when_lost_message};
use firstseen_wire::net::{Channel, Connector, admin_client};
use firstseen_wire::proto::{admin, producer};
use firstseen_wire::tree::encode;
use turmoil::net::TcpListener;

use crate::acted_on::Acting;
use crate::alteration::CAPACITY_EVENTS;
use crate::clock::{CLOCK_SKEW_MS_MAX, KeptTime, NodeClock, now_us};
use crate::endpoint_use::{DOOR_PORT, settings};
use crate::full_disk::FullDisk;
use crate::kind_name::kind_of;
use crate::net::{SimConnector, incoming};
use crate::principals;
use crate::scenario::Scenario;
use crate::tree::site_name;
use crate::views::Views;

/// Name of the filter in every run.
pub const FILTER: &str = "clicks";
/// Time after which copies that lack events have fetched them.
const CATCH_UP_MAX: Duration = Duration::from_secs(20);
const RATE: f64 = 1e-9;
/// Error rate for the longest fingerprints, which have 32 bits.
const CUCKOO_RATE: f64 = 1e-8;
pub(crate) const PORT: u16 = 7400;
/// Bytes of a journal file. A file only has room for a few records, so that there are several files.
const SEGMENT_BYTES: u32 = 256 << 10;
/// Pause between two tries of the operator.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum time that one node may take to reply to a request for its status.
const STATUS_MAX: Duration = Duration::from_secs(1);
/// Maximum time that forgiving a filter may take, because the nodes wait for leases.
const FORGIVE_MAX: Duration = Duration::from_secs(10);
/// Number of times that all nodes are asked in turn.
const STATUS_TRIES: usize = 20;
/// Number of owner threads of a node. It does not depend on the number of cores of this machine.
const OWNERS: usize = 2;

/// Returns the name of node `index`.
pub fn node_name(index: usize) -> String {
    format!("node-{index}")
}

/// Returns the address of node `index`.
pub fn node_address(index: usize) -> String {
    format!("{}:{PORT}", node_name(index))
}

/// State of a node's machine, which outlives its processes.
#[derive(Clone)]
pub struct Machine {
    /// The directory of the consensus log.
    pub agreement: MemoryDisk,
    /// The directory of the journal of the node's slices, on the same disk.
    pub journal: MemoryDisk,
    /// The clock of the machine.
    pub clock: NodeClock,
    kept_time: KeptTime,
    views: Views,
    acting: Acting,
    damage: Arc<Damage>,
    ready: Arc<AtomicU64>,
    stop: Arc<Stop>,
    full: Arc<Mutex<FullDisk>>,
}

/// Interval at which a node is asked whether it is ready, and for its view.
const READY_LOOK: Duration = Duration::from_millis(20);

/// A stop of the node's process that an operator requests.
#[derive(Default)]
struct Stop {
    is_asked: AtomicBool,
    has_ended: AtomicBool,
}

#[derive(Default)]
struct Damage {
    is_expected: AtomicBool,
    is_refused: AtomicBool,
}

impl Default for Machine {
    fn default() -> Self {
        let agreement = MemoryDisk::default();
        Self {
            journal: agreement.beside(),
            agreement,
            clock: NodeClock::default(),
            kept_time: KeptTime::default(),
            views: Views::default(),
            acting: Acting::default(),
            ready: Default::default(),
            stop: Arc::default(),
            damage: Arc::default(),
            full: Arc::default(),
        }
    }
}

impl Machine {
    /// Creates a machine whose node records its views in `views`, and the rights that it acts on in `acting`.
    pub(crate) fn seen_by(views: &Views, acting: &Acting) -> Self {
        Self { views: views.clone(), acting: acting.clone(), ..Self::default() }
    }

    /// Fills the disk. From now on, the files in the directories of the journal and of the consensus log may grow by
    /// `room_bytes` bytes in total. If `takes_reserve` is set, another program has also used the disk space that was
    /// reserved for the consensus log.
    pub fn fill(&self, room_bytes: u64, takes_reserve: bool) {
        if takes_reserve {
            // The file does not exist if the node has already released the reserve.
            self.agreement.remove(RESERVE_FILE).ok();
        }
        self.journal.set_room_bytes(Some(room_bytes));
        self.full_disk().fill(now_us());
    }

    /// Returns whether files may only grow by a limited number of bytes.
    pub fn is_full(&self) -> bool {
        self.journal.has_limited_room()
    }

    /// Makes room on the disk again.
    pub fn make_room(&self) {
        self.journal.set_room_bytes(None);
    }

    fn full_disk(&self) -> MutexGuard<'_, FullDisk> {
        self.full.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the node's process ends at `now_us`, and returns what the node may have lost.
    ///
    /// The node loses data if the disk is full, or if it has room again but has not yet written all data that waited
    /// for it. In these cases, the function returns the time since which data has waited, and the cluster maps that the
    /// node has used since then. Returns `None` if no data is lost.
    pub(crate) fn lose_process(&self, now_us: u64) -> Option<(u64, Vec<Arc<ClusterMap>>)> {
        self.full_disk().lose_process(now_us, self.is_full())
    }

    /// Cuts the power of the node. A sector that was not synced before the power cut may or may not have reached the
    /// disk. The callback `survives` decides this for each such sector.
    ///
    /// Returns two flags, one for the journal and one for the consensus log. A flag is `true` if some of the unsynced
    /// sectors of the file survived and others did not, which can damage the file.
    pub fn cut_power(&self, mut survives: impl FnMut() -> bool) -> (bool, bool) {
        let is_journal_torn = cut_power(&self.journal, &mut survives);
        let is_agreement_torn = cut_power(&self.agreement, &mut survives);
        (is_journal_torn, is_agreement_torn)
    }

    /// Sets whether the journal may be damaged from now on, so that a node may refuse to start.
    pub fn expect_damage(&self, is_expected: bool) {
        self.damage.is_expected.store(is_expected, Ordering::Relaxed);
        self.damage.is_refused.store(false, Ordering::Relaxed);
    }

    /// Returns whether a node has refused to start because of damage that was to be expected.
    pub fn has_refused(&self) -> bool {
        self.damage.is_refused.load(Ordering::Relaxed)
    }

    /// Returns the version of the map by which the node's present start last reported that it is ready.
    pub fn ready_by(&self) -> Option<u64> {
        Some(self.ready.load(Ordering::Relaxed)).filter(|version| *version > 0)
    }

    /// Asks the node to stop.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.has_ended.store(false, Ordering::Relaxed);
        self.stop.is_asked.store(true, Ordering::Relaxed);
    }

    /// Returns whether the node has stopped since it was last asked to.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stop.has_ended.load(Ordering::Relaxed)
    }

    /// Repeatedly records whether node `index` is ready, its view, and whether its disk has taken all data, until the
    /// node is asked to stop.
    async fn watch(&self, index: usize, node: &Node) {
        let mut version_noted = 0;
        let mut noted_us = now_us();
        let mut acting = self.acting.of_process(index);
        while !self.stop.is_asked.load(Ordering::Relaxed) {
            let version = node.map_version();
            let is_ready = node.not_ready().is_none() && node.map_version() == version;
            self.ready.store(if is_ready { version } else { 0 }, Ordering::Relaxed);
            let map = node.meta().map().borrow().clone();
            if version == map.version {
                acting.look(&map, FILTER);
                if version != version_noted {
                    self.views.note(index, noted_us, &map);
                    self.full_disk().acts_on(map);
                }
                version_noted = version;
                noted_us = now_us();
            }
            if !self.is_full() && !node.awaits_disk() {
                self.full_disk().has_taken_all();
            }
            tokio::time::sleep(READY_LOOK).await;
        }
    }

    fn refuse(&self) -> bool {
        let is_expected = self.damage.is_expected.load(Ordering::Relaxed);
        self.damage.is_refused.store(is_expected, Ordering::Relaxed);
        is_expected
    }
}

/// Cuts the power of a disk. Returns whether some of the sectors that were not synced are on the medium and others are
/// not.
fn cut_power(disk: &MemoryDisk, survives: &mut impl FnMut() -> bool) -> bool {
    let mut kept = 0;
    let mut lost = 0;
    disk.cut_power(|| {
        let survives = survives();
        *(if survives { &mut kept } else { &mut lost }) += 1;
        survives
    });
    kept > 0 && lost > 0
}

/// Runs start number `start` of a node of `scenario`, until the simulation ends it.
pub async fn run_node(
    index: usize,
    start: u64,
    scenario: Scenario,
    machine: Machine,
    connector: SimConnector,
) -> turmoil::Result {
    machine.ready.store(0, Ordering::Relaxed);
    machine.stop.is_asked.store(false, Ordering::Relaxed);
    let node = match start_node(index, start, &scenario, &machine, connector).await {
        // The simulation ends the host as soon as its power has failed, even in the middle of a start.
        Err(_) if machine.agreement.has_lost_power() || machine.refuse() => return std::future::pending().await,
        started => started?,
    };
    // Without this branch, a panic of an owner would only end its own task.
    tokio::select! {
        biased;
        failure = node.failure() => {
            return if machine.agreement.has_lost_power() { std::future::pending().await } else { Err(failure.into()) };
        }
        () = machine.watch(index, &node) => {}
    }
    machine.ready.store(0, Ordering::Relaxed);
    node.shutdown().await;
    machine.stop.has_ended.store(true, Ordering::Relaxed);
    // The operator ends the process, so that its connections are closed in an order that the seed determines.
    std::future::pending().await
}

/// Starts a node of `scenario` for the `start`th time.
///
/// # Errors
/// Returns the errors of the node.
pub(crate) async fn start_node(
    index: usize,
    start: u64,
    scenario: &Scenario,
    machine: &Machine,
    connector: SimConnector,
) -> turmoil::Result<Node> {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    let endpoint = match scenario.endpoints {
        Some(_) => Some(TcpListener::bind(("0.0.0.0", DOOR_PORT)).await?),
        None => None,
    };
    let whose = if scenario.rights { principals::whose } else { |_| None };
    let plain = NodeConfig::new(&node_name(index), ([0, 0, 0, 0], PORT).into(), "unused");
    let config = NodeConfig {
        advertise: Some(node_address(index)),
        insecure: true,
        memory_max_bytes: 64 << 20,
        owners: Some(OWNERS),
        site: if scenario.tree.is_some() { site_name(index) } else { plain.site.clone() },
        redis: scenario.endpoints.map(|endpoint_use| settings(endpoint_use, FILTER)).transpose()?,
        timing: Timing { lease_ms: scenario.lease_ms, ..plain.timing.clone() },
        ..plain
    };
    let edges = Edges {
        incoming: incoming(listener, connector.clone(), whose),
        address: node_address(index),
        http: None,
        http_api: None,
        redis: endpoint.map(|endpoint| RedisListener::Simulated(incoming(endpoint, connector.clone(), whose))),
        connector: Arc::new(connector),
        tls: None,
        audit: None,
        clock: Arc::new(machine.clock.clone()),
        owners: OwnerSpawner::Tasks,
        owner_limits: scenario.owner_limits,
        storage: MetaStorage::Memory(machine.agreement.clone()),
        journal: Arc::new(machine.journal.clone()),
        journal_segment_bytes: SEGMENT_BYTES,
        kept_files: None,
        last_time: if scenario.nodes == 1 { Arc::new(machine.kept_time.clone()) } else { Arc::new(NoLastTime) },
        seed: scenario.seed ^ index as u64 ^ start << 32,
    };
    Ok(Node::start(config, edges).await?)
}

/// Forms the cluster, creates the filter, and returns the map.
pub async fn set_up(scenario: &Scenario, connector: &SimConnector) -> turmoil::Result<ClusterMap> {
    let mut first = form(scenario.nodes, connector).await?;
    let awaits_all = scenario.tree.is_some() || scenario.copies > 0 || scenario.moves;
    while awaits_all && !have_started(&map(&mut first).await?, scenario.nodes) {
        tokio::time::sleep(PAUSE).await;
    }
    let request = create(scenario)?;
    retry(&mut first, |mut client| {
        let request = request.clone();
        async move { client.create_filter(request).await }
    })
    .await?;
    map(&mut first).await
}

/// Forms the cluster, and returns a client of the first node's admin endpoint.
pub(crate) async fn form(nodes: usize, connector: &SimConnector) -> turmoil::Result<Admin> {
    let mut first = admin_client(connector.channel(&node_address(0), None)?);
    retry(&mut first, |mut client| async move { client.init(admin::InitRequest {}).await }).await?;
    for index in 1..nodes {
        let request = admin::JoinRequest { command_id: vec![index as u8; 16].into(), address: node_address(index) };
        retry(&mut first, |mut client| {
            let request = request.clone();
            async move { client.join(request).await }
        })
        .await?;
    }
    Ok(first)
}

/// Returns the status of the cluster from the first node that replies.
///
/// # Errors
/// Returns an error if no node replies for a long time.
pub async fn status(connector: &SimConnector, nodes: usize) -> turmoil::Result<(ClusterMap, Option<NodeId>)> {
    for attempt in 0..STATUS_TRIES * nodes {
        let mut client = admin_client(connector.channel(&node_address(attempt % nodes), None)?);
        let asked = tokio::time::timeout(STATUS_MAX, client.status(admin::StatusRequest::default())).await;
        if let Ok(Ok(reply)) = asked {
            let reply = reply.into_inner();
            let leader = (reply.leader > 0).then_some(NodeId(reply.leader));
            return Ok((ClusterMap::try_from(reply.map.ok_or("no map")?)?, leader));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err("no node returned the cluster map".into())
}

/// Returns the map from the first node that replies.
///
/// # Errors
/// Returns an error if no node replies for a long time.
pub async fn map_now(connector: &SimConnector, nodes: usize) -> turmoil::Result<ClusterMap> {
    Ok(status(connector, nodes).await?.0)
}

pub(crate) async fn map(first: &mut Admin) -> turmoil::Result<ClusterMap> {
    let status = retry(first, |mut client| async move { client.status(admin::StatusRequest::default()).await }).await?;
    Ok(ClusterMap::try_from(status.into_inner().map.ok_or("no map")?)?)
}

/// Asks the cluster to move a copy of a slice. Returns whether it moves.
pub(crate) async fn begin_move(connector: &SimConnector, asked: usize, filter: FilterId, way: SliceMove) -> bool {
    let Ok(channel) = connector.channel(&node_address(asked), None) else { return false };
    let way = admin::SliceMove { slice: way.slice, from_node: way.from.0, to_node: way.to.0 };
    let request = admin::MoveSlicesRequest { filter_id: filter.0, moves: vec![way], ..Default::default() };
    let begun = tokio::time::timeout(STATUS_MAX, admin_client(channel).move_slices(request)).await;
    begun.is_ok_and(|begun| begun.is_ok())
}

/// Asks the cluster to forgive the filter's losses. Returns whether it has.
pub(crate) async fn forgive(connector: &SimConnector, asked: usize) -> bool {
    let Ok(channel) = connector.channel(&node_address(asked), None) else { return false };
    let request = admin::ForgiveFilterRequest { name: FILTER.to_owned(), ..Default::default() };
    let forgiven = async {
        while admin_client(channel.clone()).forgive_filter(request.clone()).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(FORGIVE_MAX, forgiven).await.is_ok()
}

/// Waits until every copy has the cells that another copy has. Returns the slices whose copies are not complete in
/// time.
pub async fn lagging(connector: &SimConnector, nodes: usize) -> turmoil::Result<Vec<u32>> {
    let end = tokio::time::Instant::now() + CATCH_UP_MAX;
    loop {
        let map = map_now(connector, nodes).await?;
        let (_, record) = map.filter_named(FILTER).ok_or("no filter")?;
        let lagging: Vec<u32> = lagging_copies(&map, record).map(|(slice, _)| slice).collect();
        if lagging.is_empty() || tokio::time::Instant::now() > end {
            return Ok(lagging);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the copies that lack cells which another copy has, with their slices.
pub(crate) fn lagging_copies<'a>(
    map: &'a ClusterMap,
    record: &'a FilterRecord,
) -> impl Iterator<Item = (u32, &'a SliceOwner)> {
    record.all_copies().filter(|(slice, copy)| map.is_complete(record, *slice) && !map.is_complete_copy(copy))
}

/// Returns whether the map contains a start of every node. A site without a started node can hold no level of a tree
/// and no copy.
pub(crate) fn have_started(map: &ClusterMap, nodes: usize) -> bool {
    let started = map.nodes.values().filter(|node| node.incarnation != Incarnation::default());
    started.count() == nodes
}

/// Returns the material of the filter's secret.
pub(crate) fn secret(scenario: &Scenario) -> Vec<u8> {
    scenario.seed.to_le_bytes().repeat(4)
}

/// Returns the filter to which events are sent, and its predecessor while that exists.
pub(crate) fn line(map: &ClusterMap) -> impl Iterator<Item = (FilterId, &FilterRecord)> {
    let last = map.filter_named(FILTER);
    last.into_iter().chain(last.and_then(|(filter, _)| map.former_of(filter)))
}

/// Returns the definition of the scenario's filter.
pub fn definition(scenario: &Scenario) -> Result<SlicedDefinition, Box<dyn std::error::Error>> {
    define(scenario, (scenario.kind, scenario.slicing), CAPACITY_EVENTS)
}

/// Returns the definition of the scenario's filter, with this kind and slicing and for this number of events.
pub(crate) fn define(
    scenario: &Scenario,
    (kind, slicing): (&str, &str),
    capacity_events: u64,
) -> Result<SlicedDefinition, Box<dyn std::error::Error>> {
    let kind = kind_of(kind);
    let window = if kind == Kind::Bloom { "unbounded".to_owned() } else { format!("{}ms", scenario.window_ms) };
    let window: Window = window.parse()?;
    let lateness_ms = (kind != Kind::Bloom).then_some(scenario.lateness_ms);
    let spec = FilterSpec {
        capacity_events: Some(capacity_events),
        rate: if kind == Kind::Cuckoo { CUCKOO_RATE } else { RATE },
        lateness_ms,
        clock_skew_ms: if scenario.clock == ClockSource::Wall { CLOCK_SKEW_MS_MAX } else { 0 },
        layout: scenario.tree.as_ref().filter(|_| kind.can(Ability::Divide)).map(|_| Layout::Classic),
        ..FilterSpec::new(kind, window)
    };
    let slicing: Slicing = slicing.parse()?;
    Ok(SlicedDefinition::new(&spec, slicing)?)
}

/// Returns the request that creates the scenario's filter.
pub(crate) fn create(scenario: &Scenario) -> Result<admin::CreateFilterRequest, Box<dyn std::error::Error>> {
    let lookup = if scenario.parallel { producer::Lookup::Parallel } else { producer::Lookup::Pipelined };
    let answer = if scenario.safe { producer::AnswerWhen::Safe } else { producer::AnswerWhen::Early };
    Ok(admin::CreateFilterRequest {
        command_id: vec![0xC0; 16].into(),
        name: FILTER.to_owned(),
        definition_json: serde_json::to_string(&definition(scenario)?)?,
        clock: clock_message(scenario.clock).into(),
        lookup: lookup.into(),
        answer: answer.into(),
        retry_horizon_ms: scenario.retry_horizon_ms,
        secret: secret(scenario).into(),
        if_absent: true,
        tree: scenario.tree.as_ref().map(|tree| encode(&tree.spec())),
        durability: durability_message(scenario.durability).0.into(),
        durability_interval_ms: durability_message(scenario.durability).1,
        min_live: 0,
        set_min: 0,
        when_lost: when_lost_message(scenario.when_lost).into(),
        copies: scenario.copies,
        lease_max_ms: scenario.lease_max_ms.unwrap_or(0),
    })
}

pub(crate) type Admin = admin::admin_client::AdminClient<Channel>;

/// Tries until a request succeeds, because nodes need a moment to start.
pub(crate) async fn retry<T, F, A>(client: &mut Admin, mut attempt: A) -> turmoil::Result<T>
where
    F: Future<Output = Result<T, tonic::Status>>,
    A: FnMut(Admin) -> F,
{
    let mut last = None;
    for _ in 0..50 {
        match attempt(client.clone()).await {
            Ok(answer) => return Ok(answer),
            Err(status) => last = Some(status),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(last.map_or_else(|| "never tried".into(), |status| status.to_string().into()))
}
