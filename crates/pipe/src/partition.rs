//! State of one assigned partition: its filter, the messages that wait, and the position of the next message.

use std::time::Instant;

use crate::checkpoint::Anchor;
use crate::error::PipeError;
use crate::message::{Message, PartitionId};
use crate::outcome::Outcome;
use crate::partition_filter::PartitionFilter;
use crate::rebuild::Rebuild;

/// Messages of one partition with their outcomes. The outcomes stay the same for every attempt to deliver them.
#[derive(Debug)]
pub struct Decided<M> {
    /// Messages in the order of their offsets.
    pub messages: Vec<M>,
    /// One outcome for each message.
    pub outcomes: Vec<Outcome>,
}

/// How far the start of a partition has come.
pub(crate) enum Stage<M> {
    /// The committed position is not known yet.
    AwaitsPosition,
    /// The filter is rebuilt from the log.
    Rebuilding(Box<Rebuild<M>>),
    /// Messages are delivered. A pipe that copies everything has no filter.
    Ready(Option<Box<PartitionFilter>>),
}

/// One assigned partition.
pub(crate) struct Partition<M> {
    pub(crate) id: PartitionId,
    pub(crate) stage: Stage<M>,
    /// Messages that were read and not decided.
    pub(crate) incoming: Vec<M>,
    /// Time since which the last of these messages wait for further ones.
    pub(crate) held_since: Option<Instant>,
    /// Messages that were decided and whose delivery is not committed.
    pub(crate) pending: Option<Decided<M>>,
    /// Error about the message after the pending ones, which ends the pipe once these are delivered. If the partition is
    /// taken away before, another process meets the message.
    pub(crate) poison: Option<PipeError>,
    /// Offset after the last delivered message.
    pub(crate) position: i64,
    /// Offset after the last message that was read.
    read_to: i64,
    /// The last delivered message.
    pub(crate) anchor: Option<Anchor>,
    /// Position of the last checkpoint.
    pub(crate) saved_to: Option<i64>,
    /// Offset at which the pipe stops, if it stops at the end of its input.
    pub(crate) end: Option<i64>,
}

impl<M: Message> Partition<M> {
    /// Creates the state of a partition that was assigned just now.
    pub(crate) fn new(id: PartitionId) -> Self {
        Self {
            id,
            stage: Stage::AwaitsPosition,
            incoming: Vec::new(),
            held_since: None,
            pending: None,
            poison: None,
            position: 0,
            read_to: 0,
            anchor: None,
            saved_to: None,
            end: None,
        }
    }

    /// Starts delivery at `position`.
    pub(crate) fn start(&mut self, position: i64, filter: Option<Box<PartitionFilter>>) {
        self.position = position;
        self.read_to = position;
        self.stage = Stage::Ready(filter);
    }

    /// Adds a message to the next batch. Returns `false` without adding it in three cases: the message was read before,
    /// it lies beyond the end at which the pipe stops, or the partition is not ready. A partition that becomes ready
    /// reads its messages again.
    pub(crate) fn take(&mut self, message: M) -> bool {
        let is_beyond_end = self.end.is_some_and(|end| message.offset() >= end);
        if !self.is_ready() || message.offset() < self.read_to || is_beyond_end {
            return false;
        }
        self.read_to = message.offset() + 1;
        self.incoming.push(message);
        true
    }

    /// Returns whether messages are delivered.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready(_))
    }

    /// Returns the filter, if the partition is ready and has one.
    pub(crate) fn filter(&self) -> Option<&PartitionFilter> {
        match &self.stage {
            Stage::Ready(Some(filter)) => Some(filter),
            _ => None,
        }
    }

    /// Returns whether everything before the end was delivered, for a pipe that stops at the end of its input.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_ready() && self.end.is_some_and(|end| self.position >= end)
    }

    /// Notes that the pending batch is delivered. Returns its messages and outcomes.
    pub(crate) fn delivered(&mut self) -> Option<Decided<M>> {
        let decided = self.pending.take()?;
        if let Some(last) = decided.messages.last() {
            self.position = last.offset() + 1;
        }
        if let Stage::Ready(Some(filter)) = &mut self.stage {
            filter.delivered();
        }
        Some(decided)
    }
}
