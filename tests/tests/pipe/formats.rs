//! Tests that pipes deliver unusual messages unchanged, or stop with an error that names their place. The messages have
//! values that are not JSON, null values, bytes in headers, a large size, or times that are far from the others. Some
//! topics are compacted.

use std::collections::BTreeMap;

use super::broker::{Kafka, unique};
use super::case::Case;
use super::client::Record;
use super::workload::{Shape, WINDOW_MS, Workload};

const TIME_MS: i64 = 1_700_000_000_000;
const YEAR_MS: i64 = 366 * 24 * 3_600_000;

fn record(number: i64, value: Option<&[u8]>) -> Record {
    Record {
        partition: 0,
        timestamp: TIME_MS + number,
        key: Some(format!("key {number}").into_bytes()),
        headers: vec![("bytes".to_owned(), Some((0..=255).collect())), ("null".to_owned(), None)],
        value: value.map(<[u8]>::to_vec),
    }
}

/// Returns values from which `json:user` cannot be read.
fn poison() -> Vec<Option<Vec<u8>>> {
    let texts: [&[u8]; 12] = [
        b"",
        b" ",
        b"\n",
        b"not JSON",
        b"{\"user\":\"u1\"",
        b"[{\"user\":\"u1\"}]",
        b"\"user\"",
        b"{\"other\":1}",
        b"{\"user\":\"u1\"} {\"user\":\"u2\"}",
        b"{\"user\":\"u1\"}\n{\"user\":\"u2\"}",
        b"{\"user\":\"\xff\xfe\"",
        b"\x00\x00\x00\x00\x07avro",
    ];
    let mut values: Vec<Option<Vec<u8>>> = texts.iter().map(|text| Some(text.to_vec())).collect();
    values.push(None);
    values.push(Some(vec![b'x'; 1 << 20]));
    values
}

/// Returns a valid record before and after each poisonous one.
fn poisoned() -> Vec<Record> {
    let mut records = Vec::new();
    let mut number = 0;
    for value in poison() {
        let valid = format!("{{\"user\":\"v{number}\"}}");
        records.push(record(number, Some(valid.as_bytes())));
        records.push(record(number + 1, value.as_deref()));
        number += 2;
    }
    records
}

/// Removes the headers that the pipe has added.
fn unmarked(mut records: Vec<Record>) -> Vec<Record> {
    for record in &mut records {
        record.take_marks();
    }
    records
}

/// Creates a case with topics that accept messages of several MiB, and a topic of dead letters.
fn with_dead_letters(kafka: &Kafka, partitions: u32) -> (Case, String) {
    let mut case = Case::new(kafka, partitions);
    let dead = unique("dead");
    case.client.create_topic(&dead, partitions, &[]);
    for topic in [case.input.clone(), case.output.clone(), case.duplicates.clone(), dead.clone()] {
        case.client.alter_topic(&topic, "max.message.bytes", "8388608");
    }
    (case, dead)
}

#[test]
fn records_without_a_key_become_dead_letters() {
    let Some(kafka) = Kafka::shared() else { return };
    let (case, dead) = with_dead_letters(kafka, 1);
    let url = case.url(&dead);
    let mut case = case.with(&format!("--batch 7 --dead-letter {url}"));
    let records = poisoned();
    case.write(&records);
    case.drain();
    let is_valid = |record: &Record| record.text().starts_with("{\"user\":\"v");
    let (valid, poison): (Vec<Record>, Vec<Record>) = records.into_iter().partition(is_valid);
    assert_eq!(case.read_output(), valid);
    assert_eq!(unmarked(case.read(&dead)), poison);
}

/// Dead letters belong to the transaction of their batch, so a kill neither loses nor repeats them.
#[test]
fn dead_letters_are_delivered_once() {
    let Some(kafka) = Kafka::shared() else { return };
    let (case, dead) = with_dead_letters(kafka, 1);
    let url = case.url(&dead);
    let mut case = case.with(&format!("--batch 5 --dead-letter {url}"));
    case.write(&poisoned());
    for point in ["after-produce:1", "after-offsets:1", "after-commit:1"] {
        let kill = ("FIRSTSEEN_PIPE_KILL_AT", point.to_owned());
        assert!(case.start_with(&["--until-end"], &[kill]).wait().is_killed(), "{point}");
    }
    case.drain();
    let dead = unmarked(case.read(&dead));
    assert_eq!(dead.len(), poison().len());
    assert_eq!(case.read_output().len(), poison().len(), "there are as many valid records");
}

