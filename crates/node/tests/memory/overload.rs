//! Tests an owner thread that receives three times as many events as it can process. The owner must reject the excess
//! events without setting any of their cells. The test sends events at fixed times that do not depend on replies (an
//! open loop), so a slow owner does not slow the test down. The rate of the owner is limited by a setting for tests.
//! The default is a rate that a debug build can sustain on a busy machine.
//!
//! The following command runs the test with a realistic rate: `FIRSTSEEN_TEST_OWNER_CAP=200000 cargo test -p
//! firstseen-node --release --test memory overload`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{self, Hashing, RawStream, TestNode};
use crate::{ALONE, resident_bytes};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_node::Limits;
use firstseen_routing::{ClockSource, Decision, FilterPolicies, Reason, SlicedDefinition, Slicing};
use firstseen_wire::hello::Credit;
use firstseen_wire::proto::admin;
use firstseen_wire::proto::producer::{Batch, ObserveReply, ObserveRequest, Operation, observe_reply, observe_request};
use firstseen_wire::reply;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

/// Maximum rate of the owner in events per second.
const CAP: u64 = 20_000;
/// The load, as a multiple of the maximum rate.
const LOAD: u64 = 3;
const SECONDS: u64 = 2;
const BATCH_EVENTS: u64 = 1000;
/// Number of streams that share the load, so that credit does not limit it.
const STREAMS: usize = 4;
/// Maximum growth of the test process under load, in bytes. The growth includes 24 MiB for the cells of the filter and
/// a few hundred bytes for each queued event. It also includes the buffers of the client, the node and their sockets,
/// because all of them are in this process.
const GROWTH_BYTES_MAX: u64 = 96 << 20;

fn cap() -> u64 {
    std::env::var("FIRSTSEEN_TEST_OWNER_CAP").map_or(CAP, |cap| cap.parse().expect("events a second"))
}

/// Returns the maximum number of queued events, which is two thirds of the events of one second.
fn queue_events_max(cap: u64) -> u64 {
    cap * 2 / 3
}

/// The replies on all streams.
#[derive(Default)]
struct Replies {
    /// Batches that were recorded entirely, and batches that were rejected entirely.
    taken: BTreeSet<u64>,
    refused: BTreeSet<u64>,
}

/// The receiving end of a stream. It returns credit, and passes on each reply.
async fn receive(
    mut replies: Streaming<ObserveReply>,
    credit: Arc<Semaphore>,
    verdicts: mpsc::Sender<(u64, Decision)>,
    awaited: Arc<AtomicU64>,
) {
    while let Ok(Some(reply)) = replies.message().await {
        let Some(observe_reply::Message::Reply(reply)) = reply.message else { panic!("{reply:?}") };
        let answers = reply::decode(&reply, BATCH_EVENTS as usize).expect("answers").answers;
        let first = answers.decisions()[0];
        assert!(answers.decisions().iter().all(|decision| *decision == first), "a batch of one group gets one verdict");
        credit.add_permits(1);
        awaited.fetch_sub(1, Ordering::Relaxed);
        verdicts.send((reply.sequence, first)).await.expect("somebody listens");
    }
}

/// The sending end of a stream.
struct RedisEndpoint {
    requests: mpsc::Sender<ObserveRequest>,
    credit: Arc<Semaphore>,
}

/// Streams to one node, and the replies on all of them.
struct Endpoints {
    endpoints: Vec<RedisEndpoint>,
    verdicts: mpsc::Receiver<(u64, Decision)>,
    awaited: Arc<AtomicU64>,
}

impl Endpoints {
    async fn open(node: &TestNode) -> Self {
        let (sender, verdicts) = mpsc::channel(1 << 14);
        let awaited = Arc::new(AtomicU64::new(0));
        let mut endpoints = Vec::new();
        for producer in 1..=STREAMS as u128 {
            let (RawStream { requests, replies }, Credit { inflight_batches_max, .. }) =
                RawStream::greeted(node, producer).await;
            let credit = Arc::new(Semaphore::new(inflight_batches_max as usize));
            tokio::spawn(receive(replies, credit.clone(), sender.clone(), awaited.clone()));
            endpoints.push(RedisEndpoint { requests, credit });
        }
        Self { endpoints, verdicts, awaited }
    }

