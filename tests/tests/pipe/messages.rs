//! Tests the modes of `firstseen pipe`, its reports, and its messages to users who have made a mistake.

use nix::sys::signal::Signal;

use crate::local_cluster::eventually;
use crate::ports::free_ports;

use super::broker::{Kafka, unique};
use super::case::Case;
use super::process::page;
use super::workload::{Shape, Workload, user};

const SHAPE: Shape = Shape { partitions: 2, records: 400, keys: 50, epochs: 1 };

/// Everything passes, and only duplicates have a mark.
#[test]
fn shadow_marks_duplicates_and_passes_everything() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, SHAPE.partitions).without("--duplicates").with("--shadow --json");
    let records = Workload::new(1, SHAPE).rest();
    case.write(&records);
    let report = case.drain().report();
    let output = case.read_output();
    assert_eq!(output.len(), records.len());
    let mut seen = std::collections::HashSet::new();
    let mut marked = 0;
    for mut record in output {
        let marks = record.take_marks();
        let is_new = seen.insert((record.partition, user(&record)));
        let reason = if is_new { None } else { Some("duplicate") };
        assert_eq!(marks.get("reason").map(String::as_str), reason, "{record:?}");
        marked += u64::from(!is_new);
        assert!(records.contains(&record), "{record:?}");
    }
    assert_eq!(report["duplicates"].as_u64(), Some(marked), "{report}");
}

/// Without a topic of duplicates, they are dropped.
#[test]
fn duplicates_are_dropped_without_a_topic_for_them() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, SHAPE.partitions).without("--duplicates").with("--json");
    case.write(&Workload::new(2, SHAPE).rest());
    let report = case.drain().report();
    assert_eq!(report["events"].as_u64(), Some(SHAPE.records), "{report}");
    let passed = case.read_output().len() as u64;
    assert_eq!(report["passed"].as_u64(), Some(passed), "{report}");
    assert_eq!(report["duplicates"].as_u64(), Some(SHAPE.records - passed), "{report}");
}

#[test]
fn a_running_pipe_says_when_it_is_ready() {
    let Some(kafka) = Kafka::shared() else { return };
    let port = free_ports(1);
    let mut case = Case::new(kafka, SHAPE.partitions).with(&format!("--http 127.0.0.1:{port}"));
    let mut workload = Workload::new(3, SHAPE);
    case.write(&workload.next(200));
    let pipe = case.start_with(&[], &[]);
    eventually("readiness", || page(port, "/readyz").is_some_and(|(status, _)| status == 200));
    eventually("all records are processed", || case.processed() == 200);
    let (status, metrics) = page(port, "/metrics").expect("metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("firstseen_pipe_"), "{metrics}");
    pipe.signal(Signal::SIGTERM);
    let ended = pipe.wait().stopped();
    assert!(!ended.err.is_empty(), "the start line says which guarantee holds");
    let faults = case.judge();
    assert!(faults.is_empty(), "{faults}");
}

/// The end of the input is where it was at the start, so a producer that does not stop does not keep the pipe running.
#[test]
fn until_end_ends_also_without_any_record() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 3);
    case.drain();
    assert_eq!(case.read_output().len(), 0);
    // Two of the three partitions stay empty.
    let shape = Shape { partitions: 1, ..SHAPE };
    case.write(&Workload::new(4, shape).rest());
    case.drain();
    let faults = case.judge();
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn missing_topics_are_named() {
    let Some(kafka) = Kafka::shared() else { return };
    let missing = unique("missing");
    for flag in ["--from", "--to", "--duplicates", "--dead-letter"] {
        let case = Case::new(kafka, 1);
        let url = case.url(&missing);
        let case = case.with(&format!("{flag} {url}"));
        case.run(&[]).fails(2, &[&missing, "create"]);
    }
}

#[test]
fn a_broker_that_is_not_there_is_named() {
    let Some(kafka) = Kafka::shared() else { return };
    let case = Case::new(kafka, 1);
    let address = format!("127.0.0.1:{}", free_ports(1));
    let case = case.with(&format!("--from kafka://{address}/in --to kafka://{address}/out")).without("--duplicates");
    let ended = case.run(&[]);
    assert!(ended.code.is_some_and(|code| code != 0), "{ended:?}");
    assert!(ended.err.contains(&address), "{}", ended.err);
}

