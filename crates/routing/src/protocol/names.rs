//! Names of what is submitted, by which a retry is known.
//!
//! Promises: plain data. Must not know: what is remembered under a name.

use super::tag::EventTag;

/// The name of a batch, among all batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchName {
    /// The incarnation of the producer.
    pub producer: u128,
    /// The batch among those of its producer.
    pub sequence: u64,
}

/// The name that a caller gave to the submission of one event: of one source, numbers rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubmissionName {
    /// Where the event comes from: a partition, a file.
    pub source: u128,
    /// Its place there.
    pub number: u64,
}

/// A name, with the tag of the event that it was given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedEvent {
    /// The name.
    pub name: SubmissionName,
    /// The event's tag; [`EventTag::NONE`] where it is not known.
    pub tag: EventTag,
}
