//! The filter of a partition against an exact model: batches of random sizes, attempts that are repeated, and filters
//! that are rebuilt from the history or continued from a checkpoint.

use std::collections::BTreeMap;

use firstseen_filter::{FilterSpec, Kind};
use firstseen_pipe::{Events, Message, Outcome, PartitionFilter, Undecided};
use firstseen_routing::{SlicedDefinition, Slicing};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::keys::{TestMessage, reader};

/// Time of the first event.
const START_MS: i64 = 1_700_000_000_000;

/// Returns a definition whose filters practically never have false positives.
pub(crate) fn definition(window: &str) -> SlicedDefinition {
    let kind = if window == "unbounded" { Kind::Bloom } else { Kind::Timing };
    let capacity_events = Some(50_000);
    let lateness_ms = (kind == Kind::Timing).then_some(60_000);
    let spec =
        FilterSpec { rate: 1e-9, capacity_events, lateness_ms, ..FilterSpec::new(kind, window.parse().unwrap()) };
    SlicedDefinition::new(&spec, Slicing::NONE).unwrap()
}

/// Returns messages with random keys, and with times that rise by up to `step_ms` and are late by up to ten seconds.
fn messages(rng: &mut ChaCha8Rng, count: usize, keys: u32, step_ms: i64) -> Vec<TestMessage> {
    let mut now_ms = START_MS;
    (0..count)
        .map(|index| {
            now_ms += rng.random_range(0..=step_ms);
            let key = rng.random_range(0..keys).to_le_bytes().to_vec();
            let timestamp_ms = Some(now_ms - rng.random_range(0..10_000));
            let offset = index as i64;
            TestMessage { offset, timestamp_ms, value: Some(key.clone()), key: Some(key), headers: Vec::new() }
        })
        .collect()
}

/// Returns the filter that the history gives.
fn rebuilt(definition: &SlicedDefinition, history: &[TestMessage], rng: &mut ChaCha8Rng) -> PartitionFilter {
    let mut filter = PartitionFilter::build(definition).unwrap();
    let mut reader = reader(&["@key"], "@timestamp", true);
    let mut events = Events::default();
    let mut start = 0;
    while start < history.len() {
        let end = history.len().min(start + rng.random_range(1..500));
        reader.read(&history[start..end], &mut events).unwrap();
        filter.record_history(&events, end - start, present_ms());
        start = end;
    }
    filter
}

fn present_ms() -> u64 {
    START_MS.unsigned_abs() + 400_000_000
}

/// Returns the outcomes of all messages: in random batches, with restarts of the filter between some of them.
fn run(definition: &SlicedDefinition, messages: &[TestMessage], rng: &mut ChaCha8Rng) -> Vec<Outcome> {
    let mut filter = PartitionFilter::build(definition).unwrap();
    let mut reader = reader(&["@key"], "@timestamp", true);
    let mut events = Events::default();
    let mut all = Vec::new();
    while all.len() < messages.len() {
        let start = all.len();
        let end = messages.len().min(start + rng.random_range(1..300));
        let mut outcomes = Vec::new();
        reader.read(&messages[start..end], &mut events).unwrap();
        filter.decide(&events, present_ms(), &mut outcomes);
        assert!(filter.is_pending() && filter.write_body(&mut Vec::new()).is_err(), "a pending batch is not saved");
        match rng.random_range(0..10) {
            // The process dies before the batch is committed.
            0 => filter = rebuilt(definition, &messages[..start], rng),
            // The process dies after the batch is committed.
            1 => {
                all.append(&mut outcomes);
                filter = rebuilt(definition, &messages[..end], rng);
            }
            // A checkpoint is saved after the commit, and loaded.
            2 => {
                all.append(&mut outcomes);
                filter.delivered();
                let mut body = Vec::new();
                filter.write_body(&mut body).unwrap();
                filter = PartitionFilter::read_body(definition, &mut body.as_slice()).unwrap();
            }
            _ => {
                all.append(&mut outcomes);
                filter.delivered();
            }
        }
    }
    all
}

