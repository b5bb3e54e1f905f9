//! Idempotency keys of batches and of single events, by which a retry is recognized. The types are plain data.

use super::tag::EventTag;

/// Idempotency key of a batch, unique among all batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchName {
    /// Incarnation of the producer, which is a random number for each start of the producer.
    pub producer: u128,
    /// Sequence number of the batch within its producer.
    pub sequence: u64,
}

/// Idempotency key that a caller assigned to the request to record one event. The numbers of one source rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubmissionName {
    /// Source of the event, for example a partition or a file.
    pub source: u128,
    /// Position of the event in its source.
    pub number: u64,
}

/// Idempotency key together with the tag of its event. The tag shows whether a caller reuses the key for another event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedEvent {
    /// The idempotency key.
    pub name: SubmissionName,
    /// Tag of the event, or [`EventTag::NONE`] if the tag is not known.
    pub tag: EventTag,
}
