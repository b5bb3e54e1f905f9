//! Tests of the broker and of the Java client that the other tests of this folder rely on.

use super::broker::{Kafka, unique};
use super::client::{Client, End, Isolation, Offset, Record, Stored};

fn record(partition: u32, value: &str) -> Record {
    Record { partition, timestamp: 1_000, key: None, headers: Vec::new(), value: Some(value.as_bytes().to_vec()) }
}

fn values(stored: &[Stored]) -> Vec<String> {
    stored.iter().map(|stored| stored.record.text()).collect()
}

/// Writes records with every byte, without a key, without a value, and with headers of the same name.
fn write_all_bytes(client: &mut Client, topic: &str) -> Vec<Record> {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let headers = vec![
        ("h".to_owned(), Some(all_bytes.clone())),
        ("h".to_owned(), None),
        ("\u{fc}".to_owned(), Some(Vec::new())),
    ];
    let written = vec![
        Record { partition: 0, timestamp: 0, key: Some(all_bytes.clone()), headers, value: Some(all_bytes) },
        Record { partition: 0, timestamp: 4_000_000_000_000, key: Some(Vec::new()), headers: Vec::new(), value: None },
        Record { partition: 0, timestamp: 1, key: None, headers: Vec::new(), value: Some(Vec::new()) },
    ];
    assert_eq!(client.write(topic, &written), [0, 1, 2]);
    written
}

#[test]
fn the_reader_returns_what_the_writer_has_written() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut client = kafka.client();
    let topic = unique("written");
    client.create_topic(&topic, 2, &[("retention.ms", "-1")]);
    let written = write_all_bytes(&mut client, &topic);
    let read = client.read(&topic, Isolation::Committed);
    assert_eq!(read.iter().map(|stored| stored.offset).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(read.into_iter().map(|stored| stored.record).collect::<Vec<_>>(), written);
    client.delete_records(&topic, 0, 2);
    assert_eq!(client.offsets(&topic, Offset::Earliest), [2, 0]);
    assert_eq!(client.read(&topic, Isolation::Committed).len(), 1);
    assert_eq!(client.committed("nobody", &topic), [None, None]);
    assert_eq!((client.group("nobody").state.as_str(), client.group("nobody").owned.len()), ("Dead", 0));
}

#[test]
fn the_reader_does_not_see_aborted_transactions() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut client = kafka.client();
    let topic = unique("aborted");
    client.create_topic(&topic, 1, &[]);
    client.write_in_transaction(&topic, &[record(0, "a"), record(0, "b")], End::Abort);
    client.write_in_transaction(&topic, &[record(0, "c")], End::Commit);
    assert_eq!(values(&client.read(&topic, Isolation::Committed)), ["c"]);
    assert_eq!(values(&client.read(&topic, Isolation::Uncommitted)), ["a", "b", "c"]);
    // Each transaction ends with a marker, which has an offset as well.
    assert_eq!(client.offsets(&topic, Offset::Stable), [5]);
    assert_eq!(client.offsets(&topic, Offset::Latest), [5]);
}

#[test]
fn a_topic_is_created_again_with_another_id() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut client = kafka.client();
    let topic = unique("again");
    let first = client.create_topic(&topic, 1, &[("cleanup.policy", "compact")]);
    client.alter_topic(&topic, "cleanup.policy", "delete");
    client.write(&topic, &[record(0, "a")]);
    client.delete_topic(&topic);
    let second = client.create_topic(&topic, 3, &[]);
    assert_ne!(first, second);
    assert_eq!(client.offsets(&topic, Offset::Latest), [0, 0, 0]);
}

#[test]
fn a_killed_broker_keeps_its_records() {
    let Some(mut kafka) = Kafka::start() else { return };
    let mut client = kafka.client();
    client.create_topic("kept", 1, &[]);
    client.write("kept", &[record(0, "a")]);
    kafka.suspend();
    kafka.resume();
    client.write("kept", &[record(0, "b")]);
    kafka.kill();
    kafka.start_again();
    client.write("kept", &[record(0, "c")]);
    assert_eq!(values(&client.read("kept", Isolation::Committed)), ["a", "b", "c"]);
}
