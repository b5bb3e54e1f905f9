//! Tests a node whose clock is set by hours. The filter takes the times of events from the nodes.
//!
//! The test records events, and then sets the clock of node b two hours ahead, which is twice the window of the filter.
//! While the clock is wrong, events that b owns must be undecided because of the clock, and events of the other nodes
//! must be decided as usual. When the clock is corrected, all events must still be known, and no event may be late.
//!
//! If node b recorded events with its wrong clock, two things would go wrong. First, all events that were recorded
//! before would seem to have expired, and would be first-seen again. Second, after the correction of the clock, all
//! further events would be rejected as late.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use firstseen_client::{Client, ConnectOptions, Event, Filter, Reason, Verdict};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_node::{Clock, Edges, NodeConfig, SystemClock};
use firstseen_redis_endpoint::RedisEndpointSettings;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{ClockSource, FilterPolicies, MonotonicMs, SlicedDefinition};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

use crate::common::cluster::create_at;
use crate::common::{PATIENCE, TestNode, wait_for};

const SKEW_MS: u64 = 1_000;
const TWO_HOURS_MS: i64 = 7_200_000;
const WRONG: Verdict = Verdict::Undecided(Reason::ClockSkew);

/// The clocks of this machine, with a time of day that can be set.
#[derive(Default)]
struct SetClock {
    machine: SystemClock,
    ahead_ms: AtomicI64,
}

