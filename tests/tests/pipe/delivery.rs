//! Tests what a pipe delivers while nothing fails.

use std::collections::HashSet;

use super::broker::{Kafka, unique};
use super::case::Case;
use super::client::{End, Offset, Record};
use super::workload::{Shape, WINDOW_MS, Workload, user};

/// Duplicates in several partitions, over several windows.
#[test]
fn every_key_is_delivered_once_a_window_and_unchanged() {
    let Some(kafka) = Kafka::shared() else { return };
    let seed = 1;
    let mut case = Case::new(kafka, 3).with("--batch 200");
    case.write(&Workload::new(seed, Shape { partitions: 3, records: 1_500, keys: 300, epochs: 3 }).rest());
    case.drain();
    let faults = case.judge();
    assert!(faults.is_empty(), "seed {seed}: {faults}");
    let (group, input) = (case.group.clone(), case.input.clone());
    let ends: Vec<Option<u64>> = case.client.offsets(&input, Offset::Latest).into_iter().map(Some).collect();
    assert_eq!(case.client.committed(&group, &input), ends, "everything is committed");
}

/// A second run continues after the first one. Its filter must know what the first run has delivered, whatever kind of
/// filter and of window it has.
#[test]
fn a_second_run_knows_what_the_first_one_delivered() {
    let Some(kafka) = Kafka::shared() else { return };
    let seed = 2;
    for flags in [
        "--window 1h",
        "--window 1h --kind timing",
        "--window 1h --kind generations",
        "--window unbounded",
        "--window landmark:day@UTC",
    ] {
        let mut case = Case::new(kafka, 2).with(flags);
        let mut workload = Workload::new(seed, Shape { partitions: 2, records: 1_000, keys: 100, epochs: 1 });
        for _ in 0..3 {
            case.write(&workload.next(300));
            case.drain();
        }
        let faults = case.judge();
        assert!(faults.is_empty(), "seed {seed}, {flags}: {faults}");
        assert!(case.read_output().len() <= 200, "100 keys in each of two partitions");
    }
}

/// Two topics of the input have partitions with the same numbers, and each of these partitions has its own filter.
#[test]
fn several_topics_are_read() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 2);
    let other = unique("other");
    case.client.create_topic(&other, 1, &[]);
    let first = Workload::new(7, Shape { partitions: 2, records: 300, keys: 60, epochs: 1 }).rest();
    let second = Workload::new(8, Shape { partitions: 1, records: 300, keys: 60, epochs: 1 }).rest();
    case.write(&first);
    case.client.write(&other, &second);
    let both = format!("{},{other}", case.url(&case.input));
    let mut case = case.without("--duplicates").with(&format!("--from {both}"));
    case.drain();
    let mut passed: Vec<Record> = Vec::new();
    for records in [first, second] {
        let mut seen = HashSet::new();
        passed.extend(records.into_iter().filter(|record| seen.insert((record.partition, user(record)))));
    }
    let mut output = case.read_output();
    output.sort();
    passed.sort();
    assert_eq!(output, passed);
}

/// Records of a transaction that the producer has aborted do not exist for the pipe.
#[test]
fn aborted_records_of_the_input_are_neither_passed_nor_remembered() {
    let Some(kafka) = Kafka::shared() else { return };
    let seed = 3;
    let mut case = Case::new(kafka, 1);
    let mut workload = Workload::new(seed, Shape { partitions: 1, records: 600, keys: 1_000, epochs: 1 });
    let first = workload.next(200);
    let aborted = workload.next(200);
    // The same keys as in the aborted transaction, with other values.
    let again: Vec<Record> = aborted
        .iter()
        .map(|record| {
            let text = record.text().replace("\"text\":", "\"again\":");
            Record { value: Some(text.into_bytes()), ..record.clone() }
        })
        .collect();
    let input = case.input.clone();
    case.client.write_in_transaction(&input, &first, End::Commit);
    case.client.write_in_transaction(&input, &aborted, End::Abort);
    case.client.write_in_transaction(&input, &again, End::Commit);
    case.drain();
    let faults = case.judge();
    assert!(faults.is_empty(), "seed {seed}: {faults}");
    let has_again = case.read_output().iter().any(|record| record.text().contains("\"again\":"));
    assert!(has_again, "keys of the aborted transaction are new afterwards");
}

/// The input ends with thousands of records that do not exist, and with the markers of their transactions.
#[test]
fn the_end_of_the_input_is_found_behind_aborted_records() {
    let Some(kafka) = Kafka::shared() else { return };
    let seed = 5;
    let mut case = Case::new(kafka, 2);
    let mut workload = Workload::new(seed, Shape { partitions: 2, records: 3_000, keys: 100, epochs: 1 });
    case.write(&workload.next(300));
    let input = case.input.clone();
    for _ in 0..2 {
        let aborted = workload.next(1_000);
        case.client.write_in_transaction(&input, &aborted, End::Abort);
    }
    case.drain();
    case.write(&workload.next(100));
    case.drain();
    let faults = case.judge();
    assert!(faults.is_empty(), "seed {seed}: {faults}");
}

/// Equal keys in two partitions are independent, because each partition has its own filter.
#[test]
fn partitions_are_independent() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 2);
    let mut workload = Workload::new(4, Shape { partitions: 1, records: 50, keys: 1_000_000, epochs: 1 });
    let mut records = workload.next(50);
    let elsewhere: Vec<Record> = records.iter().map(|record| Record { partition: 1, ..record.clone() }).collect();
    records.extend(elsewhere);
    case.write(&records);
    case.drain();
    let faults = case.judge();
    assert!(faults.is_empty(), "{faults}");
    assert_eq!(case.read_output().len(), records.len());
}

/// A single wrong time passes without a verdict. It must not make the pipe forget all others, wherever it is in a batch.
#[test]
fn a_wrong_time_does_not_move_the_clock() {
    let Some(kafka) = Kafka::shared() else { return };
    let batch = 100;
    for place in [0, 50, batch - 1] {
        let mut case = Case::new(kafka, 1).with(&format!("--batch {batch} --json"));
        let mut records = Workload::new(6, Shape { partitions: 1, records: 600, keys: 50, epochs: 1 }).rest();
        records[300 + place].timestamp += 1_000 * WINDOW_MS;
        case.write(&records);
        let report = case.drain().report();
        assert!(report["undecided"]["late"].is_null(), "at {place} in a batch: {report}");
        let passed = case.read_output().len();
        assert!(passed <= 50 + 1, "at {place} in a batch: {passed} of 50 keys passed, and one wrong time");
    }
}
