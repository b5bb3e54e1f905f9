//! Tests that an event has exactly one winner if many producers submit it at the same time. The test has 64 producers
//! with separate connections to different nodes, and all of them submit the same events. For every event, one producer
//! must receive the verdict first-seen, and all other producers must receive duplicate.
//!
//! An event can have only one winner because of the single-flight rule. The rule says that while a node decides an
//! event, further submissions of the same event wait for that decision. Without the rule, two producers that submit a
//! new event at the same time could both receive first-seen.
//!
//! Other tests prove that the rule is necessary: they run the same workload without the rule, and expect it to fail.
//! These tests are `crates/routing/tests/all/one_winner.rs` and `crates/sim/tests/all/seeds.rs`. In the same way, they
//! test a related rule, which says that the decision of an event is complete only when all cells of the event are set.

use crate::common::cluster::TestCluster;
use firstseen_client::{Filter, Verdict};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{ClockSource, FilterPolicies, Lookup, OwnerLimits, SlicedDefinition};

const PRODUCERS: usize = 64;
const EVENTS: usize = 4_000;
const BATCH_EVENTS: usize = 500;
/// Number of producers that submit the events in lockstep.
const ABREAST: usize = 8;
/// Probability that a new event is a false positive. The expected number of false positives in the whole run is below
/// 10^-7.
const RATE: f64 = 1e-11;

fn definition(slicing: &str) -> SlicedDefinition {
    let spec = FilterSpec {
        capacity_events: Some(2 * EVENTS as u64),
        rate: RATE,
        // The window is longer than any run.
        ..FilterSpec::new(Kind::Timing, "24h".parse().expect("a window"))
    };
    SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition")
}

/// Submits all events, beginning at a place that depends on `producer`. Returns how often each event was first-seen.
async fn submit(filter: Filter, producer: usize) -> Vec<u8> {
    let events: Vec<String> = (0..EVENTS).map(|event| format!("event-{event}")).collect();
    let mut first_seen = vec![0; EVENTS];
    let start = producer / ABREAST * (EVENTS / (PRODUCERS / ABREAST));
    for batch in 0..EVENTS / BATCH_EVENTS {
        let from = (start + batch * BATCH_EVENTS) % EVENTS;
        let range = from..from + BATCH_EVENTS;
        let verdicts = filter.observe_batch(&events[range.clone()]).await.expect("verdicts");
        for (event, verdict) in range.zip(verdicts) {
            match verdict {
                Verdict::FirstSeen => first_seen[event] += 1,
                Verdict::Duplicate => {}
                Verdict::Undecided(reason) => panic!("producer {producer}, event {event}: undecided, {reason:?}"),
            }
        }
    }
    first_seen
}

/// Returns the events in a new filter that do not have exactly one winner, with their numbers of winners.
async fn not_one_winner(cluster: &TestCluster, name: &str, slicing: &str, lookup: Lookup) -> Vec<(usize, u32)> {
    let policies = FilterPolicies { clock: ClockSource::Wall, lookup, ..FilterPolicies::default() };
    cluster.create(name, &definition(slicing), policies).await;
    let mut clients = Vec::new();
    for producer in 0..PRODUCERS {
        clients.push(cluster.producer(producer, name).await);
    }
    let started = std::time::Instant::now();
    let producers: Vec<_> = (0..PRODUCERS)
        .zip(&clients)
        .map(|(producer, (_, filter))| tokio::spawn(submit(filter.clone(), producer)))
        .collect();
    let mut winners = vec![0u32; EVENTS];
    for producer in producers {
        let first_seen = producer.await.expect("definite answers");
        winners.iter_mut().zip(first_seen).for_each(|(sum, times)| *sum += u32::from(times));
    }
    println!("{slicing}, {lookup:?}: {} submissions in {:?}", PRODUCERS * EVENTS, started.elapsed());
    winners.into_iter().enumerate().filter(|(_, winners)| *winners != 1).collect()
}

async fn one_winner(slicing: &str, lookup: Lookup) {
    let cluster = TestCluster::start(3).await;
    let wrong = not_one_winner(&cluster, "clicks", slicing, lookup).await;
    let some = &wrong[..wrong.len().min(10)];
    assert!(wrong.is_empty(), "{slicing}, {lookup:?}: events with another number of winners than one: {some:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn horizontal() {
    one_winner("horizontal:6", Lookup::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vertical_pipelined() {
    one_winner("vertical:6", Lookup::Pipelined).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vertical_parallel() {
    one_winner("vertical:6", Lookup::Parallel).await;
}

/// The number of affected events depends on the network. It can be several hundred or just one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_winners_without_single_flight() {
    const ROUNDS_MAX: usize = 20;
    let broken = OwnerLimits { rules: Rules::without(Rule::SingleFlight), ..OwnerLimits::default() };
    let cluster = TestCluster::start_keeping(broken).await;
    for round in 1..=ROUNDS_MAX {
        let wrong = not_one_winner(&cluster, &format!("clicks-{round}"), "vertical:6", Lookup::Pipelined).await;
        println!("without single-flight, round {round}: {} of {EVENTS} events have several winners", wrong.len());
        if !wrong.is_empty() {
            return;
        }
    }
    panic!("the workload shows nothing in {ROUNDS_MAX} rounds");
}
