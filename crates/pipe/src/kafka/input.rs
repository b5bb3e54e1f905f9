//! Consumes topics as a member of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::address::Address;
use super::client::{Change, ConsumerState, Properties, creation_error};
use super::history::History;
use super::message::KafkaMessage;
use crate::error::PipeError;
use crate::message::PartitionId;
use crate::ports::{Bounds, Committed, Input, Polled, TailEvent};

/// How long one request for a committed position may take. The pipe asks again until it is known.
const COMMITTED_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a partition may take until it can be read from another offset.
const SEEK_TIMEOUT: Duration = Duration::from_secs(30);

/// Topics of Kafka, read as a member of a group.
pub struct KafkaInput {
    consumer: Arc<BaseConsumer<ConsumerState>>,
    history: History,
    /// Partitions whose messages are delivered.
    started: BTreeSet<PartitionId>,
    /// Partitions that are assigned and not started. The value is true if a message came and was discarded, so that
    /// the partition must be read again.
    waiting: BTreeMap<PartitionId, bool>,
    is_held: bool,
    /// The partition of the last message, which is often that of the next one too.
    last: Option<PartitionId>,
}

impl KafkaInput {
    /// Joins the group.
    pub(super) fn subscribe(from: &Address, group: &str, properties: &Properties) -> Result<Self, PipeError> {
        let config = properties.consumer(from.brokers(), group);
        let consumer: BaseConsumer<ConsumerState> = config
            .create_with_context(ConsumerState::default())
            .map_err(|error| PipeError::Settings(format!("cannot create a consumer: {}", creation_error(&error))))?;
        let topics: Vec<&str> = from.topics().iter().map(String::as_str).collect();
        consumer.subscribe(&topics).map_err(|error| PipeError::log(format!("cannot subscribe to {from}"), error))?;
        Ok(Self {
            consumer: Arc::new(consumer),
            history: History::open(from.brokers(), group, properties)?,
            started: BTreeSet::new(),
            waiting: BTreeMap::new(),
            is_held: false,
            last: None,
        })
    }

    pub(super) fn consumer(&self) -> &Arc<BaseConsumer<ConsumerState>> {
        &self.consumer
    }

    /// Returns the change of the assignment as the pipe wants it.
    fn changed(&mut self, change: Change) -> Polled<KafkaMessage> {
        match change {
            Change::Assigned(ids) => {
                self.waiting.extend(ids.iter().map(|id| (id.clone(), false)));
                Polled::Assigned(ids)
            }
            Change::Revoked(ids) => {
                self.forget(&ids);
                Polled::Revoked(ids)
            }
            Change::Lost(ids) => {
                self.forget(&ids);
                Polled::Lost(ids)
            }
        }
    }

    fn forget(&mut self, ids: &[PartitionId]) {
        for id in ids {
            self.started.remove(id);
            self.waiting.remove(id);
        }
        self.last = None;
    }

    /// Returns the identity of a message's partition.
    fn id(&mut self, topic: &str, partition: i32) -> PartitionId {
        match &self.last {
            Some(last) if last.partition == partition && *last.topic == *topic => last.clone(),
            _ => {
                let id = PartitionId { topic: topic.into(), partition };
                self.last = Some(id.clone());
                id
            }
        }
    }

    /// Makes the next message of a partition the one at `offset`.
    fn seek(&self, partition: &PartitionId, offset: i64) -> Result<(), PipeError> {
        let began = Instant::now();
        loop {
            let position = Offset::Offset(offset);
            let sought = self.consumer.seek(&partition.topic, partition.partition, position, COMMITTED_TIMEOUT);
            match sought {
                Ok(()) => return Ok(()),
                Err(error) if began.elapsed() > SEEK_TIMEOUT => {
                    return Err(PipeError::log(format!("cannot read {partition} from offset {offset}"), error));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn list(partitions: impl IntoIterator<Item = impl AsRef<PartitionId>>) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            let partition = partition.as_ref();
            list.add_partition(&partition.topic, partition.partition);
        }
        list
    }
}

impl AsRef<PartitionId> for PartitionId {
    fn as_ref(&self) -> &PartitionId {
        self
    }
}

/// Returns whether an error of the consumer ends by itself.
fn is_temporary(error: &KafkaError) -> bool {
    !matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::GroupAuthorizationFailed
                | RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::Fatal
        )
    ) && !matches!(error, KafkaError::MessageConsumptionFatal(_))
}

impl Input for KafkaInput {
    type Message = KafkaMessage;

