//! Produces the messages of a batch and the positions of the group in one transaction.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firstseen_embedded::drawn_seed;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, PurgeConfig};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::address::Address;
use super::client::{ConsumerState, ProducerState, Properties, creation_error};
use super::message::KafkaMessage;
use crate::error::PipeError;
use crate::faults::{self, Rule};
use crate::message::PartitionId;
use crate::ports::{Aborted, Delivery, Event, Note, Output, Target, WriteError};

/// How long one step of a transaction may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a commit is repeated whose outcome is not known.
const COMMIT_ATTEMPTS: u32 = 3;
/// How long a message waits for room in the queue of the producer.
const ROOM_TIMEOUT: Duration = Duration::from_secs(60);

/// Size of a batch that librdkafka sends at once.
const BATCH_BYTES: u64 = 1_000_000;

/// What an output guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// Messages and positions are committed together.
    ExactlyOnce,
    /// Positions are committed after the messages.
    AtLeastOnce,
}

/// Topics of an output.
#[derive(Clone, Debug)]
pub struct Targets {
    /// Brokers and topic of the output.
    pub output: Address,
    /// Topic of duplicates.
    pub duplicates: Option<String>,
    /// Topic of dead letters, and the number of its partitions.
    pub dead_letters: Option<(String, i32)>,
    /// Maximum size of a batch that all of these topics accept.
    pub batch_bytes_max: Option<u64>,
}

/// Topics of Kafka to which messages are written.
pub struct KafkaOutput {
    targets: Targets,
    topic: String,
    properties: Properties,
    /// `None` without transactions.
    transactional_id: Option<String>,
    producer: BaseProducer<ProducerState>,
    /// The consumer whose positions are committed.
    consumer: Arc<BaseConsumer<ConsumerState>>,
    /// A consumer that is no member of the group, for a test that breaks the fencing.
    stranger: Option<BaseConsumer>,
    positions: TopicPartitionList,
    /// Number of messages that were written in this attempt.
    written: usize,
}

impl KafkaOutput {
    pub(super) fn open(
        targets: Targets,
        group: &str,
        properties: &Properties,
        guarantee: Guarantee,
        consumer: Arc<BaseConsumer<ConsumerState>>,
    ) -> Result<Self, PipeError> {
        let topic = targets.output.topic().map_err(PipeError::Settings)?.to_owned();
        // The identity is new in each process. The group fences former owners, so processes need no common identity.
        let transactional_id = match guarantee {
            Guarantee::ExactlyOnce => Some(format!("firstseen-pipe-{group}-{:016x}", drawn_seed())),
            Guarantee::AtLeastOnce => None,
        };
        let producer = create(properties, &targets, transactional_id.as_deref())
            .map_err(|error| PipeError::Settings(format!("cannot create a producer: {}", creation_error(&error))))?;
        if transactional_id.is_some() {
            producer.init_transactions(STEP_TIMEOUT).map_err(|error| {
                let advice = "check the brokers, and the right to write with the transactional id";
                PipeError::log(format!("cannot begin transactions at {}", targets.output), format!("{error}; {advice}"))
            })?;
        }
        let stranger = if faults::is_broken(Rule::NoFencing) {
            properties.consumer(targets.output.brokers(), group).create().ok()
        } else {
            None
        };
        let positions = TopicPartitionList::new();
        let properties = properties.clone();
        Ok(Self { targets, topic, properties, transactional_id, producer, consumer, stranger, positions, written: 0 })
    }

    /// Waits until the brokers have all messages of the attempt.
    fn flush(&mut self) -> Result<(), Delivery> {
        let flushed = self.producer.flush(STEP_TIMEOUT);
        if let Some(failed) = self.producer.context().failed() {
            let reason = format!("Kafka rejects the message: {}{}", failed.code, advice(failed.code));
            if is_permanent(failed.code) {
                return Err(Delivery::Never { index: failed.index, reason });
            }
            return Err(Delivery::Aborted(Aborted { reason, is_fenced: false }));
        }
        let reason = match flushed {
            Ok(()) => return Ok(()),
            Err(error) => format!("the brokers did not take all messages in time: {error}"),
        };
        Err(Delivery::Aborted(Aborted { reason, is_fenced: false }))
    }

