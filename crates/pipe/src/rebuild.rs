//! Rebuilds the filter of a partition after it was assigned.
//!
//! Let C be the committed offset. Every event before C was delivered or was a duplicate, so all of them belong into the
//! filter. The rebuild starts with a checkpoint, or with an empty filter and the first event that can still be in the
//! window of an event after C. It then records the events up to C, in small steps, so that the caller can poll the
//! group between them.

use std::time::Duration;

use firstseen_filter::FilterSecret;
use firstseen_routing::SlicedDefinition;

use crate::checkpoint::{Anchor, CheckpointFolder, Loaded};
use crate::error::PipeError;
use crate::message::{Message, PartitionId};
use crate::partition_filter::{PartitionFilter, history_ms};
use crate::ports::{Input, TailEvent};
use crate::reader::{EventReader, Events};

/// Maximum number of messages that one step reads.
const STEP_MESSAGES: usize = 10_000;
/// Maximum time that one step waits for messages.
const STEP_WAIT: Duration = Duration::from_millis(50);
/// Number of messages that are read before those before them are recorded, to recognize times that are wrong.
const AHEAD_MESSAGES: usize = 300;

/// A filter that is being rebuilt.
pub(crate) struct Rebuild<M> {
    filter: Box<PartitionFilter>,
    /// The committed offset C.
    committed: i64,
    /// Anchor of the checkpoint, until the log has shown the same message.
    unverified: Option<Anchor>,
    /// The last message that was recorded.
    anchor: Option<Anchor>,
    messages: Vec<M>,
    events: Events,
    recorded: u64,
}

/// Result of one step.
pub(crate) enum Step {
    /// Further steps are needed.
    More,
    /// The filter contains all events before the committed offset.
    Done {
        /// The filter.
        filter: Box<PartitionFilter>,
        /// The last message that the filter contains.
        anchor: Option<Anchor>,
        /// Number of events that were read.
        recorded: u64,
    },
}

/// What a rebuild needs from the pipe.
pub(crate) struct Tools<'a, I> {
    pub(crate) input: &'a mut I,
    pub(crate) reader: &'a mut EventReader,
    pub(crate) definition: &'a SlicedDefinition,
    pub(crate) checkpoints: Option<&'a CheckpointFolder>,
    pub(crate) secret: &'a FilterSecret,
    pub(crate) present_ms: u64,
    /// Lines for the user.
    pub(crate) notes: &'a mut Vec<String>,
}

impl<M: Message> Rebuild<M> {
    /// Begins to rebuild the filter of a partition with the committed offset `committed`.
    pub(crate) fn begin<I: Input<Message = M>>(
        partition: &PartitionId,
        committed: i64,
        tools: &mut Tools<'_, I>,
    ) -> Result<Self, PipeError> {
        let loaded = tools.checkpoints.map(|folder| folder.load(partition, committed)).transpose();
        match loaded.map(Option::flatten) {
            Ok(Some(loaded)) => {
                let first = tools.input.bounds(partition)?.first;
                if first > loaded.anchor.offset {
                    return Self::from_old_checkpoint(partition, loaded, first, committed, tools);
                }
                tools.input.open_history(partition, loaded.anchor.offset)?;
                let unverified = Some(loaded.anchor);
                Ok(Self { unverified, anchor: unverified, ..Self::empty(Box::new(loaded.filter), committed) })
            }
            Ok(None) => Self::from_log(partition, committed, tools),
            Err(reason) => {
                tools.notes.push(unusable(partition, &reason));
                Self::from_log(partition, committed, tools)
            }
        }
    }

    /// Begins with a checkpoint whose last message the log has deleted since. A topic that was created again begins at
    /// offset 0, so it is mistaken for this case only if it has deleted as many messages again.
    fn from_old_checkpoint<I: Input<Message = M>>(
        partition: &PartitionId,
        loaded: Loaded,
        first: i64,
        committed: i64,
        tools: &mut Tools<'_, I>,
    ) -> Result<Self, PipeError> {
        let from = loaded.anchor.offset + 1;
        if from < first.min(committed) {
            tools.notes.push(format!(
                "{partition}: the log deleted the messages from offset {from} to {first}, which came after the checkpoint: an \
                 event whose earlier copy was among them may pass twice; keep messages for longer (retention.ms)"
            ));
        }
        tools.input.open_history(partition, first)?;
        Ok(Self { anchor: Some(loaded.anchor), ..Self::empty(Box::new(loaded.filter), committed) })
    }

    fn empty(filter: Box<PartitionFilter>, committed: i64) -> Self {
        let events = Events::default();
        Self { filter, committed, unverified: None, anchor: None, messages: Vec::new(), events, recorded: 0 }
    }

    /// Begins with an empty filter and the first event that can matter.
    fn from_log<I: Input<Message = M>>(
        partition: &PartitionId,
        committed: i64,
        tools: &mut Tools<'_, I>,
    ) -> Result<Self, PipeError> {
        let filter = Box::new(PartitionFilter::build(tools.definition)?);
        let bounds = tools.input.bounds(partition)?;
        let tail = tools.input.tail(partition, committed)?;
        // The log can only find the times that it keeps itself.
        let history_ms = history_ms(tools.definition).filter(|_| tools.reader.uses_log_times());
        let from_ms = history_ms.and_then(|ms| history_start(&tail, tools.present_ms, ms));
        let from = match from_ms {
            Some(from_ms) => tools.input.offset_at(partition, from_ms)?.unwrap_or(committed).min(committed),
            None => bounds.first,
        };
        let from = from.max(bounds.first);
        if let Some(line) = gap(partition, from, bounds.first, from_ms) {
            tools.notes.push(line);
        }
        tools.input.open_history(partition, from)?;
        Ok(Self::empty(filter, committed))
    }

