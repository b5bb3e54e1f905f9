//! Tests how many slices and nodes each event visits in a real cluster. The expected numbers come from a replay of the
//! same events through the crate `routing`. The metrics of the cluster's three nodes must show exactly these numbers.
//! An exact comparison is possible because the test sends one event at a time.

#[path = "../../../routing/tests/all/replay.rs"]
mod replay;

use crate::common::cluster::{TestCluster, secret};
use firstseen_client::{Batch, Verdict};
use firstseen_filter::{FilterSlice, FilterSpec, Kind, Placed, WindowClock};
use firstseen_routing::{AnswerWhen, FilterPolicies, Lookup, NodeId, Route, SlicePlan, SlicedDefinition, Step};
use replay::{Visits, replay};

const EVENTS: u64 = 900;
const KEYS: u64 = 400;
const START_MS: u64 = 1_600_000_000_000;

/// Returns the sums over all nodes: slices and nodes visited by tests, events set, and slices and nodes visited by
/// sets.
async fn counted(cluster: &TestCluster) -> [u64; 5] {
    let mut sums = [0; 5];
    for node in &cluster.nodes {
        let text = node.node.metrics().await;
        let value = |what: &str, operation: &str| {
            let name = format!("firstseen_pipeline_{what}_total{{");
            let label = format!("operation=\"{operation}\"");
            let lines = text.lines().filter(|line| line.starts_with(&name) && line.contains(&label));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
        };
        let own = [
            value("slice_visits", "test"),
            value("node_visits", "test"),
            value("events", "set"),
            value("slice_visits", "set"),
            value("node_visits", "set"),
        ];
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    }
    sums
}

async fn follow_the_replay(slicing: &str, lookup: Lookup) {
    let cluster = TestCluster::start(3).await;
    let spec = FilterSpec {
        cells: Some(1_500),
        hashes: Some(5),
        ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window"))
    };
    let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition");
    let policies = FilterPolicies { lookup, answer: AnswerWhen::Safe, ..FilterPolicies::default() };
    cluster.create("clicks", &definition, policies).await;
    let (client, filter) = cluster.producer(1, "clicks").await;
    let map = client.map();
    let owners: Vec<NodeId> =
        map.filter_named("clicks").expect("there").1.owners.iter().map(|owner| owner.node).collect();

    let slice = definition.slice().expect("a definition");
    let mut slices: Vec<FilterSlice> = owners.iter().map(|_| FilterSlice::build(&slice).expect("a slice")).collect();
    let plan = SlicePlan::new(definition.slicing, *slices[0].geometry()).expect("a plan");
    let mut clock = WindowClock::new(slice.unit.clone(), slice.rule, slice.future_max_ms);
    let (mut route, mut sum, mut sets) = (Route::default(), Visits::default(), 0);
    for event in 0..EVENTS {
        // Keys repeat over two windows, each time in a different order.
        let (key, time_ms) = (event * 7919 % KEYS, START_MS + event * 8_000);
        let digest = secret().digest(&key.to_le_bytes());
        let verdicts =
            filter.observe_batch(Batch::hashed(&|_| vec![digest]).times_ms(&[time_ms])).await.expect("a verdict");
        let Placed::At(stamp) = clock.place(Some(time_ms)) else { panic!("times rise") };
        plan.route(digest, &mut route);
        let steps: Vec<Step<'_>> = route.steps().collect();
        let held =
            |step: &Step<'_>| slices[step.slice as usize].test_at(step.positions, stamp).expect("inside").generations;
        let visits = replay(&steps, |slice| owners[slice as usize], lookup, held);
        sum.test_slices += visits.test_slices;
        sum.test_nodes += visits.test_nodes;
        if visits.generations == 0 {
            sets += 1;
            sum.set_slices += visits.set_slices;
            sum.set_nodes += visits.set_nodes;
            steps.iter().for_each(|step| assert!(slices[step.slice as usize].set_at(step.positions, stamp)));
        }
        let expected = if visits.generations == 0 { Verdict::FirstSeen } else { Verdict::Duplicate };
        assert_eq!(verdicts, [expected], "{slicing}, {lookup:?}, event {event}");
    }
    assert!(sets > KEYS / 2 && sets < EVENTS, "{sets} of {EVENTS} events are new");
    let expected = [sum.test_slices, sum.test_nodes, sets, sum.set_slices, sum.set_nodes];
    assert_eq!(counted(&cluster).await, expected, "{slicing}, {lookup:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined() {
    follow_the_replay("vertical:6", Lookup::Pipelined).await;
    follow_the_replay("horizontal-vertical:2x3", Lookup::Pipelined).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel() {
    follow_the_replay("vertical:6", Lookup::Parallel).await;
    follow_the_replay("vertical-horizontal:3x2", Lookup::Parallel).await;
}