#[test]
fn without_dead_letters_the_pipe_stops_at_the_record() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 2);
    let valid =
        |number: i64| Record { partition: 1, ..record(number, Some(format!("{{\"user\":{number}}}").as_bytes())) };
    let mut records: Vec<Record> = (0..5).map(valid).collect();
    records.push(Record { partition: 1, ..record(5, Some(b"not JSON")) });
    records.push(valid(6));
    case.write(&records);
    let place = format!("{}/1 at offset 5", case.input);
    for _ in 0..2 {
        // The second run stops at the same record. The records before it are delivered once.
        case.run(&[]).fails(1, &[&place, "--dead-letter"]);
    }
    let delivered = case.read_output();
    assert!(delivered.len() <= 5 && records.starts_with(&delivered), "{delivered:?}");
    let dead = unique("dead");
    case.client.create_topic(&dead, 2, &[]);
    let url = case.url(&dead);
    case.run(&["--dead-letter", &url]).ok();
    assert_eq!(case.read_output().len(), 6);
    assert_eq!(case.read(&dead).len(), 1);
}

/// Bytes of any kind are keys: the value, a header, and the key of the message.
#[test]
fn keys_are_bytes() {
    let Some(kafka) = Kafka::shared() else { return };
    for key in ["@value", "@header:id", "@key"] {
        let mut case = Case::new(kafka, 1).with(&format!("--key {key}"));
        let bytes: [&[u8]; 6] = [b"", b"\x00", b"\xff\xfe", b"\n", b"a", b"a\n"];
        let mut records = Vec::new();
        for number in 0..12 {
            let unique = Some(format!("{number}").into_bytes());
            let id = Some(bytes[number % bytes.len()].to_vec());
            let timestamp = TIME_MS + i64::try_from(number).expect("a small number");
            let mut record =
                Record { partition: 0, timestamp, key: unique.clone(), headers: Vec::new(), value: unique.clone() };
            match key {
                "@value" => record.value = id,
                "@key" => record.key = id,
                // The last of several headers with one name counts.
                _ => record.headers = vec![("id".to_owned(), unique), ("id".to_owned(), id)],
            }
            records.push(record);
        }
        case.write(&records);
        case.drain();
        assert_eq!(case.read_output(), records[..bytes.len()], "{key}");
    }
}

/// A null value is not an empty value. With a key that does not need the value, it deletes the key and passes.
#[test]
fn null_values_pass_unchanged() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 1).with("--key @key");
    let with_key = |number: i64, value| Record { key: Some(b"k".to_vec()), ..record(number, value) };
    let records =
        [with_key(0, None), with_key(1, Some(b"a")), with_key(2, None), with_key(3, Some(b"a")), with_key(4, None)];
    case.write(&records);
    case.drain();
    let [first, second, third, _, last] = records;
    assert_eq!(case.read_output(), [first, second, third, last]);
}

#[test]
fn messages_of_a_mebibyte_pass() {
    let Some(kafka) = Kafka::shared() else { return };
    let (mut case, _) = with_dead_letters(kafka, 2);
    let mut records = Vec::new();
    for number in 0..12 {
        let text = "x".repeat(1 << 20);
        let value = format!("{{\"user\":\"{}\",\"text\":\"{text}\",\"number\":{number}}}", number / 2);
        let partition = u32::try_from(number / 2 % 2).expect("a small number");
        records.push(Record { partition, ..record(number, Some(value.as_bytes())) });
    }
    case.write(&records);
    case.drain();
    let sizes = |records: &[Record]| -> Vec<usize> {
        records.iter().map(|record| record.value.as_ref().map_or(0, Vec::len)).collect()
    };
    let output = case.read_output();
    assert_eq!(output.len(), 6, "{:?}", sizes(&output));
    assert!(output.iter().all(|record| records.contains(record)), "the bytes are unchanged");
    let duplicates = case.duplicates.clone();
    assert_eq!(case.read(&duplicates).len(), 6);
}

