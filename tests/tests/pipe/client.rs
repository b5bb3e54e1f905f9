//! Writes and reads topics with Kafka's own Java client, which shares no code with the tested program.
//!
//! One Java process executes the commands of a [`Client`], one after the other.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::run::Folder;

use super::build::java;

/// Records that are sent to the Java process in one command.
const RECORDS_IN_COMMAND: usize = 2_000;

/// Record of a partition, without its offset.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Record {
    pub(super) partition: u32,
    pub(super) timestamp: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(super) value: Option<Vec<u8>>,
}

impl Debug for Record {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut text = self.to_json().to_string();
        if let Some((end, _)) = text.char_indices().nth(400) {
            text.truncate(end);
            text.push_str("...");
        }
        f.write_str(&text)
    }
}

impl Record {
    fn to_json(&self) -> Value {
        let headers: Vec<Value> =
            self.headers.iter().map(|(name, value)| json!([name, text(value.as_deref())])).collect();
        json!({
            "partition": self.partition,
            "timestamp": self.timestamp,
            "key": text(self.key.as_deref()),
            "value": text(self.value.as_deref()),
            "headers": headers,
        })
    }

    fn from_json(line: &Value) -> Self {
        let headers = line["headers"].as_array().expect("headers").iter();
        let header = |header: &Value| (header[0].as_str().expect("a name").to_owned(), bytes(&header[1]));
        Self {
            partition: line["partition"].as_u64().and_then(|number| u32::try_from(number).ok()).expect("a partition"),
            timestamp: line["timestamp"].as_i64().expect("a timestamp"),
            key: bytes(&line["key"]),
            headers: headers.map(header).collect(),
            value: bytes(&line["value"]),
        }
    }

    /// Removes the headers that a pipe has added, and returns their values by the part of their names after the dash.
    pub(super) fn take_marks(&mut self) -> BTreeMap<String, String> {
        let mut marks = BTreeMap::new();
        self.headers.retain(|(name, value)| {
            let Some(mark) = name.strip_prefix("firstseen-") else { return true };
            let text = String::from_utf8_lossy(value.as_deref().unwrap_or_default()).into_owned();
            marks.insert(mark.to_owned(), text);
            false
        });
        marks
    }

    /// Returns the value as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
}

/// Returns the form in which the Java process exchanges bytes: each character is one byte.
fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| bytes.iter().map(|byte| char::from(*byte)).collect())
}

fn bytes(text: &Value) -> Option<Vec<u8>> {
    let byte = |character: char| u8::try_from(u32::from(character)).expect("a character that is a byte");
    text.as_str().map(|text| text.chars().map(byte).collect())
}

/// Record as a reader has received it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    pub(super) offset: u64,
    pub(super) record: Record,
}

/// Which records a reader receives.
#[derive(Clone, Copy)]
pub(super) enum Isolation {
    Committed,
    Uncommitted,
}

/// Which offset of a partition is meant.
#[derive(Clone, Copy)]
pub(super) enum Offset {
    Earliest,
    /// First offset of a transaction that has not ended, or otherwise the end.
    Stable,
    Latest,
}

/// How a transaction of the writer ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    Commit,
    Abort,
}

/// State of a consumer group.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// State in Kafka's words, such as `Stable` or `Empty`.
    pub(super) state: String,
    /// Number of partitions that each member owns, sorted.
    pub(super) owned: Vec<u64>,
}

/// Client of a broker, which ends with the test.
pub(super) struct Client {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _folder: Folder,
}