    fn commit_transaction(&mut self) -> Delivery {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let error = match self.producer.commit_transaction(STEP_TIMEOUT) {
                Ok(()) => return Delivery::Committed,
                Err(error) => error,
            };
            let KafkaError::Transaction(cause) = &error else { return Delivery::Unknown(error.to_string()) };
            if cause.txn_requires_abort() {
                return self.abort(aborted(&error));
            }
            if !cause.is_retriable() || attempts == COMMIT_ATTEMPTS {
                return Delivery::Unknown(error.to_string());
            }
        }
    }

    /// Commits the positions of an output without transactions. The brokers have the messages already, so the commit is
    /// repeated for a while before the whole attempt is.
    fn commit_positions(&mut self) -> Delivery {
        let began = Instant::now();
        loop {
            let aborted = match self.consumer.commit(&self.positions, CommitMode::Sync) {
                Ok(()) => return Delivery::Committed,
                Err(error) => aborted(&error),
            };
            if aborted.is_fenced || began.elapsed() > STEP_TIMEOUT {
                return Delivery::Aborted(aborted);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn create(
    properties: &Properties,
    targets: &Targets,
    transactional_id: Option<&str>,
) -> Result<BaseProducer<ProducerState>, KafkaError> {
    let mut config = properties.producer(targets.output.brokers(), transactional_id);
    let asked = config.get("batch.size").and_then(|bytes| bytes.parse().ok()).unwrap_or(BATCH_BYTES);
    if let Some(limit) = targets.batch_bytes_max.filter(|limit| *limit < asked) {
        config.set("batch.size", limit.max(1).to_string());
    }
    config.create_with_context(ProducerState::default())
}

/// Describes an error after which the attempt is aborted.
fn aborted(error: &KafkaError) -> Aborted {
    let code = match error {
        KafkaError::Transaction(cause) => Some(cause.code()),
        error => error.rdkafka_error_code(),
    };
    let is_fenced = matches!(
        code,
        Some(
            RDKafkaErrorCode::IllegalGeneration
                | RDKafkaErrorCode::UnknownMemberId
                | RDKafkaErrorCode::FencedInstanceId
                | RDKafkaErrorCode::ProducerFenced
                | RDKafkaErrorCode::InvalidProducerEpoch
                | RDKafkaErrorCode::RebalanceInProgress
                | RDKafkaErrorCode::Fenced
        )
    );
    Aborted { reason: error.to_string(), is_fenced }
}

/// Returns whether the brokers will never accept a message that they rejected with this code.
fn is_permanent(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::InvalidTimestamp
            | RDKafkaErrorCode::InvalidRecord
            | RDKafkaErrorCode::PolicyViolation
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::InvalidTopic
            | RDKafkaErrorCode::UnknownPartition
    )
}

/// Returns what the user can do about a rejected message.
fn advice(code: RDKafkaErrorCode) -> &'static str {
    match code {
        RDKafkaErrorCode::MessageSizeTooLarge => "; raise max.message.bytes of the output to that of the input",
        RDKafkaErrorCode::InvalidTimestamp => {
            "; set message.timestamp.before.max.ms and message.timestamp.after.max.ms of the output to those of the input"
        }
        RDKafkaErrorCode::InvalidRecord => {
            "; a compacted output needs keys, and message.timestamp.before.max.ms and message.timestamp.after.max.ms of the \
             output limit times"
        }
        RDKafkaErrorCode::UnknownPartition => {
            "; give the output as many partitions as the input, and start the pipe again"
        }
        RDKafkaErrorCode::TopicAuthorizationFailed => "; grant this client the right to write to the topic",
        _ => "",
    }
}

/// Adds headers that say where a message came from and why it was written to this topic.
fn described(event: &Event<'_, KafkaMessage>, note: Note<'_>) -> OwnedHeaders {
    let reason = match note {
        Note::Duplicate => "duplicate".to_owned(),
        Note::Undecided(undecided) => undecided.name().to_owned(),
        Note::Rejected(rejection) => format!("{}: {rejection}", rejection.name()),
    };
    let partition = event.partition.partition.to_string();
    let offset = event.message.offset.to_string();
    let headers = event.message.headers.clone().unwrap_or_else(|| OwnedHeaders::new_with_capacity(4));
    headers
        .insert(Header { key: "firstseen-topic", value: Some(&*event.partition.topic) })
        .insert(Header { key: "firstseen-partition", value: Some(&partition) })
        .insert(Header { key: "firstseen-offset", value: Some(&offset) })
        .insert(Header { key: "firstseen-reason", value: Some(&reason) })
}

impl Output<KafkaMessage> for KafkaOutput {
    fn begin(&mut self) -> Result<(), Delivery> {
        self.producer.context().clear();
        self.written = 0;
        self.positions = TopicPartitionList::new();
        if let Some((_, reason)) = self.producer.client().fatal_error() {
            return Err(Delivery::Unknown(reason));
        }
        if self.transactional_id.is_none() {
            return Ok(());
        }
        self.producer.begin_transaction().map_err(|error| Delivery::Unknown(error.to_string()))
    }

    fn write(&mut self, event: &Event<'_, KafkaMessage>) -> Result<(), WriteError> {
        let number = event.partition.partition;
        let (topic, partition) = match (event.target, &self.targets) {
            (Target::Output, _) => (self.topic.as_str(), number),
            (Target::Duplicates, Targets { duplicates: Some(topic), .. }) => (topic.as_str(), number),
            (Target::DeadLetters, Targets { dead_letters: Some((topic, count)), .. }) => {
                (topic.as_str(), number % (*count).max(1))
            }
            (Target::Duplicates | Target::DeadLetters, _) => {
                return Err(WriteError::Abort("there is no topic for this message".to_owned()));
            }
        };
        let message = event.message;
        let mut record: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(topic, self.written).partition(partition);
        // librdkafka takes the time 0 for "now", so the earliest time that it can write is 1 ms after 1970.
        record.timestamp = message.timestamp_ms.map(|time_ms| time_ms.max(1));
        record.key = message.key.as_deref();
        record.payload = message.value.as_deref();
        record.headers = match event.note {
            Some(note) => Some(described(event, note)),
            None => message.headers.clone(),
        };
        let began = Instant::now();
        loop {
            match self.producer.send(record) {
                Ok(()) => break,
                Err((error, back)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) => {
                    if began.elapsed() > ROOM_TIMEOUT {
                        return Err(WriteError::Abort("the brokers do not take messages".to_owned()));
                    }
                    record = back;
                    self.producer.poll(Duration::from_millis(10));
                }
                Err((error, _)) => {
                    let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
                    let reason = format!("Kafka rejects the message: {code}{}", advice(code));
                    return Err(if is_permanent(code) {
                        WriteError::Never { index: self.written, reason }
                    } else {
                        WriteError::Abort(reason)
                    });
                }
            }
        }
        self.written += 1;
        if self.written.is_multiple_of(1000) {
            self.producer.poll(Duration::ZERO);
        }
        Ok(())
    }

    fn add_positions(&mut self, positions: &[(PartitionId, i64)]) -> Result<(), Aborted> {
        for (partition, position) in positions {
            let offset = Offset::Offset(*position);
            self.positions
                .add_partition_offset(&partition.topic, partition.partition, offset)
                .map_err(|error| aborted(&error))?;
        }
        if self.transactional_id.is_none() {
            return Ok(());
        }
        let membership = match &self.stranger {
            Some(stranger) => stranger.group_metadata(),
            None => self.consumer.group_metadata(),
        };
        let membership = membership
            .ok_or_else(|| Aborted { reason: "this process is no member of the group".to_owned(), is_fenced: true })?;
        // Kafka accepts the offsets of a process that has left the group in the meantime and so has no membership.
        if self.stranger.is_none() && self.consumer.assignment_lost() {
            return Err(Aborted { reason: "the group has given the partitions away".to_owned(), is_fenced: true });
        }
        let began = Instant::now();
        loop {
            match self.producer.send_offsets_to_transaction(&self.positions, &membership, STEP_TIMEOUT) {
                Ok(()) => return Ok(()),
                Err(KafkaError::Transaction(cause)) if cause.is_retriable() && began.elapsed() < STEP_TIMEOUT => {}
                Err(error) => return Err(aborted(&error)),
            }
        }
    }

    fn commit(&mut self) -> Delivery {
        match self.flush() {
            Ok(()) if self.transactional_id.is_some() => self.commit_transaction(),
            Ok(()) => self.commit_positions(),
            Err(Delivery::Never { index, reason }) => {
                match self.abort(Aborted { reason: reason.clone(), is_fenced: false }) {
                    Delivery::Unknown(unknown) => Delivery::Unknown(unknown),
                    _ => Delivery::Never { index, reason },
                }
            }
            Err(Delivery::Aborted(aborted)) => self.abort(aborted),
            Err(delivery) => delivery,
        }
    }

    fn abort(&mut self, aborted: Aborted) -> Delivery {
        self.producer.purge(PurgeConfig::default().queue().inflight());
        // The reports of discarded messages must be read before the transaction can end.
        let _ = self.producer.flush(Duration::from_secs(5));
        if self.transactional_id.is_none() {
            return Delivery::Aborted(aborted);
        }
        match self.producer.abort_transaction(STEP_TIMEOUT) {
            Ok(()) => Delivery::Aborted(aborted),
            Err(error) => Delivery::Unknown(format!("{}; cannot abort: {error}", aborted.reason)),
        }
    }

    fn recover(&mut self) -> Result<(), String> {
        let id = self.transactional_id.as_deref();
        let producer = create(&self.properties, &self.targets, id).map_err(|error| creation_error(&error))?;
        if id.is_some() {
            // A new producer with the same identity ends the transaction of the former one: it is committed if the
            // brokers had begun to commit it, and aborted otherwise.
            producer.init_transactions(STEP_TIMEOUT).map_err(|error| error.to_string())?;
        }
        self.producer = producer;
        Ok(())
    }
}