#[test]
fn without_a_window_each_key_passes_once() {
    for seed in 0..50 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let messages = messages(&mut rng, 3000, 500, 100);
        let outcomes = run(&definition("unbounded"), &messages, &mut rng);
        let mut seen = BTreeMap::new();
        for (message, outcome) in messages.iter().zip(&outcomes) {
            let is_new = seen.insert(message.key().map(<[u8]>::to_vec), ()).is_none();
            assert_eq!(*outcome, if is_new { Outcome::New } else { Outcome::Duplicate }, "seed {seed}: {message:?}");
        }
    }
}

/// Compares a filter with a window of one hour with an exact model. The model stores, for each key, the time of the last
/// event that passed. The filter rounds times to units, so an event whose age is close to the window may have either
/// outcome.
#[test]
fn in_a_window_each_key_passes_once() {
    const WINDOW_MS: i64 = 3_600_000;
    let definition = definition("1h");
    let firstseen_filter::Unit::Milliseconds(unit_ms) = definition.group.unit else { panic!("a window of time") };
    let slack_ms = 2 * unit_ms.cast_signed() + 20_000;
    let mut borders = 0;
    for seed in 0..50 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let messages = messages(&mut rng, 3000, 400, 10_000);
        let outcomes = run(&definition, &messages, &mut rng);
        let mut passed: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        for (message, outcome) in messages.iter().zip(&outcomes) {
            let key = message.key.clone().unwrap();
            let time_ms = message.timestamp_ms.unwrap();
            let age_ms = passed.get(&key).map_or(i64::MAX, |before_ms| time_ms - before_ms);
            if (age_ms - WINDOW_MS).abs() <= slack_ms {
                borders += 1;
            } else {
                let expected = if age_ms < WINDOW_MS { Outcome::Duplicate } else { Outcome::New };
                assert_eq!(*outcome, expected, "seed {seed}: {message:?}, {age_ms} ms after the one that passed");
            }
            if *outcome == Outcome::New {
                passed.insert(key, time_ms);
            }
        }
    }
    assert!(borders < 6000, "{borders} of 150,000 outcomes were not checked");
}

/// A batch can be longer than the window. An equal key beyond the window is new, although it is in the same batch.
#[test]
fn an_equal_key_beyond_the_window_in_one_batch_is_new() {
    let hour = 3_600_000;
    let times_ms = [0, 60_000, 2 * hour, 2 * hour + 60_000, 5 * hour];
    let batch = times_ms.map(|ms| TestMessage {
        timestamp_ms: Some(START_MS + ms),
        key: Some(b"k".to_vec()),
        value: Some(Vec::new()),
        ..TestMessage::default()
    });
    let mut events = Events::default();
    reader(&["@key"], "@timestamp", true).read(&batch, &mut events).unwrap();
    let mut outcomes = Vec::new();
    PartitionFilter::build(&definition("1h")).unwrap().decide(&events, present_ms(), &mut outcomes);
    assert_eq!(outcomes, [Outcome::New, Outcome::Duplicate, Outcome::New, Outcome::Duplicate, Outcome::New]);
}

/// Returns a message with this time and key.
fn message_at(timestamp_ms: i64, key: &[u8]) -> TestMessage {
    TestMessage {
        timestamp_ms: Some(timestamp_ms),
        key: Some(key.to_vec()),
        value: Some(Vec::new()),
        ..TestMessage::default()
    }
}

/// One message with a time of next year, and one of 1970, must not end the window of the others.
#[test]
fn broken_times_are_undecided_and_change_nothing() {
    let mut batch: Vec<TestMessage> = (0..300).map(|n: u32| message_at(START_MS, &n.to_le_bytes())).collect();
    batch.insert(100, message_at(START_MS + 365 * 86_400_000, b"future"));
    batch.insert(200, message_at(0, b"past"));
    let mut events = Events::default();
    reader(&["@key"], "@timestamp", true).read(&batch, &mut events).unwrap();
    let mut outcomes = Vec::new();
    let mut filter = PartitionFilter::build(&definition("1h")).unwrap();
    filter.decide(&events, START_MS.unsigned_abs(), &mut outcomes);
    filter.delivered();
    assert_eq!(outcomes[100], Outcome::Undecided(Undecided::Future));
    assert_eq!(outcomes[200], Outcome::Undecided(Undecided::Late));
    filter.decide(&events, START_MS.unsigned_abs(), &mut outcomes);
    let duplicates = outcomes.iter().filter(|outcome| **outcome == Outcome::Duplicate).count();
    assert_eq!(duplicates, 300);
}
