//! One attempt to deliver the decided messages of a batch: write each message where its outcome sends it, add the
//! positions, and commit.

use crate::error::PipeError;
use crate::faults::{self, Point};
use crate::message::{Message, PartitionId};
use crate::outcome::Outcome;
use crate::partition::{Decided, Partition};
use crate::ports::{Aborted, Delivery, Event, Note, Output, Target, WriteError};
use crate::settings::{Settings, UndecidedAction};

/// Where a message with an outcome is written. `None` means that it is written nowhere, because it is a duplicate.
pub(crate) fn target(outcome: &Outcome, settings: &Settings) -> Option<Target> {
    match outcome {
        Outcome::New | Outcome::Tombstone => Some(Target::Output),
        Outcome::Duplicate if settings.is_shadow => Some(Target::Output),
        Outcome::Duplicate if settings.has_duplicates => Some(Target::Duplicates),
        Outcome::Duplicate => None,
        Outcome::Undecided(_) => match settings.undecided {
            UndecidedAction::Pass => Some(Target::Output),
            UndecidedAction::Aside => Some(Target::DeadLetters),
        },
        Outcome::Rejected(_) => Some(Target::DeadLetters),
    }
}

fn note<'a>(outcome: &'a Outcome, target: Target) -> Option<Note<'a>> {
    match outcome {
        Outcome::Duplicate => Some(Note::Duplicate),
        Outcome::Undecided(reason) if target == Target::DeadLetters => Some(Note::Undecided(*reason)),
        Outcome::Rejected(rejection) => Some(Note::Rejected(rejection)),
        Outcome::New | Outcome::Tombstone | Outcome::Undecided(_) => None,
    }
}

/// Tries once to deliver the pending messages of all partitions.
pub(crate) fn attempt<'p, M: Message + 'p>(
    output: &mut impl Output<M>,
    partitions: impl Iterator<Item = &'p Partition<M>> + Clone,
    settings: &Settings,
) -> Delivery {
    if let Err(delivery) = output.begin() {
        return delivery;
    }
    match write_all(output, partitions.clone(), settings) {
        Ok(()) => {}
        Err(WriteError::Abort(reason)) => return output.abort(Aborted { reason, is_fenced: false }),
        Err(WriteError::Never { index, reason }) => {
            let aborted = Aborted { reason: reason.clone(), is_fenced: false };
            return match output.abort(aborted) {
                Delivery::Unknown(unknown) => Delivery::Unknown(unknown),
                _ => Delivery::Never { index, reason },
            };
        }
    }
    faults::pass(Point::Produced);
    let positions: Vec<(PartitionId, i64)> = partitions.filter_map(end_of_pending).collect();
    if let Err(aborted) = output.add_positions(&positions) {
        return output.abort(aborted);
    }
    faults::pass(Point::OffsetsAdded);
    output.commit()
}

/// Returns the position that the pending messages of a partition complete.
pub(crate) fn end_of_pending<M: Message>(partition: &Partition<M>) -> Option<(PartitionId, i64)> {
    let last = partition.pending.as_ref()?.messages.last()?;
    Some((partition.id.clone(), last.offset() + 1))
}

fn write_all<'p, M: Message + 'p>(
    output: &mut impl Output<M>,
    partitions: impl Iterator<Item = &'p Partition<M>>,
    settings: &Settings,
) -> Result<(), WriteError> {
    for partition in partitions {
        let Some(Decided { messages, outcomes }) = &partition.pending else { continue };
        for (message, outcome) in messages.iter().zip(outcomes) {
            let Some(target) = target(outcome, settings) else { continue };
            output.write(&Event { partition: &partition.id, message, target, note: note(outcome, target) })?;
        }
    }
    Ok(())
}

/// Returns the error about the message that was written as number `index` of an attempt.
pub(crate) fn undeliverable<'p, M: Message + 'p>(
    partitions: impl Iterator<Item = &'p Partition<M>>,
    settings: &Settings,
    index: usize,
    reason: String,
) -> PipeError {
    let mut written = 0;
    for partition in partitions {
        let Some(Decided { messages, outcomes }) = &partition.pending else { continue };
        for (message, outcome) in messages.iter().zip(outcomes) {
            if target(outcome, settings).is_none() {
                continue;
            }
            if written == index {
                return PipeError::Message { partition: partition.id.clone(), offset: message.offset(), reason };
            }
            written += 1;
        }
    }
    PipeError::log("cannot deliver a batch", reason)
}
