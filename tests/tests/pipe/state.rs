//! Tests how a pipe learns what was delivered before it started: from the input, or from a checkpoint.

use std::collections::HashSet;

use super::broker::Kafka;
use super::case::Case;
use super::client::{Offset, Record};
use super::workload::{Shape, WINDOW_MS, Workload, user};

const SHAPE: Shape = Shape { partitions: 2, records: 2_000, keys: 200, epochs: 1 };

/// Words with which a pipe says that its filter does not know everything that was delivered.
const MAY_PASS_TWICE: &str = "may pass twice";

#[test]
fn a_checkpoint_makes_a_rebuild_short() {
    let Some(kafka) = Kafka::shared() else { return };
    for (flags, is_short) in [("--json", false), ("--json --state state", true)] {
        let mut case = Case::new(kafka, SHAPE.partitions).with(flags);
        let mut workload = Workload::new(1, SHAPE);
        case.write(&workload.next(1_500));
        case.drain();
        case.write(&workload.next(100));
        let report = case.drain().report();
        let rebuilt = report["rebuilds"]["events"].as_u64().expect("a number");
        assert_eq!(rebuilt < 100, is_short, "{flags}: {rebuilt} events were read again");
        let faults = case.judge();
        assert!(faults.is_empty(), "{flags}: {faults}");
    }
}

/// The records of a topic that is created again are other events, even if the offsets and the bytes are the same.
#[test]
fn a_checkpoint_of_a_deleted_topic_is_not_used() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, SHAPE.partitions).with("--state state");
    let input = case.input.clone();
    let records = Workload::new(2, SHAPE).next(500);
    case.write(&records);
    case.drain();
    let first = case.read_output();
    case.client.delete_topic(&input);
    case.client.create_topic(&input, SHAPE.partitions, &[]);
    case.write(&records);
    case.drain();
    let all = case.read_output();
    assert_eq!(all.len(), first.len() * 2, "the keys of the new topic are new");
}

/// The input keeps only the records of the last minutes, so a rebuild cannot know all keys of the window.
#[test]
fn a_pipe_without_a_checkpoint_says_what_may_pass_twice() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 1);
    let shape = Shape { partitions: 1, ..SHAPE };
    let mut workload = Workload::new(3, shape);
    case.write(&workload.next(1_000));
    let ended = case.drain();
    assert!(!ended.err.contains(MAY_PASS_TWICE), "nothing is missing: {}", ended.err);
    let input = case.input.clone();
    let all: Vec<Record> = case.read(&input);
    case.client.delete_records(&input, 0, 900);
    case.write(&workload.next(500));
    let ended = case.drain();
    assert!(ended.err.contains(MAY_PASS_TWICE), "{}", ended.err);
    assert!(ended.err.contains(&input), "the message names the topic: {}", ended.err);
    // Every record is delivered all the same, to one of the two topics.
    let duplicates = case.duplicates.clone();
    let delivered = case.read_output().len() + case.read(&duplicates).len();
    assert_eq!(delivered, all.len() + 500);
}

/// A checkpoint knows the keys of records that the input no longer has.
#[test]
fn a_checkpoint_outlives_the_retention_of_the_input() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 1).with("--state state");
    let input = case.input.clone();
    let shape = Shape { partitions: 1, ..SHAPE };
    let mut workload = Workload::new(4, shape);
    case.write(&workload.next(1_000));
    case.drain();
    let first = case.read_output();
    case.client.delete_records(&input, 0, 900);
    assert_eq!(case.client.offsets(&input, Offset::Earliest), [900]);
    case.write(&workload.next(500));
    let ended = case.drain();
    assert!(!ended.err.contains(MAY_PASS_TWICE), "{}", ended.err);
    let all = case.read_output();
    let keys: HashSet<String> = all.iter().map(user).collect();
    assert!(all.len() >= first.len() && all.len() == keys.len(), "no key is delivered again");
}

/// Records that the input has deleted before the pipe has read them are gone. The pipe says which ones.
#[test]
fn deleted_records_that_were_not_read_are_named() {
    let Some(kafka) = Kafka::shared() else { return };
    for flags in ["", "--state state"] {
        let mut case = Case::new(kafka, 1).with(flags);
        let input = case.input.clone();
        let shape = Shape { partitions: 1, ..SHAPE };
        let mut workload = Workload::new(7, shape);
        case.write(&workload.next(300));
        case.drain();
        case.write(&workload.next(300));
        case.client.delete_records(&input, 0, 450);
        let ended = case.drain();
        assert!(ended.err.contains(&format!("{input}/0")), "{}", ended.err);
        assert!(ended.err.contains("300") && ended.err.contains("450"), "{}", ended.err);
        let duplicates = case.duplicates.clone();
        assert_eq!(case.read_output().len() + case.read(&duplicates).len(), 450, "{flags}");
    }
}

/// Changes the times of records by their number.
fn with_times(records: &[Record], time: impl Fn(i64) -> i64) -> Vec<Record> {
    let numbered = (0_i64..).zip(records);
    numbered.map(|(number, record)| Record { timestamp: time(number), ..record.clone() }).collect()
}

/// A record with a time in the far future is near the place where the next pipe continues. The pipe must not believe
/// that everything before it is out of the window.
#[test]
fn a_wrong_time_does_not_shorten_the_rebuild() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 1);
    let shape = Shape { partitions: 1, records: 20_000, keys: 200, epochs: 1 };
    let mut workload = Workload::new(5, shape);
    let mut records = workload.next(1_300);
    // The other records of the batch contradict the time.
    records[1_280].timestamp += 1_000 * WINDOW_MS;
    case.write(&records);
    case.drain();
    let delivered = case.read_output().len();
    case.write(&workload.next(500));
    let ended = case.drain();
    let all = case.read_output();
    let keys: HashSet<String> = all.iter().map(user).collect();
    // The record with the wrong time may pass although its key is not new.
    assert!(
        all.len() >= delivered && all.len() <= keys.len() + 1,
        "{} for {} keys: {}",
        all.len(),
        keys.len(),
        ended.err
    );
}

/// The times of the events are in the values, and the log's own times are days apart. A rebuild by the log's times would
/// miss events that are in the window.
#[test]
fn a_rebuild_by_times_in_the_values_reads_the_whole_window() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 1).with("--time json:at");
    let shape = Shape { partitions: 1, records: 20_000, keys: 100, epochs: 1 };
    let mut workload = Workload::new(6, shape);
    let at_values: Vec<Record> = workload
        .next(600)
        .into_iter()
        .map(|record| {
            let text = record.text().replacen('{', "{\"at\":1700000000,", 1);
            Record { value: Some(text.into_bytes()), ..record }
        })
        .collect();
    let records = with_times(&at_values, |number| 1_700_000_000_000 + number * WINDOW_MS);
    case.write(&records[..400]);
    case.drain();
    let delivered = case.read_output().len();
    case.write(&records[400..]);
    case.drain();
    let faults = case.judge_constant_time();
    assert!(faults.is_empty(), "{delivered} were delivered before the restart: {faults}");
}