/// The output has another number of partitions, so records cannot keep theirs.
#[test]
fn an_output_with_fewer_partitions_is_refused() {
    let Some(kafka) = Kafka::shared() else { return };
    let mut case = Case::new(kafka, 2);
    let narrow = unique("narrow");
    case.client.create_topic(&narrow, 1, &[]);
    let url = case.url(&narrow);
    let case = case.with(&format!("--to {url}"));
    case.run(&[]).fails(2, &[&narrow, "partitions"]);
}

#[test]
fn wrong_flags_are_refused_before_anything_is_read() {
    let Some(kafka) = Kafka::shared() else { return };
    for (flags, words) in [
        ("--key user", ["--key", "json:"]),
        ("--key json:", ["--key", "json:"]),
        ("--time never", ["--time", "@timestamp"]),
        ("--window 0s", ["window", "`0s`"]),
        ("--batch 0", ["--batch", "0"]),
        ("--from clicks", ["--from", "kafka://"]),
        ("--to kafka://127.0.0.1:1", ["--to", "TOPIC"]),
        ("--guarantee sometimes", ["--guarantee", "exactly-once"]),
    ] {
        let case = Case::new(kafka, 1).with(flags);
        let ended = case.run(&[]).fails(2, &words);
        assert!(ended.out.is_empty(), "{flags}: {}", ended.out);
    }
}

/// Output to the input topic would be an endless loop.
#[test]
fn the_output_is_not_the_input() {
    let Some(kafka) = Kafka::shared() else { return };
    let case = Case::new(kafka, 1);
    let url = case.url(&case.input);
    let case = case.with(&format!("--to {url}"));
    case.run(&[]).fails(2, &[&case.input, "another topic"]);
}

/// Two outputs in one topic cannot be told apart.
#[test]
fn the_outputs_are_different_topics() {
    let Some(kafka) = Kafka::shared() else { return };
    let case = Case::new(kafka, 1);
    let url = case.url(&case.output);
    case.run(&["--dead-letter", &url]).fails(2, &[&case.output, "another topic"]);
    let case = case.with(&format!("--duplicates {url}"));
    case.run(&[]).fails(2, &[&case.output, "another topic"]);
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let Some(kafka) = Kafka::shared() else { return };
    let case = Case::new(kafka, 1).with("--state state");
    case.folder.write("broken.properties", "session.timeout.ms");
    case.folder.write("ours.properties", "isolation.level=read_uncommitted");
    case.folder.write("unknown.properties", "no.such.property=1");
    case.folder.write("java.properties", "ssl.truststore.location=/etc/ssl");
    for (file, words) in [
        ("missing.properties", ["missing.properties", "No such file"]),
        ("broken.properties", ["broken.properties: line 1", "name=value"]),
        ("ours.properties", ["ours.properties: line 1", "isolation.level"]),
        ("unknown.properties", ["client properties", "no.such.property"]),
        ("java.properties", ["java.properties: line 1", "ssl.ca.location"]),
    ] {
        case.run(&["--kafka-config", file]).fails(2, &words);
    }
    case.run(&["--shadow"]).fails(2, &["--shadow", "--duplicates"]);
    case.run(&["--undecided", "aside"]).fails(2, &["--undecided", "--dead-letter"]);
}

/// A port, and a folder of checkpoints, belong to one pipe at a time.
#[test]
fn what_another_pipe_uses_is_named() {
    let Some(kafka) = Kafka::shared() else { return };
    let port = free_ports(1);
    let mut case = Case::new(kafka, 1).with(&format!("--http 127.0.0.1:{port} --state state"));
    case.write(&Workload::new(5, Shape { partitions: 1, ..SHAPE }).rest());
    let pipe = case.start_with(&[], &[]);
    eventually("readiness", || page(port, "/readyz").is_some_and(|(status, _)| status == 200));
    let locked = case.run(&[]);
    assert!(locked.code == Some(1) && locked.err.contains("state"), "{locked:?}");
    let other = case.run(&["--state", "other"]);
    assert!(other.code == Some(1) && other.err.contains(&port.to_string()), "{other:?}");
    pipe.end().stopped();
}