    /// Sends a batch on a stream with credit. If no stream has credit, this method waits for it.
    async fn send(&self, batch: Batch) {
        let start = batch.sequence as usize;
        let free = (0..self.endpoints.len()).map(|offset| &self.endpoints[(start + offset) % self.endpoints.len()]);
        let free = free.into_iter().find(|endpoint| endpoint.credit.available_permits() > 0);
        let endpoint = free.unwrap_or(&self.endpoints[start % self.endpoints.len()]);
        endpoint.credit.acquire().await.expect("open").forget();
        self.awaited.fetch_add(1, Ordering::Relaxed);
        let message = Some(observe_request::Message::Batch(batch));
        endpoint.requests.send(ObserveRequest { message }).await.expect("the stream is open");
    }

    /// Returns the verdicts on `batches` batches.
    async fn take(&mut self, batches: usize) -> Vec<(u64, Decision)> {
        let mut all = Vec::with_capacity(batches);
        while all.len() < batches {
            let next = tokio::time::timeout(common::PATIENCE, self.verdicts.recv()).await.expect("an answer in time");
            all.push(next.expect("streams are open"));
        }
        all
    }
}

/// Starts a node whose owner is limited to `cap` events per second, with a queue of [`queue_events_max`] events.
async fn slow_node(cap: u64) -> TestNode {
    let node = TestNode::start_with("a", |config| {
        config.limits = Limits { queue_events_max: queue_events_max(cap), ..Limits::default() };
        config.owner_rate_max_events_per_s = Some(cap);
    })
    .await;
    node.init().await;
    node
}

/// Creates a filter that is practically free of false positives, so that the test can tell recorded events from
/// rejected events by looking them up. The filter has so many cells that only 10^-4 false positives are expected in the
/// whole run.
async fn create_roomy(node: &TestNode) {
    let window = "unbounded".parse().expect("a window");
    let spec = FilterSpec { cells: Some(192 << 20), hashes: Some(6), ..FilterSpec::new(Kind::Bloom, window) };
    let definition = SlicedDefinition::new(&spec, Slicing::NONE).expect("a definition");
    let policies = FilterPolicies { clock: ClockSource::Wall, ..FilterPolicies::default() };
    common::cluster::create_at(node, "clicks", &definition, policies).await;
}

/// Observes the node under load. Returns the maximum length of the queue and the maximum memory.
async fn watch(node: Arc<TestNode>, over: CancellationToken) -> (u64, u64) {
    let (mut queued, mut resident) = (0, 0);
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    while over.run_until_cancelled(looks.tick()).await.is_some() {
        let text = node.node.metrics().await;
        let line = text.lines().find_map(|line| line.strip_prefix("firstseen_queue_events ")).expect("a gauge");
        queued = queued.max(line.parse::<u64>().expect("a number"));
        resident = resident.max(resident_bytes());
    }
    (queued, resident)
}

/// Sends each batch at its time, regardless of the replies. Returns how long that took.
async fn open_loop(endpoints: &Endpoints, batches: &[Batch], events_per_s: u64) -> Duration {
    let started = Instant::now();
    for (number, batch) in (0u64..).zip(batches) {
        let at = started + Duration::from_micros(number * BATCH_EVENTS * 1_000_000 / events_per_s);
        tokio::time::sleep_until(at).await;
        endpoints.send(batch.clone()).await;
    }
    started.elapsed()
}