impl Client {
    pub(super) fn start(class_path: &str, broker: &str) -> Self {
        let folder = Folder::new();
        let mut command = java(class_path, 384, &folder.path(""), "clients.KafkaClient");
        command.arg(broker).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("java");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, input, output, _folder: folder }
    }

    /// Executes a command, and returns the lines before its reply, and the reply or the error.
    fn execute(&mut self, command: &Value) -> (Vec<Value>, Result<Value, String>) {
        writeln!(self.input, "{command}").expect("the Java client runs");
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("text");
            assert!(length > 0, "the Java client ended during {command}");
            let mut line: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if let Some(error) = line["error"].as_str() {
                return (lines, Err(error.to_owned()));
            }
            if !line["done"].is_null() {
                return (lines, Ok(line["done"].take()));
            }
            lines.push(line);
        }
    }

    /// Executes a command that prints nothing before its reply.
    fn done(&mut self, command: &Value) -> Value {
        let (_, reply) = self.execute(command);
        reply.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Creates a topic with settings such as `("retention.ms", "-1")`, and returns its id.
    pub(super) fn create_topic(&mut self, topic: &str, partitions: u32, settings: &[(&str, &str)]) -> String {
        let settings: Value = settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let command = json!({"do": "create topic", "topic": topic, "partitions": partitions, "config": settings});
        self.done(&command).as_str().expect("an id").to_owned()
    }

    pub(super) fn delete_topic(&mut self, topic: &str) {
        self.done(&json!({"do": "delete topic", "topic": topic}));
    }

    pub(super) fn alter_topic(&mut self, topic: &str, name: &str, value: &str) {
        let mut settings = serde_json::Map::new();
        settings.insert(name.to_owned(), json!(value));
        self.done(&json!({"do": "alter topic", "topic": topic, "config": settings}));
    }

    /// Deletes the records of a partition before an offset.
    pub(super) fn delete_records(&mut self, topic: &str, partition: u32, before: u64) {
        self.done(&json!({"do": "delete records", "topic": topic, "partition": partition, "before": before}));
    }

    /// Writes records in their order, and returns their offsets.
    pub(super) fn write(&mut self, topic: &str, records: &[Record]) -> Vec<u64> {
        let mut offsets = Vec::new();
        for records in records.chunks(RECORDS_IN_COMMAND) {
            let records: Vec<Value> = records.iter().map(Record::to_json).collect();
            let written = self.done(&json!({"do": "write", "topic": topic, "records": records}));
            offsets.extend(numbers(&written));
        }
        offsets
    }

    /// Writes records in a transaction.
    pub(super) fn write_in_transaction(&mut self, topic: &str, records: &[Record], end: End) -> Vec<u64> {
        let records: Vec<Value> = records.iter().map(Record::to_json).collect();
        let end = match end {
            End::Commit => "commit",
            End::Abort => "abort",
        };
        numbers(&self.done(&json!({"do": "write", "topic": topic, "records": records, "transaction": end})))
    }

    /// Returns the records of a topic up to its present end. The records of each partition are in order.
    pub(super) fn read(&mut self, topic: &str, isolation: Isolation) -> Vec<Stored> {
        let isolation = match isolation {
            Isolation::Committed => "read_committed",
            Isolation::Uncommitted => "read_uncommitted",
        };
        let (lines, reply) = self.execute(&json!({"do": "read", "topic": topic, "isolation": isolation}));
        let count = reply.unwrap_or_else(|error| panic!("reading {topic}: {error}"));
        assert_eq!(count.as_u64(), Some(lines.len() as u64), "{topic}");
        let stored = |line: &Value| Stored {
            offset: line["offset"].as_u64().expect("an offset"),
            record: Record::from_json(line),
        };
        lines.iter().map(stored).collect()
    }

    /// Returns an offset of each partition.
    pub(super) fn offsets(&mut self, topic: &str, which: Offset) -> Vec<u64> {
        let which = match which {
            Offset::Earliest => "earliest",
            Offset::Stable => "stable",
            Offset::Latest => "latest",
        };
        numbers(&self.done(&json!({"do": "offsets", "topic": topic, "which": which})))
    }

    /// Returns the committed offset of each partition of a topic, or `None` where the group has committed none.
    pub(super) fn committed(&mut self, group: &str, topic: &str) -> Vec<Option<u64>> {
        let offsets = self.done(&json!({"do": "committed", "group": group, "topic": topic}));
        offsets.as_array().expect("offsets").iter().map(Value::as_u64).collect()
    }

    pub(super) fn group(&mut self, group: &str) -> Group {
        let group = self.done(&json!({"do": "group", "group": group}));
        let mut owned = numbers(&group["owned"]);
        owned.sort_unstable();
        Group { state: group["state"].as_str().expect("a state").to_owned(), owned }
    }
}

fn numbers(array: &Value) -> Vec<u64> {
    array.as_array().expect("numbers").iter().map(|number| number.as_u64().expect("a number")).collect()
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
