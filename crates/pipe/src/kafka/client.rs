//! Settings of librdkafka: those that the guarantees need, and those of the user's file.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryResult, ProducerContext};
use rdkafka::statistics::Statistics;
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::error::PipeError;
use crate::message::PartitionId;

/// Properties that the guarantees depend on, so that a file must not change them.
const OURS: [&str; 12] = [
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "group.id",
    "group.protocol",
    "isolation.level",
    "metadata.broker.list",
    "request.required.acks",
    "transactional.id",
];

/// Properties of Java clients, and what librdkafka has instead.
const JAVA: [(&str, &str); 6] = [
    ("sasl.jaas.config", "sasl.username and sasl.password"),
    (
        "ssl.keystore.location",
        "ssl.certificate.location and ssl.key.location, or ssl.keystore.location in PKCS#12 form",
    ),
    ("ssl.keystore.type", "ssl.certificate.location and ssl.key.location in PEM form"),
    ("ssl.truststore.location", "ssl.ca.location, a file in PEM form"),
    ("ssl.truststore.password", "ssl.ca.location, a file in PEM form"),
    ("ssl.truststore.type", "ssl.ca.location, a file in PEM form"),
];

/// Client properties of a file, in the names of librdkafka.
#[derive(Clone, Debug, Default)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Reads a file of client properties: lines of the form `name=value`, and comments that begin with `#`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if a property cannot be used.
    pub fn read(path: &Path) -> Result<Self, PipeError> {
        let text = fs::read_to_string(path).map_err(|error| {
            PipeError::Settings(format!("cannot read the client properties {}: {error}", path.display()))
        })?;
        Self::parse(&text).map_err(|reason| PipeError::Settings(format!("{}: {reason}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut properties = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let (name, value) = line.split_once('=').ok_or_else(|| format!("line {}: write name=value", number + 1))?;
            let name = name.trim();
            if OURS.contains(&name) {
                return Err(format!("line {}: the pipe sets `{name}` itself; leave it out", number + 1));
            }
            if name != "ssl.keystore.location"
                && let Some((_, instead)) = JAVA.iter().find(|(java, _)| *java == name)
            {
                return Err(format!("line {}: `{name}` is for Java clients; write {instead}", number + 1));
            }
            properties.insert(name.to_owned(), value.trim().to_owned());
        }
        let properties = Self(properties);
        properties.check_tls()?;
        Ok(properties)
    }

    /// Refuses properties for which this build has no code.
    fn check_tls(&self) -> Result<(), String> {
        let protocol = self.0.get("security.protocol").map(|value| value.to_ascii_lowercase()).unwrap_or_default();
        let mechanism = self.0.get("sasl.mechanism").or(self.0.get("sasl.mechanisms"));
        let mechanism = mechanism.map(|value| value.to_ascii_uppercase()).unwrap_or_default();
        let needs_tls = protocol.contains("ssl") || mechanism.starts_with("SCRAM") || mechanism == "OAUTHBEARER";
        if needs_tls && !cfg!(feature = "kafka-tls") {
            return Err(
                "this build of firstseen has no TLS to Kafka, which these properties need (security.protocol, \
                        sasl.mechanism); build it with `cargo build --release --features pipe-tls`"
                    .to_owned(),
            );
        }
        if mechanism == "GSSAPI" || (protocol.contains("sasl") && mechanism.is_empty()) {
            return Err(
                "Kerberos (sasl.mechanism=GSSAPI, the default) is not built in; choose PLAIN, SCRAM-SHA-512 or \
                        OAUTHBEARER with sasl.mechanism"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Returns the settings of a consumer.
    pub(crate) fn consumer(&self, brokers: &str, group: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("auto.offset.reset", "earliest")
            .set("partition.assignment.strategy", "cooperative-sticky")
            .set("queued.max.messages.kbytes", "16384")
            .set("statistics.interval.ms", "2000");
        self.add_to(&mut config);
        config
            .set("bootstrap.servers", brokers)
            .set("group.id", group)
            .set("group.protocol", "classic")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("isolation.level", "read_committed")
            .set("allow.auto.create.topics", "false");
        config.set_log_level(RDKafkaLogLevel::Error);
        config
    }

    /// Returns the settings of a producer. `transactional_id` is `None` for a producer without transactions.
    pub(crate) fn producer(&self, brokers: &str, transactional_id: Option<&str>) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("message.max.bytes", "104857600")
            .set("queue.buffering.max.kbytes", "131072")
            .set("queue.buffering.max.messages", "200000")
            .set("transaction.timeout.ms", "30000");
        self.add_to(&mut config);
        config.set("bootstrap.servers", brokers).set("enable.idempotence", "true").set("acks", "all");
        if let Some(id) = transactional_id {
            config.set("transactional.id", id);
        } else {
            config.remove("transaction.timeout.ms");
        }
        config.set_log_level(RDKafkaLogLevel::Error);
        config
    }

    fn add_to(&self, config: &mut ClientConfig) {
        for (name, value) in &self.0 {
            config.set(name, value);
        }
    }
}

/// Describes why a client cannot be created. The value of a wrong property is left out, because it may be a password.
pub(super) fn creation_error(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, reason, name, _) => format!("property `{name}`: {reason}"),
        error => error.to_string(),
    }
}

/// Change of the assignment.
#[derive(Debug)]
pub(crate) enum Change {
    Assigned(Vec<PartitionId>),
    Revoked(Vec<PartitionId>),
    Lost(Vec<PartitionId>),
}

/// What librdkafka reports to a consumer.
#[derive(Default)]
pub(crate) struct ConsumerState {
    changes: Mutex<VecDeque<Change>>,
    ends: Mutex<Vec<(PartitionId, i64)>>,
    last_error: Mutex<Option<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ConsumerState {
    /// Returns the next change of the assignment.
    pub(crate) fn next_change(&self) -> Option<Change> {
        locked(&self.changes).pop_front()
    }

    /// Returns the end offsets that the last statistics contained.
    pub(crate) fn ends(&self) -> Vec<(PartitionId, i64)> {
        locked(&self.ends).clone()
    }

    /// Returns the last error of a connection, as the end of a message.
    pub(crate) fn last_error(&self) -> String {
        locked(&self.last_error).as_ref().map(|error| format!(" ({error})")).unwrap_or_default()
    }
}

impl ClientContext for ConsumerState {
    fn error(&self, _: KafkaError, reason: &str) {
        *locked(&self.last_error) = Some(reason.to_owned());
    }

    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn stats(&self, statistics: Statistics) {
        let mut ends = Vec::new();
        for (name, topic) in &statistics.topics {
            for (partition, figures) in &topic.partitions {
                if figures.desired && *partition >= 0 && figures.ls_offset >= 0 {
                    let id = PartitionId { topic: name.as_str().into(), partition: *partition };
                    ends.push((id, figures.ls_offset));
                }
            }
        }
        *locked(&self.ends) = ends;
    }
}

impl ConsumerContext for ConsumerState {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(partitions) = rebalance {
            let ids = ids_of(partitions);
            let change = if consumer.assignment_lost() { Change::Lost(ids) } else { Change::Revoked(ids) };
            locked(&self.changes).push_back(change);
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            // Messages wait until the filter is rebuilt. A message that comes nevertheless is read again.
            let _ = consumer.pause(partitions);
            locked(&self.changes).push_back(Change::Assigned(ids_of(partitions)));
        }
    }
}

fn ids_of(partitions: &TopicPartitionList) -> Vec<PartitionId> {
    let elements = partitions.elements();
    elements.iter().map(|it| PartitionId { topic: it.topic().into(), partition: it.partition() }).collect()
}

/// Message that could not be delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    /// Number of messages that were written before it in this attempt.
    pub(crate) index: usize,
    pub(crate) code: RDKafkaErrorCode,
}

