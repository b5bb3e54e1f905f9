//! The interface to a log that supplies messages and takes them.
//!
//! An implementation knows one log, such as Kafka. The rest of this crate uses only these traits, and no
//! implementation decides about events.

use std::time::Duration;

use crate::error::PipeError;
use crate::message::{Message, PartitionId};
use crate::outcome::{Rejection, Undecided};

/// What a call of [`Input::poll`] returned.
#[derive(Debug)]
pub enum Polled<M> {
    /// The next message of a partition. Messages of one partition come in the order of their offsets.
    Message(PartitionId, M),
    /// The group has assigned these partitions to this process, in addition to those that it has. No message of them
    /// comes before [`Input::resume_at`].
    Assigned(Vec<PartitionId>),
    /// The group has taken these partitions away. No other process owned one of them before this call.
    Revoked(Vec<PartitionId>),
    /// The group has given these partitions to another process, which may have used them already.
    Lost(Vec<PartitionId>),
    /// Nothing happened within the time.
    Nothing,
}

/// The committed position of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// Every message before this offset was delivered.
    Offset(i64),
    /// The group has not committed anything in this partition.
    Never,
    /// The position is not known yet, for example because another transaction is still open. Ask again later.
    NotYet,
}

/// Range of the offsets that a partition has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Offset of the first message that the log still keeps.
    pub first: i64,
    /// Offset after the last message.
    pub end: i64,
}

/// Position and time of a message near the end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailEvent {
    /// Position of the message.
    pub offset: i64,
    /// Time that the log keeps with the message.
    pub timestamp_ms: Option<i64>,
}

/// Messages of a log that a group of processes shares.
pub trait Input {
    /// Message of the log.
    type Message: Message;

    /// Waits up to `wait` for the next message or for a change of the assignment. A pipe must call this function
    /// regularly, also while it does not want messages, so that the group does not give its partitions away.
    ///
    /// # Errors
    /// Returns an error if the log cannot be used any more. Disturbances that may end are no errors.
    fn poll(&mut self, wait: Duration) -> Result<Polled<Self::Message>, PipeError>;

    /// Stops or continues the delivery of messages from all partitions that were resumed. Calls of [`Self::poll`]
    /// still report changes of the assignment, and may return a few messages that were on their way.
    fn hold(&mut self, is_held: bool) -> Result<(), PipeError>;

    /// Returns the committed position of a partition, which no process other than the present owner can move.
    fn committed(&mut self, partition: &PartitionId) -> Result<Committed, PipeError>;

    /// Returns the range of offsets that a partition has.
    fn bounds(&mut self, partition: &PartitionId) -> Result<Bounds, PipeError>;

    /// Returns positions and times of up to 64 messages, the last ones before offset `before`. The list is empty only if
    /// the log keeps no message before that offset.
    fn tail(&mut self, partition: &PartitionId, before: i64) -> Result<Vec<TailEvent>, PipeError>;

    /// Returns the offset of the first message whose time is `time_ms` or later. `None` means that there is none.
    fn offset_at(&mut self, partition: &PartitionId, time_ms: i64) -> Result<Option<i64>, PipeError>;

    /// Begins to read the messages of a partition from an offset on, independently of the group. Only one history is
    /// read at a time.
    fn open_history(&mut self, partition: &PartitionId, from: i64) -> Result<(), PipeError>;

    /// Appends further messages before offset `to` to `messages`, up to `messages_max` in total, and waits up to `wait`
    /// for them. Returns whether the history has no further message before `to`.
    fn read_history(
        &mut self,
        to: i64,
        messages_max: usize,
        wait: Duration,
        messages: &mut Vec<Self::Message>,
    ) -> Result<bool, PipeError>;

    /// Begins to deliver the messages of an assigned partition from `offset` on.
    fn resume_at(&mut self, partition: &PartitionId, offset: i64) -> Result<(), PipeError>;

    /// Ends the delivery of messages from a partition that was resumed, until it is resumed again.
    fn suspend(&mut self, partition: &PartitionId);

    /// Returns the end offsets of the assigned partitions, as far as they are known without a request to the log.
    fn ends(&self) -> Vec<(PartitionId, i64)>;

    /// Leaves the group.
    fn leave(&mut self);
}

/// Topic to which a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The topic without duplicates.
    Output,
    /// The topic of duplicates.
    Duplicates,
    /// The topic of messages that cannot be decided.
    DeadLetters,
}

/// A message to write, and what the pipe adds to it.
pub struct Event<'a, M> {
    /// Partition from which the message came.
    pub partition: &'a PartitionId,
    /// The message.
    pub message: &'a M,
    /// Topic to which it is written.
    pub target: Target,
    /// What the headers say about it.
    pub note: Option<Note<'a>>,
}

/// What the headers of a written message say in addition to its own headers.
#[derive(Clone, Copy, Debug)]
pub enum Note<'a> {
    /// The message is a duplicate.
    Duplicate,
    /// The filter cannot decide about the message.
    Undecided(Undecided),
    /// The message is no event.
    Rejected(&'a Rejection),
}

/// Why a message cannot be written.
#[derive(Debug)]
pub enum WriteError {
    /// The attempt must be aborted, and can be repeated.
    Abort(String),
    /// The log will never accept the message at this index of the attempt.
    Never {
        /// Number of messages that were written before it in this attempt.
        index: usize,
        /// Why the log rejects it.
        reason: String,
    },
}

/// Why an attempt was aborted.
#[derive(Debug)]
pub struct Aborted {
    /// Reason for the user.
    pub reason: String,
    /// Whether another process or the group has fenced this one.
    pub is_fenced: bool,
}

/// How an attempt to deliver a batch ended.
#[derive(Debug)]
pub enum Delivery {
    /// All messages and positions are committed.
    Committed,
    /// Nothing is committed.
    Aborted(Aborted),
    /// It is not known whether the attempt is committed. [`Output::recover`] must be called before the next attempt.
    Unknown(String),
    /// The log will never accept one of the messages, and nothing is committed.
    Never {
        /// Number of messages that were written before it in this attempt.
        index: usize,
        /// Why the log rejects it.
        reason: String,
    },
}

/// Takes the messages of batches, together with the input positions that they complete.
pub trait Output<M> {
    /// Begins an attempt to deliver a batch.
    ///
    /// # Errors
    /// Returns [`Delivery::Aborted`] or [`Delivery::Unknown`] if the attempt cannot begin.
    fn begin(&mut self) -> Result<(), Delivery>;

    /// Writes one message within the attempt.
    ///
    /// # Errors
    /// Returns an error if the message cannot be written. The attempt must then be aborted.
    fn write(&mut self, event: &Event<'_, M>) -> Result<(), WriteError>;

    /// Adds the input positions to the attempt.
    ///
    /// # Errors
    /// Returns why the attempt must be aborted.
    fn add_positions(&mut self, positions: &[(PartitionId, i64)]) -> Result<(), Aborted>;

    /// Commits the attempt.
    fn commit(&mut self) -> Delivery;

    /// Ends the attempt without a result. Returns [`Delivery::Unknown`] if that fails.
    fn abort(&mut self, aborted: Aborted) -> Delivery;

    /// Ends whatever an attempt with an unknown outcome has left open, so that the committed positions say whether it
    /// was committed.
    ///
    /// # Errors
    /// Returns the reason if this must be tried again later.
    fn recover(&mut self) -> Result<(), String>;
}
