//! Tests that a cluster gives the same verdicts as the filter engine in a single process. The test sends the events of
//! sample logs to both and compares the verdicts event by event. It covers every kind of filter in every slicing that
//! the kind supports. The filters are so small that false positives occur, and both sides must report the same false
//! positives.
//!
//! An exact comparison is possible because the test sends one event at a time, and because all cells of an event are
//! set before the next event is sent. If several slices share the events of a filter, a node can reply early, while
//! some cells are still being set. The cluster could then test the next event too early, and miss a false positive that
//! the engine reports. The test therefore uses safe replies, which a node sends only when all cells are set.
//!
//! Early replies are compared in a separate test with many batches in flight. The filters of that test are so large
//! that no false positives occur.
//!
//! The test can run in three lengths. The quick run compares a few hundred events of one log for each filter. The long
//! run compares the first thousands of events of each log. The third run, `whole_logs`, compares all events. It must be
//! started by name: `cargo test -p firstseen-node --release --test all whole_logs -- --ignored`.

use std::collections::HashSet;
use std::sync::Arc;

use crate::common::cluster::{TestCluster, secret};
use crate::common::logs::{self, Log};
use firstseen_client::{Batch, Client, ConnectOptions, Event, Filter, Frequency, Verdict};
use firstseen_filter::{
    Digest, FilterSlice, FilterSpec, FrequencySpec, GrowthSpec, Kind, Limit, Placed, Refresh, WindowClock,
};
use firstseen_routing::{Answer, AnswerWhen, FilterPolicies, Lookup, SlicedDefinition, SlicedFilter, Slicing};
use tokio::task::JoinSet;

/// Numbers of events of a log in the quick run and in the long run.
const QUICK_EVENTS: usize = 300;
const LONG_EVENTS: usize = 2_000;
const BATCH_EVENTS: u32 = 128;

/// Slicings of a filter with one slice. A window in events must cover all events, so its filter cannot be divided.
const ONE: [&str; 1] = ["none"];
const WHOLE: [&str; 2] = ["none", "horizontal:6"];
const ALL: [&str; 5] = ["none", "horizontal:6", "vertical:6", "horizontal-vertical:2x3", "vertical-horizontal:3x2"];

/// Returns a filter with `cells` cells that never rejects an event.
fn loaded(kind: Kind, window: &str, cells: u64) -> FilterSpec {
    FilterSpec { cells: Some(cells), hashes: Some(4), ..FilterSpec::new(kind, window.parse().expect("a window")) }
}