/// The broker stores the input in each of Kafka's compressions.
#[test]
fn compressed_messages_pass() {
    let Some(kafka) = Kafka::shared() else { return };
    for codec in ["gzip", "snappy", "lz4", "zstd"] {
        let mut case = Case::new(kafka, 1);
        let input = case.input.clone();
        case.client.alter_topic(&input, "compression.type", codec);
        case.write(&Workload::new(10, Shape { partitions: 1, records: 300, keys: 50, epochs: 1 }).rest());
        case.drain();
        let faults = case.judge();
        assert!(faults.is_empty(), "{codec}: {faults}");
    }
}

/// The output accepts smaller messages than the input. The pipe cannot deliver the message, and must not skip it.
#[test]
fn a_message_that_is_too_large_for_the_output_stops_the_pipe() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 1);
    let output = case.output.clone();
    case.client.alter_topic(&output, "max.message.bytes", "10000");
    let large = format!("{{\"user\":\"large\",\"text\":\"{}\"}}", "x".repeat(50_000));
    let records =
        [record(0, Some(b"{\"user\":\"a\"}")), record(1, Some(large.as_bytes())), record(2, Some(b"{\"user\":\"b\"}"))];
    case.write(&records);
    let place = format!("{}/0 at offset 1", case.input);
    case.run(&[]).fails(1, &[&place, &output]);
    case.client.alter_topic(&output, "max.message.bytes", "1000000");
    case.drain();
    assert_eq!(case.read_output(), records);
}

/// Each message fits, but a batch of several would not.
#[test]
fn messages_that_fit_pass_however_many_there_are() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 1);
    let output = case.output.clone();
    case.client.alter_topic(&output, "max.message.bytes", "10000");
    let text = "x".repeat(2_000);
    let value = |number: i64| format!("{{\"user\":{number},\"text\":\"{text}\"}}");
    let records: Vec<Record> = (0..100).map(|number| record(number, Some(value(number).as_bytes()))).collect();
    case.write(&records);
    case.drain();
    assert_eq!(case.read_output(), records);
}

#[test]
fn a_compacted_input_needs_consent() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 1);
    let input = case.input.clone();
    case.client.alter_topic(&input, "cleanup.policy", "compact");
    case.write(&[record(0, Some(b"{\"user\":\"a\"}"))]);
    case.run(&[]).fails(2, &[&input, "compact", "--allow-compacted"]);
    case.run(&["--allow-compacted"]).ok();
    assert_eq!(case.read_output().len(), 1);
}

/// Times far from the others are not a reason to skip or to stop. Each record is in one of the topics.
#[test]
fn no_time_loses_a_record() {
    let Some(kafka) = Kafka::shared() else { return };
    let (case, dead) = with_dead_letters(kafka, 1);
    let url = case.url(&dead);
    let mut case = case.with(&format!("--batch 40 --dead-letter {url}"));
    let shape = Shape { partitions: 1, records: 1_000, keys: 100, epochs: 1 };
    let mut records = Workload::new(9, shape).rest();
    let strange = [0, 1, TIME_MS + YEAR_MS, TIME_MS - 30 * WINDOW_MS, TIME_MS + 3 * WINDOW_MS, i64::MAX / 1_000_000];
    for (number, time) in strange.iter().cycle().take(60).enumerate() {
        records[number * 16 + 7].timestamp = *time;
    }
    case.write(&records);
    case.drain();
    let duplicates = case.duplicates.clone();
    let mut places: BTreeMap<Record, u32> = BTreeMap::new();
    let mut delivered = case.read_output();
    delivered.extend(case.read(&duplicates));
    delivered.extend(case.read(&dead));
    for record in unmarked(delivered) {
        *places.entry(record).or_default() += 1;
    }
    for record in &mut records {
        // librdkafka cannot write the time 0, so the earliest time in an output is 1 ms later.
        record.timestamp = record.timestamp.max(1);
        assert_eq!(places.remove(record), Some(1), "{record:?}");
    }
    assert!(places.is_empty(), "{places:?}");
}
