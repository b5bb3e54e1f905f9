//! Duplicates that a producer learns of before the rest of their batch is decided: an event that a level has found need
//! not wait for the events of its batch that climb.
//!
//! Promises: a batch has at most one such message ahead of its reply, when all of its undecided events wait for another
//! level; the reply repeats what the message says, so the message may be lost. Must not know: how it travels.

use super::DividedGroup;
use super::flights::{Batch, Phase};
use crate::protocol::{Command, EarlyDuplicates};
use crate::verdict::Decision;

impl DividedGroup {
    /// Sends the early duplicates of batches whose other events climb.
    pub(super) fn send_early_duplicates(&mut self) {
        let clock_ms = self.present.clock().clock_ms();
        while let Some(ticket) = self.in_flight.next_parting() {
            let Some(batch) = self.in_flight.flights.batch_mut(ticket) else { continue };
            let events = if batch.awaits_early() { found_in(batch) } else { Vec::new() };
            if !events.is_empty() {
                batch.send_early();
                self.outbox.push(Command::EarlyDuplicates(EarlyDuplicates {
                    reply_to: batch.header().reply_to,
                    events,
                    clock_ms,
                }));
            }
        }
    }
}

/// The duplicates of a batch whose other events wait for another level; none while more may be found here.
fn found_in(batch: &Batch) -> Vec<u32> {
    if batch.flights().iter().any(|flight| !flight.is_decided() && flight.phase() == Phase::Testing) {
        return Vec::new();
    }
    let decided = batch.flights().iter().zip(batch.decisions()).zip(0..);
    decided
        .filter(|((flight, decision), _)| flight.is_decided() && **decision == Decision::Duplicate)
        .map(|(_, event)| event)
        .collect()
}