    /// Reads and records some messages.
    pub(crate) fn step<I: Input<Message = M>>(
        &mut self,
        partition: &PartitionId,
        tools: &mut Tools<'_, I>,
    ) -> Result<Step, PipeError> {
        // Some messages after the committed offset are read as well, for their times only.
        let to = self.committed.saturating_add(AHEAD_MESSAGES as i64);
        let messages_max = STEP_MESSAGES + AHEAD_MESSAGES;
        let is_end = tools.input.read_history(to, messages_max, STEP_WAIT, &mut self.messages)?;
        if let Some(anchor) = self.unverified {
            if self.messages.is_empty() && !is_end {
                return Ok(Step::More);
            }
            let first = self.messages.first().filter(|first| first.offset() < self.committed);
            let is_known = first.is_some_and(|first| Anchor::of(first, tools.secret) == anchor);
            if !is_known {
                tools.notes.push(unusable(partition, "the log does not have the message with which it ends"));
                *self = Self::from_log(partition, self.committed, tools)?;
                return Ok(Step::More);
            }
            self.unverified = None;
            self.messages.remove(0);
        }
        let delivered = self.messages.partition_point(|message| message.offset() < self.committed);
        let known = if is_end { delivered } else { delivered.min(self.messages.len().saturating_sub(AHEAD_MESSAGES)) };
        if let Some(last) = self.messages[..known].last() {
            self.anchor = Some(Anchor::of(last, tools.secret));
            tools.reader.read(&self.messages, &mut self.events)?;
            self.filter.record_history(&self.events, known, tools.present_ms);
            self.recorded += known as u64;
            self.messages.drain(..known);
        }
        if !is_end {
            return Ok(Step::More);
        }
        let filter = Box::new(PartitionFilter::build(tools.definition)?);
        let filter = std::mem::replace(&mut self.filter, filter);
        Ok(Step::Done { filter, anchor: self.anchor, recorded: self.recorded })
    }
}

/// Returns the time of the first event that can matter after the events of `tail`. `None` means that all events can.
///
/// A single message may have a wrong time, so the middle of the last times counts, and no time after the present.
fn history_start(tail: &[TailEvent], present_ms: u64, history_ms: u64) -> Option<i64> {
    let mut times_ms: Vec<i64> = tail.iter().filter_map(|event| event.timestamp_ms).collect();
    times_ms.sort_unstable();
    let middle = times_ms.len().checked_sub(1)? / 2;
    let last_ms = (*times_ms.get(middle)?).min(i64::try_from(present_ms).unwrap_or(i64::MAX));
    let from_ms = last_ms.saturating_sub(i64::try_from(history_ms).unwrap_or(i64::MAX));
    Some(from_ms).filter(|from_ms| *from_ms > 0)
}

/// Returns a line for the user if the log no longer keeps everything that can matter. A log that has deleted messages
/// starts at an offset above 0.
fn gap(partition: &PartitionId, from: i64, first: i64, from_ms: Option<i64>) -> Option<String> {
    if first == 0 || from > first {
        return None;
    }
    let reach = match from_ms {
        Some(_) => "its window reaches further back than the log keeps messages",
        None => "the log has deleted messages that may belong to the window",
    };
    Some(format!(
        "{partition}: {reach}, and there is no checkpoint: an event whose earlier copy was deleted before offset {first} may \
         pass twice; keep messages for the window and the lateness (retention.ms), or keep checkpoints with --state"
    ))
}

fn unusable(partition: &PartitionId, reason: &str) -> String {
    format!("{partition}: the checkpoint is not used ({reason}); the filter is rebuilt from the log")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(times_ms: &[i64]) -> Vec<TailEvent> {
        times_ms.iter().map(|ms| TailEvent { offset: 0, timestamp_ms: Some(*ms) }).collect()
    }

    #[test]
    fn a_wrong_time_does_not_shorten_the_history() {
        let present_ms = 10_000_000;
        assert_eq!(history_start(&tail(&[9_000_000; 9]), present_ms, 1_000_000), Some(8_000_000));
        let mut times_ms = [9_000_000; 9];
        times_ms[8] = 90_000_000;
        assert_eq!(history_start(&tail(&times_ms), present_ms, 1_000_000), Some(8_000_000));
        assert_eq!(history_start(&tail(&[90_000_000; 9]), present_ms, 1_000_000), Some(9_000_000));
        assert_eq!(history_start(&tail(&[0; 9]), present_ms, 1_000_000), None);
        assert_eq!(history_start(&[], present_ms, 1), None);
    }

    #[test]
    fn a_gap_is_named_only_if_messages_were_deleted() {
        let partition = PartitionId { topic: "clicks".into(), partition: 3 };
        assert!(gap(&partition, 7, 7, Some(1)).is_some_and(|line| line.starts_with("clicks/3: ")));
        assert!(gap(&partition, 8, 7, Some(1)).is_none() && gap(&partition, 0, 0, None).is_none());
    }
}