    fn poll(&mut self, wait: Duration) -> Result<Polled<KafkaMessage>, PipeError> {
        if let Some(change) = self.consumer.context().next_change() {
            return Ok(self.changed(change));
        }
        let consumer = Arc::clone(&self.consumer);
        let polled = consumer.poll(wait);
        // A rebalance happens within the call. Its messages come only with later calls.
        match polled {
            Some(Ok(message)) => {
                let id = self.id(message.topic(), message.partition());
                if self.started.contains(&id) {
                    return Ok(Polled::Message(id, KafkaMessage::of(&message)));
                }
                if let Some(is_dirty) = self.waiting.get_mut(&id) {
                    *is_dirty = true;
                }
            }
            Some(Err(error)) if !is_temporary(&error) => {
                let advice = "check that the topics exist and that the rights of this client allow to read them";
                return Err(PipeError::log("cannot consume", format!("{error}; {advice}")));
            }
            Some(Err(_)) | None => {}
        }
        let change = self.consumer.context().next_change();
        Ok(change.map_or(Polled::Nothing, |change| self.changed(change)))
    }

    fn hold(&mut self, is_held: bool) -> Result<(), PipeError> {
        if self.is_held == is_held || self.started.is_empty() {
            self.is_held = is_held && !self.started.is_empty();
            return Ok(());
        }
        self.is_held = is_held;
        let list = Self::list(&self.started);
        let done = if is_held { self.consumer.pause(&list) } else { self.consumer.resume(&list) };
        done.map_err(|error| PipeError::log("cannot pause or resume partitions", error))
    }

    fn committed(&mut self, partition: &PartitionId) -> Result<Committed, PipeError> {
        let answer = self.consumer.committed_offsets(Self::list([partition]), COMMITTED_TIMEOUT);
        let error = match answer {
            Ok(list) => match list.find_partition(&partition.topic, partition.partition) {
                Some(element) => match element.error() {
                    Ok(()) => {
                        return Ok(match element.offset() {
                            Offset::Offset(offset) => Committed::Offset(offset),
                            _ => Committed::Never,
                        });
                    }
                    Err(error) => error,
                },
                None => return Ok(Committed::NotYet),
            },
            Err(error) => error,
        };
        if is_temporary(&error) {
            return Ok(Committed::NotYet);
        }
        let what = format!("cannot read the committed offset of {partition}");
        Err(PipeError::log(what, format!("{error}{}", self.consumer.context().last_error())))
    }

    fn bounds(&mut self, partition: &PartitionId) -> Result<Bounds, PipeError> {
        self.history.bounds(partition)
    }

    fn tail(&mut self, partition: &PartitionId, before: i64) -> Result<Vec<TailEvent>, PipeError> {
        self.history.tail(partition, before)
    }

    fn offset_at(&mut self, partition: &PartitionId, time_ms: i64) -> Result<Option<i64>, PipeError> {
        self.history.offset_at(partition, time_ms)
    }

    fn open_history(&mut self, partition: &PartitionId, from: i64) -> Result<(), PipeError> {
        self.history.assign(partition, from)
    }

    fn read_history(
        &mut self,
        to: i64,
        messages_max: usize,
        wait: Duration,
        messages: &mut Vec<KafkaMessage>,
    ) -> Result<bool, PipeError> {
        let is_end = self.history.read(to, messages_max, wait, messages)?;
        if is_end {
            self.history.close();
        }
        Ok(is_end)
    }

    fn resume_at(&mut self, partition: &PartitionId, offset: i64) -> Result<(), PipeError> {
        // The group may have taken the partition away in the meantime. The pipe learns that from the next poll.
        let Some(is_dirty) = self.waiting.remove(partition) else { return Ok(()) };
        if is_dirty {
            self.seek(partition, offset)?;
        }
        self.started.insert(partition.clone());
        self.consumer
            .resume(&Self::list([partition]))
            .map_err(|error| PipeError::log(format!("cannot resume {partition}"), error))
    }

    fn suspend(&mut self, partition: &PartitionId) {
        if self.started.remove(partition) {
            // The next start begins at another offset, so the partition must be read from there.
            self.waiting.insert(partition.clone(), true);
            let _ = self.consumer.pause(&Self::list([partition]));
        }
    }

    fn ends(&self) -> Vec<(PartitionId, i64)> {
        self.consumer.context().ends()
    }

    fn leave(&mut self) {
        self.consumer.unsubscribe();
    }
}