impl Failed {
    /// Returns whether the brokers rejected this message only because they rejected another one of the same request.
    pub(crate) fn is_consequence(self) -> bool {
        self.code == RDKafkaErrorCode::InvalidDifferentRecord
    }

    /// Returns whether this message explains a failure better than another one: a fault of its own comes first, then
    /// the place in the attempt.
    fn explains_better_than(self, other: Self) -> bool {
        (self.is_consequence(), self.index) < (other.is_consequence(), other.index)
    }
}

/// What librdkafka reports to a producer.
#[derive(Default)]
pub(crate) struct ProducerState {
    failed: Mutex<Option<Failed>>,
}

impl ProducerState {
    /// Returns the first message of the attempt that could not be delivered.
    pub(crate) fn failed(&self) -> Option<Failed> {
        *locked(&self.failed)
    }

    /// Forgets the messages of the attempt before.
    pub(crate) fn clear(&self) {
        *locked(&self.failed) = None;
    }
}

impl ClientContext for ProducerState {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, _: KafkaError, _: &str) {}
}

impl ProducerContext for ProducerState {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        let Err((error, _)) = result else { return };
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        let mut failed = locked(&self.failed);
        // Messages that were discarded when the attempt was aborted say nothing.
        if matches!(code, RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight) {
            return;
        }
        // The first message with a fault of its own is the one to name.
        let found = Failed { index, code };
        if failed.is_none_or(|known| found.explains_better_than(known)) {
            *failed = Some(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_properties_is_read() {
        let properties = Properties::parse("# comment\n\nclient.id = pipe-1\nfetch.wait.max.ms=20\n").unwrap();
        let config = properties.consumer("b:9092", "once");
        assert_eq!(config.get("client.id"), Some("pipe-1"));
        assert_eq!(config.get("isolation.level"), Some("read_committed"));
    }

    #[test]
    fn a_property_that_would_break_a_guarantee_is_refused() {
        for line in ["isolation.level=read_uncommitted", "auto.offset.reset=latest", "transactional.id=x", "nonsense"] {
            let reason = Properties::parse(line).unwrap_err();
            assert!(reason.starts_with("line 1: "), "{reason}");
        }
        assert!(Properties::parse("ssl.truststore.location=/x.jks").unwrap_err().contains("ssl.ca.location"));
    }

    #[cfg(not(feature = "kafka-tls"))]
    #[test]
    fn a_build_without_tls_names_the_feature() {
        for text in ["security.protocol=SSL", "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512"] {
            assert!(Properties::parse(text).unwrap_err().contains("--features pipe-tls"));
        }
        Properties::parse("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN").unwrap();
    }
}
