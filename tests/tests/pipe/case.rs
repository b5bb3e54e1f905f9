//! A pipe with its topics: an input, an output and a topic of duplicates, on one broker.

use crate::run::Folder;

use super::broker::{Kafka, Lease, unique};
use super::client::{Isolation, Record, Stored};
use super::judge::{Faults, Topics, judge};
use super::process::{Ended, Pipe};
use super::workload::{WINDOW_FLAG, user};

/// Client properties of pipes. The times are short, so that a successor need not wait long for a killed pipe.
const PROPERTIES: &str = "\
session.timeout.ms=1500
heartbeat.interval.ms=300
transaction.timeout.ms=5000
";

/// Topics and flags of a pipe.
pub(super) struct Case {
    pub(super) client: Lease,
    pub(super) folder: Folder,
    pub(super) input: String,
    pub(super) output: String,
    pub(super) duplicates: String,
    pub(super) group: String,
    address: String,
    flags: Vec<String>,
}

impl Case {
    /// Creates the topics of a pipe, with the same number of partitions.
    pub(super) fn new(kafka: &Kafka, partitions: u32) -> Self {
        let folder = Folder::new();
        folder.write("kafka.properties", PROPERTIES);
        let case = Self {
            client: kafka.client(),
            folder,
            input: unique("in"),
            output: unique("out"),
            duplicates: unique("duplicates"),
            group: unique("group"),
            address: kafka.address(),
            flags: Vec::new(),
        };
        case.with_topics(partitions).with(&format!(
            "--key json:user --time @timestamp --window {WINDOW_FLAG} --capacity 100k --fpr 1e-6 --kafka-config \
             kafka.properties --linger 5ms"
        ))
    }

    fn with_topics(mut self, partitions: u32) -> Self {
        for topic in [&self.input, &self.output, &self.duplicates] {
            self.client.create_topic(topic, partitions, &[]);
        }
        let topics = format!(
            "--from {} --to {} --duplicates {} --group {}",
            self.url(&self.input),
            self.url(&self.output),
            self.url(&self.duplicates),
            self.group
        );
        self.with(&topics)
    }

    /// Adds flags, which are separated by spaces. A flag replaces an earlier one with the same name.
    pub(super) fn with(mut self, flags: &str) -> Self {
        replace(&mut self.flags, flags.split_whitespace());
        self
    }

    /// Removes a flag and its value.
    pub(super) fn without(mut self, flag: &str) -> Self {
        remove(&mut self.flags, flag);
        self
    }

    /// Returns the address of a topic in the form of the flags.
    pub(super) fn url(&self, topic: &str) -> String {
        format!("kafka://{}/{topic}", self.address)
    }

    /// Writes records to the input.
    pub(super) fn write(&mut self, records: &[Record]) {
        self.client.write(&self.input, records);
    }

    /// Starts a pipe with further flags and environment variables. It runs until a signal ends it, or until the end of the
    /// input with `--until-end`.
    pub(super) fn start_with(&self, flags: &[&str], variables: &[(&str, String)]) -> Pipe {
        let mut arguments = self.flags.clone();
        replace(&mut arguments, flags.iter().copied());
        Pipe::start(&self.folder, &arguments, variables)
    }

    /// Runs a pipe until it has read the input up to its end, and returns how it ended.
    pub(super) fn run(&self, flags: &[&str]) -> Ended {
        self.start_with(&[&["--until-end"], flags].concat(), &[]).wait()
    }

    /// Runs a pipe until it has read the input up to its end.
    ///
    /// # Panics
    /// Panics if the pipe fails.
    pub(super) fn drain(&self) -> Ended {
        self.run(&[]).ok()
    }

    /// Returns the records of a topic that a reader of committed records receives, in order.
    pub(super) fn read(&mut self, topic: &str) -> Vec<Record> {
        self.client.read(topic, Isolation::Committed).into_iter().map(|stored| stored.record).collect()
    }

    /// Returns the records of the output, in order.
    pub(super) fn read_output(&mut self) -> Vec<Record> {
        self.read(&self.output.clone())
    }

    /// Returns the number of records of the input that the group has processed.
    pub(super) fn processed(&mut self) -> u64 {
        self.client.committed(&self.group, &self.input).into_iter().flatten().sum()
    }

    /// Judges the output by the input, with the keys and times of a [`super::workload::Workload`].
    pub(super) fn judge(&mut self) -> Faults {
        let [input, output, duplicates] = self.topics();
        judge(&Topics { input: &input, output: &output, duplicates: &duplicates }, user)
    }

    /// Returns the records of input, output and duplicates. Checks and removes what the pipe has added to duplicates.
    fn topics(&mut self) -> [Vec<Stored>; 3] {
        let mut topics =
            [&self.input, &self.output, &self.duplicates].map(|topic| self.client.read(topic, Isolation::Committed));
        for stored in &mut topics[2] {
            let marks = stored.record.take_marks();
            assert_eq!(marks.get("reason").map(String::as_str), Some("duplicate"), "{:?}", stored.record);
            assert_eq!(marks.get("topic"), Some(&self.input), "{:?}", stored.record);
            assert_eq!(marks.get("partition"), Some(&stored.record.partition.to_string()), "{:?}", stored.record);
        }
        topics
    }

    /// Does the same for events that all have the same time in their values, whatever the log's times are.
    pub(super) fn judge_constant_time(&mut self) -> Faults {
        let mut topics = self.topics();
        for stored in topics.iter_mut().flatten() {
            stored.record.timestamp = 0;
        }
        let [input, output, duplicates] = topics;
        judge(&Topics { input: &input, output: &output, duplicates: &duplicates }, user)
    }
}

/// Adds flags to a command line. A flag replaces an earlier one with the same name.
fn replace<'f>(arguments: &mut Vec<String>, flags: impl Iterator<Item = &'f str>) {
    let mut words = flags.peekable();
    while let Some(flag) = words.next() {
        remove(arguments, flag);
        arguments.push(flag.to_owned());
        if let Some(value) = words.next_if(|word| !word.starts_with("--")) {
            arguments.push(value.to_owned());
        }
    }
}

/// Removes a flag and its value from a command line.
fn remove(arguments: &mut Vec<String>, flag: &str) {
    let Some(place) = arguments.iter().position(|word| word == flag) else { return };
    let values = arguments[place + 1..].iter().take_while(|word| !word.starts_with("--")).count();
    arguments.drain(place..=place + values);
}