impl SetClock {
    fn set_ahead_ms(&self, ahead_ms: i64) {
        self.ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn monotonic_ms(&self) -> MonotonicMs {
        self.machine.monotonic_ms()
    }

    fn wall_ms(&self) -> u64 {
        self.machine.wall_ms().saturating_add_signed(self.ahead_ms.load(Ordering::Relaxed))
    }
}

async fn node(name: &str, clock: Arc<SetClock>, rules: Rules) -> TestNode {
    let change = |edges: &mut Edges| (edges.clock, edges.owner_limits.rules) = (clock, rules);
    let configure = |config: &mut NodeConfig| {
        config.timing.clock_skew_max_ms = SKEW_MS;
        config.redis = Some(RedisEndpointSettings::at(([127, 0, 0, 1], 0).into()));
    };
    TestNode::start_changed(name, configure, change).await
}

/// Starts nodes a, b and c with separate clocks.
async fn three(clocks: &[Arc<SetClock>; 3], rules: Rules) -> Vec<TestNode> {
    let mut nodes = Vec::new();
    for (name, clock) in ["a", "b", "c"].into_iter().zip(clocks) {
        nodes.push(node(name, clock.clone(), rules).await);
    }
    nodes[0].init().await;
    nodes[0].join(&nodes[1]).await;
    nodes[0].join(&nodes[2]).await;
    nodes
}

async fn create(nodes: &[TestNode], slicing: &str, clock: ClockSource) {
    let spec = FilterSpec {
        capacity_events: Some(50_000),
        rate: 1e-9,
        clock_skew_ms: SKEW_MS,
        // Keys with their own times to live are never late.
        lateness_ms: (clock == ClockSource::Event).then_some(0),
        ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window"))
    };
    let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition");
    let policies = FilterPolicies { clock, ..FilterPolicies::default() };
    create_at(&nodes[0], "clicks", &definition, policies).await;
    for node in nodes {
        node.knows("clicks").await;
    }
}

/// Connects a client that does not wait until a clock is corrected.
async fn hasty(node: &TestNode) -> (Client, Filter) {
    let client = Client::connect(ConnectOptions { deadline_ms: 3_000, ..ConnectOptions::from([node.node.addr()]) })
        .await
        .expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    (client, filter)
}

async fn observe(filter: &Filter, keys: &[[u8; 4]]) -> Vec<Verdict> {
    filter.observe_batch(keys).await.expect("verdicts")
}

fn count(verdicts: &[Verdict], of: Verdict) -> usize {
    verdicts.iter().filter(|verdict| **verdict == of).count()
}

fn keys(from: u32) -> Vec<[u8; 4]> {
    (from..from + 300).map(u32::to_le_bytes).collect()
}

/// Sends these events until all verdicts of a call are decided.
async fn decided(filter: &Filter, keys: &[[u8; 4]]) -> Vec<Verdict> {
    let asking = async {
        loop {
            let verdicts = observe(filter, keys).await;
            if !verdicts.iter().any(|verdict| matches!(verdict, Verdict::Undecided(_))) {
                return verdicts;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("events stay undecided")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_set_two_hours_ahead_stamps_nothing() {
    for slicing in ["horizontal:6", "vertical:3"] {
        let clocks = [(); 3].map(|()| Arc::new(SetClock::default()));
        let nodes = three(&clocks, Rules::default()).await;
        create(&nodes, slicing, ClockSource::Wall).await;
        let (_client, filter) = hasty(&nodes[0]).await;
        let before = keys(0);
        assert_eq!(count(&decided(&filter, &before).await, Verdict::FirstSeen), 300, "{slicing}");

        clocks[1].set_ahead_ms(TWO_HOURS_MS);
        let again = observe(&filter, &before).await;
        assert_eq!(count(&again, Verdict::FirstSeen), 0, "{slicing}: they are an instant old");
        assert!(count(&again, WRONG) > 30, "{slicing}: what b is the head of: {again:?}");
        assert!(count(&again, Verdict::Duplicate) > 30, "{slicing}: what others are the heads of: {again:?}");
        let b = &nodes[1];
        wait_for("b says why", || b.node.not_ready().is_some_and(|why| why.contains("ahead of those of most others")))
            .await;
        let (status, body) = b.get("/readyz").await;
        assert!(status == 503 && body.contains("clock_skew_max_ms"), "{status} {body}");
        assert!(body.contains("at most 1s is allowed") && !body.contains(" ms "), "as people write it: {body}");
        b.metric_becomes("firstseen_clock_wrong", 1.0).await;
        assert!(nodes[0].node.not_ready().is_none() && nodes[2].node.not_ready().is_none(), "the others are right");
        let ahead = |status: &firstseen_wire::proto::admin::StatusReply, node: u64| {
            status.clocks.iter().find(|clock| clock.node_id == node).map_or(0, |clock| clock.ahead_ms)
        };
        let b_id = b.status().await.clocks.first().map_or(0, |clock| clock.node_id);
        for node in &nodes {
            let is_shown = async { while ahead(&node.status().await, b_id) < TWO_HOURS_MS - 5_000 {} };
            tokio::time::timeout(PATIENCE, is_shown).await.expect("an operator sees whose clock is wrong");
        }
        let offset = nodes[0].metric("firstseen_clock_offset_seconds{peer=\"b\"}").await;
        assert!(offset > (TWO_HOURS_MS / 1_000 - 5) as f64, "{offset}");

        clocks[1].set_ahead_ms(0);
        b.ready().await;
        let again = decided(&filter, &before).await;
        assert_eq!(count(&again, Verdict::Duplicate), 300, "{slicing}: nothing was forgotten");
        let after = decided(&filter, &keys(1_000)).await;
        assert_eq!(count(&after, Verdict::FirstSeen), 300, "{slicing}: nothing is late");
    }
}

/// Shows that the test above would detect a node that relies on its wrong clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_relies_on_its_clock_forgets_its_window() {
    let clocks = [(); 3].map(|()| Arc::new(SetClock::default()));
    let nodes = three(&clocks, Rules::without(Rule::MeasuresClocks)).await;
    create(&nodes, "horizontal:6", ClockSource::Wall).await;
    let (_client, filter) = hasty(&nodes[0]).await;
    assert_eq!(count(&decided(&filter, &keys(0)).await, Verdict::FirstSeen), 300);
    clocks[1].set_ahead_ms(TWO_HOURS_MS);
    // By this clock, the node's lease has ended for a moment.
    let again = decided(&filter, &keys(0)).await;
    assert!(count(&again, Verdict::FirstSeen) > 30, "{again:?}");
    assert!(nodes[1].node.not_ready().is_none(), "and nobody sees it");
}

/// Tests a node without other nodes to compare its clock with. A change of the clock that is reverted at once must not
/// end any window.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_alone_stamps_nothing_by_a_clock_that_was_just_set() {
    let clock = Arc::new(SetClock::default());
    let nodes = [node("a", clock.clone(), Rules::default()).await];
    nodes[0].init().await;
    create(&nodes, "none", ClockSource::Wall).await;
    let (_client, filter) = hasty(&nodes[0]).await;
    assert_eq!(count(&decided(&filter, &keys(0)).await, Verdict::FirstSeen), 300);
    clock.set_ahead_ms(TWO_HOURS_MS);
    let again = observe(&filter, &keys(0)).await;
    clock.set_ahead_ms(0);
    assert_eq!(count(&again, WRONG), 300, "{again:?}");
    assert_eq!(count(&decided(&filter, &keys(0)).await, Verdict::Duplicate), 300);
}

/// Tests a producer on a machine whose clock is an hour slow. The producer sends events with correct times, one event
/// per call. Although these times are an hour ahead of the producer's clock, the events must not be rejected as lying
/// in the future.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_on_a_slow_machine_is_served() {
    let nodes = [node("a", Arc::default(), Rules::default()).await];
    nodes[0].init().await;
    create(&nodes, "none", ClockSource::Event).await;
    let now_ms = SystemClock::default().wall_ms();
    let slow = ConnectOptions {
        wall_clock: Some(Arc::new(move || now_ms - 3_600_000)),
        ..ConnectOptions::from([nodes[0].node.addr()])
    };
    let client = Client::connect(slow).await.expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    let observe =
        async |key: &str, time_ms| filter.observe(Event::from(key.as_bytes()).at(time_ms)).await.expect("a verdict");
    for (key, expected) in [("a", Verdict::FirstSeen), ("a", Verdict::Duplicate), ("b", Verdict::FirstSeen)] {
        assert_eq!(observe(key, now_ms).await, expected, "{key}");
    }
    assert_eq!(observe("c", now_ms + 3_600_000).await, Verdict::Undecided(Reason::Future));
    assert_eq!(observe("b", now_ms).await, Verdict::Duplicate);
}

/// A Redis client of a node's Redis endpoint.
struct RedisClient(BufStream<TcpStream>);

impl RedisClient {
    async fn connect(node: &TestNode) -> Self {
        let address = node.node.redis_addr().expect("an endpoint");
        let connecting = async {
            loop {
                let mut client = Self(BufStream::new(TcpStream::connect(address).await.expect("it listens")));
                if client.ask("PING").await == "+PONG" {
                    return client;
                }
            }
        };
        tokio::time::timeout(PATIENCE, connecting).await.expect("the endpoint opens")
    }

    /// Returns the reply to a command. The lines of the reply are separated by spaces.
    async fn ask(&mut self, command: &str) -> String {
        self.0.write_all(format!("{command}\r\n").as_bytes()).await.expect("it listens");
        self.0.flush().await.expect("it listens");
        let first = self.line().await;
        let lines: usize = first.strip_prefix('*').and_then(|count| count.parse().ok()).unwrap_or(0);
        let mut reply = first;
        for _ in 0..lines {
            reply = format!("{reply} {}", self.line().await);
        }
        reply
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let reading = self.0.read_line(&mut line);
        tokio::time::timeout(PATIENCE, reading).await.expect("a reply in time").expect("a reply");
        line.trim_end().to_owned()
    }
}

/// Regression test for keys that were forgotten too early because of a wrong clock. In the case that this test repeats,
/// the clock of a node was 220 s ahead. The node had noticed this and reported it at `/readyz`. Its Redis endpoint
/// nevertheless used the wrong clock to compute the times of keys that have their own time to live.
///
/// The other nodes received keys with these times, and their event clocks advanced to the latest time that they
/// received, 220 s ahead. By such a clock, a key with a time to live of 60 s has expired at once. The nodes therefore
/// forgot these keys too early.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_endpoint_of_a_node_with_a_wrong_clock_stamps_nothing() {
    let clocks = [(); 3].map(|()| Arc::new(SetClock::default()));
    let nodes = three(&clocks, Rules::default()).await;
    create(&nodes, "horizontal:6", ClockSource::Event).await;
    let mut right = RedisClient::connect(&nodes[0]).await;
    let mut wrong = RedisClient::connect(&nodes[1]).await;
    let observe = |key: &str| format!("FS.OBSERVE clicks TTL 60000 ITEMS {key}");
    let opened = async { while right.ask(&observe("opens")).await.contains('-') {} };
    tokio::time::timeout(PATIENCE, opened).await.expect("a verdict");
    for key in 0..60 {
        assert_eq!(right.ask(&observe(&format!("known-{key}"))).await, "*1 :1");
    }

    clocks[1].set_ahead_ms(220_000);
    let b = &nodes[1];
    wait_for("b says why", || b.node.not_ready().is_some_and(|why| why.contains("ahead of those of most others")))
        .await;
    for key in 0..60 {
        assert_eq!(wrong.ask(&observe(&format!("new-{key}"))).await, "*1 :-15", "the reason is the clock");
        assert_eq!(wrong.ask(&format!("FS.TEST clicks ITEMS known-{key}")).await, "*1 :-15");
    }
    let mut known = 0;
    for key in 0..60 {
        // Node b is the head of some keys, and does not record these either.
        match right.ask(&observe(&format!("known-{key}"))).await.as_str() {
            "*1 :0" => known += 1,
            reply => assert_eq!(reply, "*1 :-15", "known-{key} is remembered for 60 s"),
        }
    }
    assert!(known > 10, "{known} of 60 keys");
    clocks[1].set_ahead_ms(0);
    b.ready().await;
    for key in 0..60 {
        assert_eq!(wrong.ask(&observe(&format!("known-{key}"))).await, "*1 :0");
        assert_eq!(
            wrong.ask(&observe(&format!("new-{key}"))).await,
            "*1 :1",
            "nothing was recorded by the wrong clock"
        );
    }
}
