//! Checks at the start that the topics fit each other, before anything is read or written.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::REQUEST_TIMEOUT;
use super::address::Address;
use super::client::{Properties, creation_error};
use super::history::retried;
use crate::error::PipeError;

/// How long the brokers may take to answer at the start.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// What the check of the topics found.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Numbers of partitions by topic of the input.
    pub input_partitions: BTreeMap<String, i32>,
    /// Number of partitions of the dead letters.
    pub dead_letter_partitions: Option<i32>,
    /// Whether the output is in another cluster than the input, so that one transaction cannot contain both.
    pub is_other_cluster: bool,
    /// Smallest limit of the size of a batch among the topics that are written.
    pub batch_bytes_max: Option<u64>,
    /// Lines for the user.
    pub notes: Vec<String>,
}

/// Checks that all topics exist, that the outputs have enough partitions, and that the input is not compacted.
///
/// # Errors
/// Returns an error that says what to change.
pub fn check_topics(
    from: &Address,
    to: &Address,
    duplicates: Option<&Address>,
    dead_letters: Option<&Address>,
    properties: &Properties,
    allow_compacted: bool,
) -> Result<Checked, PipeError> {
    let input = connect(from, properties)?;
    let output = connect(to, properties)?;
    let mut checked = Checked {
        is_other_cluster: from.brokers() != to.brokers()
            && input.client().fetch_cluster_id(REQUEST_TIMEOUT) != output.client().fetch_cluster_id(REQUEST_TIMEOUT),
        ..Checked::default()
    };
    for topic in from.topics() {
        let count = partitions(&input, from, topic)?;
        checked.input_partitions.insert(topic.clone(), count);
        if !allow_compacted {
            check_compaction(from, topic, properties, &mut checked.notes)?;
        }
    }
    let needed = checked.input_partitions.values().copied().max().unwrap_or(0);
    for address in [Some(to), duplicates].into_iter().flatten() {
        let topic = target(address, to, from, checked.is_other_cluster)?;
        let count = partitions(&output, address, topic)?;
        if count < needed {
            return Err(PipeError::Settings(format!(
                "topic `{topic}` has {count} partitions and the input has {needed}; messages keep the number of their \
                 partition, so add partitions: kafka-topics.sh --alter --topic {topic} --partitions {needed}"
            )));
        }
    }
    if let Some(address) = dead_letters {
        let topic = target(address, to, from, checked.is_other_cluster)?;
        checked.dead_letter_partitions = Some(partitions(&output, address, topic)?);
    }
    // The brokers reject a batch as a whole, so a batch of small messages must not be larger than a message may be.
    let written = [Some(to), duplicates, dead_letters].into_iter().flatten().flat_map(Address::topics);
    let limits = written.filter_map(|topic| topic_config(to, topic, "max.message.bytes", properties).ok());
    checked.batch_bytes_max = limits.filter_map(|limit| limit.parse().ok()).min();
    Ok(checked)
}

/// Returns the topic of an address to which messages are written.
fn target<'a>(
    address: &'a Address,
    to: &Address,
    from: &Address,
    is_other_cluster: bool,
) -> Result<&'a str, PipeError> {
    if address.brokers() != to.brokers() {
        let text = format!("`{address}` and `{to}` must name the same brokers, because one producer writes to both");
        return Err(PipeError::Settings(text));
    }
    let topic = address.topic().map_err(PipeError::Settings)?;
    if !std::ptr::eq(address, to) && to.topics().iter().any(|output| output == topic) {
        let text = format!("topic `{topic}` is the output of first-seen messages; name another topic for the others");
        return Err(PipeError::Settings(text));
    }
    if !is_other_cluster && from.topics().iter().any(|input| input == topic) {
        return Err(PipeError::Settings(format!("topic `{topic}` is read and written; name another topic")));
    }
    Ok(topic)
}

fn connect(address: &Address, properties: &Properties) -> Result<BaseConsumer, PipeError> {
    let mut config = properties.consumer(address.brokers(), "firstseen-pipe-check");
    config.remove("group.instance.id");
    config
        .create()
        .map_err(|error| PipeError::Settings(format!("cannot use the client properties: {}", creation_error(&error))))
}

/// Returns the number of partitions of a topic.
fn partitions(consumer: &BaseConsumer, address: &Address, topic: &str) -> Result<i32, PipeError> {
    let what = format!("cannot reach the brokers {}", address.brokers());
    let metadata = retried(&what, START_TIMEOUT, || consumer.fetch_metadata(Some(topic), START_TIMEOUT / 2))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let error = found.and_then(rdkafka::metadata::MetadataTopic::error).map(RDKafkaErrorCode::from);
    match (found, error) {
        (Some(found), None) if !found.partitions().is_empty() => {
            Ok(i32::try_from(found.partitions().len()).unwrap_or(i32::MAX))
        }
        (_, Some(RDKafkaErrorCode::TopicAuthorizationFailed)) => {
            Err(PipeError::Settings(format!("this client has no right to describe topic `{topic}`; grant it")))
        }
        _ => Err(PipeError::Settings(format!(
            "topic `{topic}` not found at {}; create it: kafka-topics.sh --create --topic {topic} --partitions N",
            address.brokers()
        ))),
    }
}

/// Refuses a compacted input: compaction keeps the last message of a key, and a pipe passes the first one on.
fn check_compaction(
    from: &Address,
    topic: &str,
    properties: &Properties,
    notes: &mut Vec<String>,
) -> Result<(), PipeError> {
    match topic_config(from, topic, "cleanup.policy", properties) {
        Ok(policy) if policy.contains("compact") => Err(PipeError::Settings(format!(
            "topic `{topic}` is compacted (cleanup.policy={policy}): compaction keeps the last message of a key, and the pipe \
             passes the first one on, so updates would be lost; --allow-compacted reads it nevertheless"
        ))),
        Ok(_) => Ok(()),
        Err(error) => {
            notes.push(format!("cannot read whether topic `{topic}` is compacted: {error}"));
            Ok(())
        }
    }
}

/// Returns the value of a topic's setting.
fn topic_config(from: &Address, topic: &str, name: &str, properties: &Properties) -> Result<String, KafkaError> {
    let config = properties.consumer(from.brokers(), "firstseen-pipe-check");
    let admin: AdminClient<DefaultClientContext> = config.create()?;
    let options = AdminOptions::new().request_timeout(Some(REQUEST_TIMEOUT));
    let resource = [ResourceSpecifier::Topic(topic)];
    let described = block_on(admin.describe_configs(&resource, &options))?;
    let resource = described.into_iter().next().ok_or(KafkaError::Canceled)?;
    let resource = resource.map_err(KafkaError::AdminOp)?;
    Ok(resource.get(name).and_then(|entry| entry.value.clone()).unwrap_or_default())
}

/// Wakes a thread that waits for a future.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