/// Returns the filters to compare, and the slicings that each of them supports.
fn cases() -> Vec<(&'static str, FilterSpec, &'static [&'static str])> {
    let growing = GrowthSpec { limit: Limit::Cardinality, generations_max: 4, ratio: 1.0 };
    vec![
        ("bloom", loaded(Kind::Bloom, "unbounded", 10_000), &ALL),
        ("bloom-landmark", loaded(Kind::Bloom, "landmark:2h", 3_000), &ALL),
        ("bloom-counted-landmark", loaded(Kind::Bloom, "landmark:500events", 3_000), &ONE),
        ("timing", loaded(Kind::Timing, "2h", 3_000), &ALL),
        ("timing-refresh", FilterSpec { refresh: Refresh::Refresh, ..loaded(Kind::Timing, "2h", 3_000) }, &ALL),
        ("timing-16-bits", FilterSpec { cell_bits: Some(16), ..loaded(Kind::Timing, "2h", 3_000) }, &ALL),
        ("timing-equal", FilterSpec { equal_timers: 2, ..loaded(Kind::Timing, "2h", 3_000) }, &WHOLE),
        ("timing-counted", loaded(Kind::Timing, "500events", 3_000), &ONE),
        ("generations", loaded(Kind::Generations, "2h", 3_000), &ALL),
        ("generations-counted", loaded(Kind::Generations, "500events", 1_200), &ONE),
        ("counting-jumping", loaded(Kind::Counting, "2h", 3_000), &WHOLE),
        ("counting-sliding", loaded(Kind::Counting, "500events", 3_000), &ONE),
        ("stable", FilterSpec { rate: 0.05, seed: 3, ..loaded(Kind::Stable, "unbounded", 10_000) }, &WHOLE),
        ("bloom-full", small(Kind::Bloom, None), &WHOLE),
        ("bloom-growing", small(Kind::Bloom, Some(growing)), &WHOLE),
        ("cuckoo", prints("2h", 5_000), &WHOLE),
        ("cuckoo-late", FilterSpec { lateness_ms: Some(600_000), ..prints("2h", 5_000) }, &WHOLE),
        ("cuckoo-refresh", FilterSpec { refresh: Refresh::Refresh, ..prints("2h", 5_000) }, &WHOLE),
        ("cuckoo-counted", prints("500events", 500), &ONE),
        ("cuckoo-full", prints("2h", 100), &WHOLE),
        ("cuckoo-growing", FilterSpec { growth: Some(growing), ..prints("2h", 100) }, &WHOLE),
    ]
}

/// Returns a cuckoo filter with the shortest possible fingerprints. Even at its minimum size, the filter has room for
/// thousands of events, so false positives are rare. The filter still rejects events beyond `capacity_events`.
fn prints(window: &str, capacity_events: u64) -> FilterSpec {
    FilterSpec {
        capacity_events: Some(capacity_events),
        rate: 0.09,
        ..FilterSpec::new(Kind::Cuckoo, window.parse().expect("a window"))
    }
}

/// Returns the same filter with so many cells that `events` events cause no false positive.
fn roomy(spec: &FilterSpec, events: usize) -> FilterSpec {
    FilterSpec { cells: Some(40 * events as u64), hashes: Some(12), ..spec.clone() }
}

/// Returns a filter that is filled up by a log.
fn small(kind: Kind, growth: Option<GrowthSpec>) -> FilterSpec {
    let window = "unbounded".parse().expect("a window");
    FilterSpec { capacity_events: Some(300), rate: 0.05, growth, ..FilterSpec::new(kind, window) }
}

/// Returns the verdicts of the engine, and how many of them are certainly false positives because no earlier event has
/// the same key.
fn engine_answers(definition: &SlicedDefinition, log: &Log) -> (Vec<Verdict>, usize) {
    let mut engine = SlicedFilter::build(definition).expect("an engine");
    let mut answers = vec![Answer::Undecided; log.digests.len()];
    engine.observe_batch(&log.digests, &log.times_ms, &mut answers);
    let mut seen = HashSet::new();
    let is_false = |(digest, answer): &(&Digest, &Answer)| seen.insert(**digest) && **answer == Answer::Duplicate;
    let false_positives = log.digests.iter().zip(&answers).filter(is_false).count();
    (answers.into_iter().map(Verdict::from).collect(), false_positives)
}

/// Submits one event after the other, and waits for the reply to each of them.
async fn one_by_one(filter: &Filter, log: &Log) -> Vec<Verdict> {
    let mut verdicts = Vec::with_capacity(log.digests.len());
    for (digest, time_ms) in log.digests.iter().zip(&log.times_ms) {
        verdicts.extend(
            filter.observe_batch(Batch::hashed(&|_| vec![*digest]).times_ms(&[*time_ms])).await.expect("a verdict"),
        );
    }
    verdicts
}

fn assert_same(what: &str, verdicts: &[Verdict], expected: &[Verdict]) {
    assert_eq!(verdicts.len(), expected.len(), "{what}");
    let differ: Vec<usize> = (0..verdicts.len()).filter(|event| verdicts[*event] != expected[*event]).collect();
    if let Some(first) = differ.first() {
        panic!(
            "{what}: {} of {} events differ, the first is {first}: {:?} in the cluster, {:?} in the engine",
            differ.len(),
            verdicts.len(),
            verdicts[*first],
            expected[*first]
        );
    }
}

fn cut(mut log: Log, events: usize) -> Log {
    log.digests.truncate(events);
    log.times_ms.truncate(events);
    log
}

/// One comparison: a filter, a way of sending events to it, and the expected verdicts.
struct Run {
    name: String,
    definition: SlicedDefinition,
    policies: FilterPolicies,
    is_batched: bool,
    log: Arc<Log>,
    expected: Vec<Verdict>,
}

/// Returns the comparisons of a case. The two kinds of lookup alternate, so that each of them is used with every case.
fn runs(case: (&'static str, FilterSpec, &[&str]), (turn, log_name): (usize, &str), log: &Arc<Log>) -> Vec<Run> {
    let (kind, spec, slicings) = case;
    let mut runs = Vec::new();
    for (turn, slicing) in (turn..).zip(slicings) {
        let slicing: Slicing = slicing.parse().expect("a slicing");
        let lookup = if turn % 2 == 0 { Lookup::Pipelined } else { Lookup::Parallel };
        // If slices do not share events, the verdicts on a producer's batches do not depend on how many batches are in
        // flight.
        let ways = if slicing.divides_cells() {
            [(AnswerWhen::Safe, false, spec.clone()), (AnswerWhen::Early, true, roomy(&spec, log.digests.len()))]
        } else {
            [false, true].map(|is_batched| (AnswerWhen::Early, is_batched, spec.clone()))
        };
        for (answer, is_batched, spec) in ways {
            let definition = SlicedDefinition::new(&spec, slicing).expect("a definition");
            let (expected, false_positives) = engine_answers(&definition, log);
            let how = if is_batched { ", batches" } else { "" };
            let name = format!("{kind}, {log_name}, {slicing}, {lookup:?}, {answer:?}{how}");
            let must_be_exact = slicing.divides_cells() && is_batched;
            assert!(!must_be_exact || false_positives == 0, "{name}: {false_positives} false positives");
            // An event is in flight until all its cells are set. After an early reply, the next event can still meet
            // it.
            let policies = FilterPolicies { lookup, answer, ..FilterPolicies::default() };
            runs.push(Run { name, definition, policies, is_batched, log: log.clone(), expected });
        }
    }
    runs
}

impl Run {
    async fn run(self, filter: Filter) {
        let verdicts = if self.is_batched {
            filter
                .observe_batch(Batch::hashed(&|_| self.log.digests.to_vec()).times_ms(&self.log.times_ms))
                .await
                .expect("verdicts")
        } else {
            one_by_one(&filter, &self.log).await
        };
        assert_same(&self.name, &verdicts, &self.expected);
    }
}

/// Selects the logs that each filter is compared on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Logs {
    /// A single log, which alternates between filters.
    One,
    All,
}

/// Runs all comparisons at the same time, each with one event in flight.
async fn all_cases(logs: Logs, events: usize) {
    let cluster = TestCluster::start(3).await;
    // A call has many batches, and several of them are in flight to each node.
    let client = Client::connect(ConnectOptions { batch_events_max: BATCH_EVENTS, ..cluster.options(0) })
        .await
        .expect("a client");
    let mut running = JoinSet::new();
    let all_logs = logs::all(&secret());
    let logs_count = all_logs.len();
    for (turn, (log_name, log)) in all_logs.into_iter().enumerate() {
        let log = Arc::new(cut(log, events));
        let is_compared = |number: usize| logs == Logs::All || number % logs_count == turn;
        let compared = cases().into_iter().enumerate().filter(|(number, _)| is_compared(*number));
        for run in compared.flat_map(|(_, case)| runs(case, (turn, log_name), &log)) {
            cluster.create(&run.name, &run.definition, run.policies).await;
            let filter = client.filter(&run.name).await.expect("a filter");
            running.spawn(run.run(filter));
        }
    }
    println!("{} filters", running.len());
    while let Some(ended) = running.join_next().await {
        ended.expect("the same answers");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_events_of_the_logs() {
    all_cases(Logs::One, QUICK_EVENTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes"]
async fn more_events_of_the_logs() {
    all_cases(Logs::All, LONG_EVENTS).await;
}

/// Compares the estimated frequency of every event with the exact count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn estimates_of_a_decaying_filter() {
    let spec = FrequencySpec { cells: Some(4_000), ..FrequencySpec::new("1h".parse().expect("an epoch"), 0.8) };
    let group = spec.resolve().expect("a definition");
    let mut engine = FilterSlice::build(&group).expect("an engine");
    let mut clock = WindowClock::new(group.unit.clone(), group.rule, group.future_max_ms);
    let cluster = TestCluster::start(3).await;
    let definition = SlicedDefinition { slicing: Slicing::NONE, group };
    cluster.create("hot", &definition, FilterPolicies::default()).await;
    let (_client, filter) = cluster.producer(1, "hot").await;
    let log = cut(logs::nasa(&secret()), LONG_EVENTS);
    let (mut above, mut again) = (0, 0);
    for (key, time_ms) in log.digests.iter().zip(&log.times_ms) {
        let event = key.lo.to_le_bytes();
        let Placed::At(stamp) = clock.place(Some(*time_ms)) else { panic!("a log is in order") };
        let mut estimate = [0.0];
        engine.count_batch(&[secret().digest(&event)], &[stamp], &mut estimate).expect("counts");
        let verdicts = filter.count(Event::from(&event).at(*time_ms)).await.expect("a frequency");
        assert_eq!(verdicts, Frequency::Estimate(estimate[0] as f32), "at {time_ms}");
        above += usize::from(estimate[0] > 1.5);
        again += usize::from(estimate[0].fract() != 0.0);
    }
    assert!(above > 100 && again > 100, "{above} came before, {again} have decayed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes in a release build, which is asked for by name"]
async fn whole_logs() {
    all_cases(Logs::All, usize::MAX).await;
}

/// Checks that the test `more_events_of_the_logs` compares false positives at all. With the number of events in that
/// test, every kind and slicing must have at least ten false positives. The quick test has fewer events and may have no
/// false positives.
#[test]
fn every_filter_is_loaded() {
    let logs = logs::all(&secret()).map(|(_, log)| cut(log, LONG_EVENTS));
    for (kind, spec, slicings) in cases().into_iter().filter(|(_, spec, _)| spec.kind != Kind::Cuckoo) {
        for slicing in slicings {
            let definition = SlicedDefinition::new(&spec, slicing.parse().expect("a slicing")).expect("a definition");
            let found = logs.iter().map(|log| engine_answers(&definition, log).1).sum::<usize>();
            assert!(found >= 10, "{kind}, {slicing}: only {found} false positives");
        }
    }
}
