//! What the pipe decides about a message.

use firstseen_records::RejectReason;
use firstseen_routing::Answer;

/// Decision about one message. Every message gets exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key did not occur in the window before.
    New,
    /// The key occurred in the window before, or the filter mistakes it for another key.
    Duplicate,
    /// The message has no value, and the key does not need one. Such a message deletes a key in a compacted topic. It is
    /// passed on and not compared.
    Tombstone,
    /// The filter cannot decide about the event.
    Undecided(Undecided),
    /// The message has no key or no time that can be read.
    Rejected(Box<Rejection>),
}

/// Why a filter cannot decide about an event. The names are those of `firstseen dedup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Undecided {
    /// The time is ahead of the other events' times or of the present, and no other event confirms it.
    Future,
    /// The event is older than the window and the lateness together.
    Late,
    /// The filter is full.
    Full,
}

impl Undecided {
    /// Returns all reasons.
    pub const ALL: [Self; 3] = [Self::Future, Self::Late, Self::Full];

    /// Returns the name in reports, metrics and headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Future => "future",
            Self::Late => "late",
            Self::Full => "full",
        }
    }
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::FirstSeen => Self::New,
            Answer::Duplicate => Self::Duplicate,
            Answer::Undecided => Self::Undecided(Undecided::Full),
            Answer::Late => Self::Undecided(Undecided::Late),
            Answer::Refused => Self::Undecided(Undecided::Future),
        }
    }
}

/// Why a message is not an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The value cannot be read as a record with the key and the time.
    #[error("{0}")]
    Record(RejectReason),
    /// The key or the time is in the value, and the value is null.
    #[error("its value is null, and the key or the time is read from the value")]
    NullValue,
    /// The key of the message is null.
    #[error("its key is null")]
    NullKey,
    /// A header of the key is missing.
    #[error("it has no header `{0}`, or the name of one of its headers is not UTF-8")]
    NoHeader(String),
    /// The log keeps no time with the message.
    #[error("it has no timestamp")]
    NoTimestamp,
}

impl Rejection {
    /// Returns the name in metrics and headers.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Record(reason) => reason.name(),
            Self::NullValue => "null_value",
            Self::NullKey | Self::NoHeader(_) => "no_key",
            Self::NoTimestamp => "bad_time",
        }
    }
}
