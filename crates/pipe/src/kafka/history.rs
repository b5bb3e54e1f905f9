//! Reads a range of one partition, independently of the group.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::REQUEST_TIMEOUT;
use super::client::{Properties, creation_error};
use super::message::KafkaMessage;
use crate::error::PipeError;
use crate::message::{Message, PartitionId};
use crate::ports::{Bounds, TailEvent};

/// Distances before an offset at which the last messages are looked for. Offsets without messages, such as those of
/// transaction markers, can make a larger distance necessary.
const TAIL_DISTANCES: [i64; 4] = [64, 4096, 1 << 18, i64::MAX];
/// Number of last messages that are returned.
const TAIL_MESSAGES: usize = 64;
/// Maximum size of the messages that one call of [`History::read`] appends.
const READ_BYTES: usize = 16 << 20;
/// How long a request is repeated while the brokers do not answer.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for which the last messages are looked for.
const TAIL_TIMEOUT: Duration = Duration::from_secs(60);

/// A consumer that belongs to no group and reads one partition at a time.
pub(super) struct History {
    consumer: BaseConsumer,
    partition: Option<PartitionId>,
    /// Offset of the next message.
    next: i64,
}

impl History {
    pub(super) fn open(brokers: &str, group: &str, properties: &Properties) -> Result<Self, PipeError> {
        let mut config = properties.consumer(brokers, group);
        config.set("enable.partition.eof", "true").set("statistics.interval.ms", "0").remove("group.instance.id");
        let consumer =
            config.create().map_err(|error| PipeError::log("cannot create a consumer", creation_error(&error)))?;
        Ok(Self { consumer, partition: None, next: 0 })
    }

    /// Begins to read a partition from an offset on.
    pub(super) fn assign(&mut self, partition: &PartitionId, from: i64) -> Result<(), PipeError> {
        let mut list = TopicPartitionList::new();
        let added = list.add_partition_offset(&partition.topic, partition.partition, Offset::Offset(from));
        added
            .and_then(|()| self.consumer.assign(&list))
            .map_err(|error| PipeError::log(format!("cannot read {partition} from offset {from}"), error))?;
        self.partition = Some(partition.clone());
        self.next = from;
        Ok(())
    }

    /// Frees the memory of messages that were fetched ahead.
    pub(super) fn close(&mut self) {
        let _ = self.consumer.unassign();
        self.partition = None;
    }

    /// Appends messages before offset `to`. Returns whether there are no more.
    pub(super) fn read(
        &mut self,
        to: i64,
        messages_max: usize,
        wait: Duration,
        messages: &mut Vec<KafkaMessage>,
    ) -> Result<bool, PipeError> {
        let Some(partition) = self.partition.clone() else { return Ok(true) };
        let end = Instant::now() + wait;
        let mut bytes = 0;
        while self.next < to {
            if messages.len() >= messages_max || bytes >= READ_BYTES {
                return Ok(false);
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.consumer.poll(left) {
                Some(Ok(message)) => {
                    let is_ours = message.partition() == partition.partition && message.topic() == &*partition.topic;
                    if !is_ours || message.offset() < self.next {
                        continue;
                    }
                    self.next = message.offset() + 1;
                    if message.offset() >= to {
                        return Ok(true);
                    }
                    let message = KafkaMessage::of(&message);
                    bytes += message.size_bytes();
                    messages.push(message);
                }
                Some(Err(KafkaError::PartitionEOF(number))) if number == partition.partition => return Ok(true),
                Some(Err(error @ KafkaError::MessageConsumptionFatal(_))) => {
                    return Err(PipeError::log(format!("cannot read {partition}"), error));
                }
                Some(Err(_)) | None if left.is_zero() => return Ok(false),
                Some(Err(_)) | None => {}
            }
        }
        Ok(true)
    }

    /// Returns positions and times of the last messages before an offset.
    pub(super) fn tail(&mut self, partition: &PartitionId, before: i64) -> Result<Vec<TailEvent>, PipeError> {
        let first = self.bounds(partition)?.first;
        let began = Instant::now();
        for distance in TAIL_DISTANCES {
            let from = before.saturating_sub(distance).max(first);
            let mut messages = Vec::new();
            let mut events: Vec<TailEvent> = Vec::new();
            self.assign(partition, from)?;
            while !self.read(before, 10_000, Duration::from_millis(100), &mut messages)? {
                keep_tail(&mut messages, &mut events);
                if began.elapsed() > TAIL_TIMEOUT {
                    let reason = "the brokers did not answer in time; check that they are reachable";
                    return Err(PipeError::log(format!("cannot read {partition} before offset {before}"), reason));
                }
            }
            keep_tail(&mut messages, &mut events);
            if !events.is_empty() || from == first {
                self.close();
                return Ok(events);
            }
        }
        self.close();
        Ok(Vec::new())
    }

    /// Returns the range of offsets of a partition. The end is that of committed messages.
    pub(super) fn bounds(&self, partition: &PartitionId) -> Result<Bounds, PipeError> {
        let what = format!("cannot read the offsets of {partition}");
        let watermarks = retried(&what, RETRY_TIMEOUT, || {
            self.consumer.fetch_watermarks(&partition.topic, partition.partition, REQUEST_TIMEOUT)
        })?;
        let (first, end) = watermarks;
        Ok(Bounds { first: first.max(0), end })
    }

    /// Returns the offset of the first message at a time or later.
    pub(super) fn offset_at(&self, partition: &PartitionId, time_ms: i64) -> Result<Option<i64>, PipeError> {
        let what = format!("cannot find the offset of a time in {partition}");
        let found = retried(&what, RETRY_TIMEOUT, || {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&partition.topic, partition.partition, Offset::Offset(time_ms.max(0)))?;
            let found = self.consumer.offsets_for_times(list, REQUEST_TIMEOUT)?;
            let element = found.find_partition(&partition.topic, partition.partition);
            element.map(|element| element.error().map(|()| element.offset())).transpose()
        })?;
        Ok(match found {
            Some(Offset::Offset(offset)) => Some(offset),
            _ => None,
        })
    }
}

fn keep_tail(messages: &mut Vec<KafkaMessage>, events: &mut Vec<TailEvent>) {
    events.extend(messages.drain(..).map(|it| TailEvent { offset: it.offset, timestamp_ms: it.timestamp_ms }));
    let surplus = events.len().saturating_sub(TAIL_MESSAGES);
    events.drain(..surplus);
}

/// Repeats a request to the brokers a few times, because a broker may just have been restarted.
pub(super) fn retried<T>(
    what: &str,
    patience: Duration,
    request: impl Fn() -> Result<T, KafkaError>,
) -> Result<T, PipeError> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(100);
    loop {
        match request() {
            Ok(answer) => return Ok(answer),
            Err(error) if began.elapsed() + pause > patience => {
                let reason = format!("{error}; check that the brokers are reachable and that the topic exists");
                return Err(PipeError::log(what, reason));
            }
            Err(_) => std::thread::sleep(pause),
        }
        pause *= 2;
    }
}