async fn recorded_events(node: &TestNode) -> u64 {
    let request = admin::InspectFilterRequest { name: "clicks".to_owned() };
    let state = node.admin().inspect_filter(request).await.expect("inspected").into_inner();
    state.slices.iter().map(|slice| slice.record_visits).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_times_what_an_owner_takes() {
    let _alone = ALONE.lock().await;
    let cap = cap();
    let node = Arc::new(slow_node(cap).await);
    create_roomy(&node).await;
    let hashing = Hashing::with(&node, "clicks", common::cluster::secret()).await;
    let count = cap * LOAD * SECONDS / BATCH_EVENTS;
    let batches: Vec<Batch> = (0..count)
        .map(|sequence| {
            let events: Vec<String> = (0..BATCH_EVENTS).map(|event| format!("event-{sequence}-{event}")).collect();
            hashing.batch(sequence, &events.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .collect();
    let mut endpoints = Endpoints::open(&node).await;

    let (before, over) = (resident_bytes(), CancellationToken::new());
    let watching = tokio::spawn(watch(node.clone(), over.clone()));
    let started = Instant::now();
    let offering = open_loop(&endpoints, &batches, cap * LOAD).await;
    let answers = endpoints.take(batches.len()).await;
    let elapsed = started.elapsed();
    over.cancel();
    let (queued, resident) = watching.await.expect("no panic");

    let mut replies = Replies::default();
    for (sequence, decision) in answers {
        let is_new = match decision {
            Decision::FirstSeen => replies.taken.insert(sequence),
            Decision::Undecided(Reason::Overloaded) => replies.refused.insert(sequence),
            other => panic!("batch {sequence}: {other:?}"),
        };
        assert!(is_new, "batch {sequence} was answered twice");
    }
    let rate = |batches: u64, time: Duration| (batches * BATCH_EVENTS) as f64 / time.as_secs_f64();
    let (offered, goodput) = (rate(count, offering), rate(replies.taken.len() as u64, elapsed));
    let grown = resident.saturating_sub(before);
    println!(
        "cap {cap}/s: {offered:.0}/s offered, {goodput:.0}/s taken; {queued} events queued at most, {} MiB more memory",
        grown >> 20
    );
    let planned = (cap * LOAD) as f64;
    assert!(offered >= planned * 0.9, "{offered:.0}/s of {planned:.0}/s offered: set FIRSTSEEN_TEST_OWNER_CAP lower");
    assert!(goodput >= 0.8 * cap as f64, "{goodput:.0}/s of {cap}/s taken");
    assert!(goodput <= 1.1 * cap as f64, "{goodput:.0}/s of {cap}/s taken: the knob does not hold");
    assert!(queued <= queue_events_max(cap), "{queued} events queued");
    assert!(grown <= GROWTH_BYTES_MAX, "{} MiB more memory", grown >> 20);
    assert!(replies.refused.len() as u64 > count / 3, "{} of {count} batches refused", replies.refused.len());
    no_cell_was_set(&node, &mut endpoints, &batches, &replies, cap).await;
}

/// Looks up all rejected events and some of the others.
async fn no_cell_was_set(node: &TestNode, endpoints: &mut Endpoints, batches: &[Batch], replies: &Replies, cap: u64) {
    assert_eq!(recorded_events(node).await, replies.taken.len() as u64 * BATCH_EVENTS, "by the owner's own count");
    let asked = replies.refused.iter().chain(replies.taken.iter().step_by(20));
    let asked: Vec<u64> = asked.copied().collect();
    // At most as many events are sent at once as fit into the queue.
    for some in asked.chunks((queue_events_max(cap) / BATCH_EVENTS) as usize / 2) {
        for sequence in some {
            let batch = &batches[*sequence as usize];
            let operation = Operation::Lookup.into();
            endpoints.send(Batch { operation, sequence: sequence + (1 << 32), ..batch.clone() }).await;
        }
        for (sequence, decision) in endpoints.take(some.len()).await {
            let was_refused = replies.refused.contains(&(sequence - (1 << 32)));
            let expected = if was_refused { Decision::FirstSeen } else { Decision::Duplicate };
            assert_eq!(decision, expected, "batch {sequence}, refused: {was_refused}");
        }
    }
    assert_eq!(endpoints.awaited.load(Ordering::Relaxed), 0);
}
