//! Tests a producer that has many batches in flight at the same time. The filters of the test have their cells on three
//! nodes, and half of these cells are set when the test ends. There must be no false negatives, and each key must be
//! first-seen exactly once in a window. The number of false positives must match the formulas for a filter with half of
//! its cells set.

use crate::common::cluster::TestCluster;
use firstseen_client::{Batch, Client, ConnectOptions, Filter, Verdict};
use firstseen_filter::rates::{band, plain};
use firstseen_filter::{FilterSpec, Kind};
use firstseen_routing::{FilterPolicies, Lookup, SlicedDefinition};

const KEYS: u64 = 12_000;
const CELLS: u64 = 60_000;
const HASHES: u32 = 4;
/// Number of events between the first occurrence of a key and its repetition. The distance is shorter than a batch.
/// Most repetitions are therefore in the same batch as the first occurrence, and the others are in a batch that is in
/// flight at the same time.
const REPEAT_AFTER: usize = 150;
const BATCH_EVENTS: u32 = 256;
const CONFIDENCE: f64 = 1.0 - 1e-6;
/// The beginning of a jump of ten minutes. All events within a jump are in the same generation.
const START_MS: u64 = 1_599_999_600_000;
const HOUR_MS: u64 = 3_600_000;

/// Returns every key twice, the second time shortly after the first.
fn keys_twice() -> Vec<u64> {
    let mut keys: Vec<u64> = (0..KEYS).collect();
    for at in (0..KEYS as usize).rev() {
        keys.insert((at + REPEAT_AFTER).min(keys.len()), at as u64);
    }
    keys
}

/// Submits `keys` within ten minutes from `start_ms` on, and returns their verdicts.
async fn submit(filter: &Filter, keys: &[u64], start_ms: u64) -> Vec<Verdict> {
    let events: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
    let times_ms: Vec<u64> = (0..keys.len() as u64).map(|at| start_ms + at * 600_000 / keys.len() as u64).collect();
    filter.observe_batch(Batch::from(&events).times_ms(&times_ms)).await.expect("verdicts")
}

/// Returns how often each key was first-seen, and checks that no event is undecided.
fn winners(keys: &[u64], verdicts: &[Verdict]) -> Vec<u32> {
    let mut winners = vec![0; KEYS as usize];
    for (key, verdict) in keys.iter().zip(verdicts) {
        match verdict {
            Verdict::FirstSeen => winners[*key as usize] += 1,
            Verdict::Duplicate => {}
            Verdict::Undecided(reason) => panic!("key {key} is undecided: {reason:?}"),
        }
    }
    winners
}

fn assert_as_many_as_expected(what: &str, found: u64, trials: u64, rate: f64) {
    let allowed = band::binomial(rate, trials, CONFIDENCE);
    println!("{what}: {found} false positives of {trials}, {allowed:?} allowed");
    assert!(allowed.contains(&found), "{what}: {found} false positives of {trials}, {allowed:?} allowed");
}

async fn as_in_one_place(kind: Kind, slicing: &str, lookup: Lookup) {
    let cluster = TestCluster::start(3).await;
    let window = "1h".parse().expect("a window");
    let spec = FilterSpec { cells: Some(CELLS), hashes: Some(HASHES), ..FilterSpec::new(kind, window) };
    let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition");
    let groups = f64::from(definition.slicing.groups());
    cluster.create("clicks", &definition, FilterPolicies { lookup, ..FilterPolicies::default() }).await;
    let client = Client::connect(ConnectOptions { batch_events_max: BATCH_EVENTS, ..cluster.options(1) })
        .await
        .expect("a client");
    let filter = client.filter("clicks").await.expect("a filter");
    let what = format!("{kind}, {slicing}, {lookup:?}");

    let (keys, once) = (keys_twice(), (0..KEYS).collect::<Vec<u64>>());
    // The first pass is within the window. The second pass is after the first events have left the window.
    for start_ms in [START_MS, START_MS + 3 * HOUR_MS] {
        let winners_by_key = winners(&keys, &submit(&filter, &keys, start_ms).await);
        assert!(
            winners_by_key.iter().all(|winners| *winners <= 1),
            "{what}: a key was first-seen twice within the window"
        );
        let lost = winners_by_key.iter().filter(|winners| **winners == 0).count() as u64;
        let delivered = (KEYS - lost) as f64 / groups;
        let rate = plain::stream_mean(CELLS as f64 / groups, HASHES, delivered);
        assert_as_many_as_expected(&what, lost, KEYS, rate);

        let again = submit(&filter, &once, start_ms + HOUR_MS / 2).await;
        assert!(again.iter().all(|verdict| *verdict == Verdict::Duplicate), "{what}: a false negative");

        let strangers: Vec<_> = (KEYS..3 * KEYS).map(|key| filter.info().secret.digest(&key.to_le_bytes())).collect();
        let times_ms = vec![start_ms + HOUR_MS / 2 + 600_000; strangers.len()];
        let tested =
            filter.test_batch(Batch::hashed(&|_| strangers.to_vec()).times_ms(&times_ms)).await.expect("verdicts");
        let hits = tested.iter().filter(|verdict| **verdict == Verdict::Duplicate).count() as u64;
        let rate = plain::rate(CELLS as f64 / groups, HASHES, delivered);
        assert_as_many_as_expected(&format!("{what}, looked up"), hits, 2 * KEYS, rate);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined() {
    as_in_one_place(Kind::Timing, "vertical:6", Lookup::Pipelined).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel() {
    as_in_one_place(Kind::Timing, "vertical:6", Lookup::Parallel).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generations() {
    as_in_one_place(Kind::Generations, "vertical:6", Lookup::Pipelined).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diced() {
    as_in_one_place(Kind::Timing, "horizontal-vertical:2x3", Lookup::Pipelined).await;
    as_in_one_place(Kind::Timing, "vertical-horizontal:3x2", Lookup::Parallel).await;
}
