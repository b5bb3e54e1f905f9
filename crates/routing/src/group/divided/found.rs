//! Duplicates that are told before the rest of their batch is: what a level has found need not wait for what climbs beside
//! it.
//!
//! Promises: a batch is told of at most once ahead of its reply, when all that is not decided waits for another level;
//! what is told stands in the reply too, so it may be lost. Must not know: how it travels.

use super::DividedGroup;
use super::flights::{Batch, Phase};
use crate::protocol::{Command, Found};
use crate::verdict::Decision;

impl DividedGroup {
    /// Tells what was found of batches whose other events climb.
    pub(super) fn tell_found(&mut self) {
        let clock_ms = self.present.clock().clock_ms();
        while let Some(ticket) = self.in_flight.next_parting() {
            let Some(batch) = self.in_flight.batch_mut(ticket) else { continue };
            // Another level takes up no part of an answer, and it holds nobody's up.
            let is_due = batch.head.from.is_none() && batch.untold > 0 && !batch.replied && !batch.is_found_told;
            let events = if is_due { found_in(batch) } else { Vec::new() };
            if !events.is_empty() {
                batch.is_found_told = true;
                self.outbox.push(Command::Found(Found { reply_to: batch.head.reply_to, events, clock_ms }));
            }
        }
    }
}

/// The duplicates of a batch whose other events wait for another level; none while more may be found here.
fn found_in(batch: &Batch) -> Vec<u32> {
    if batch.flights.iter().any(|flight| !flight.told && flight.phase() == Phase::Testing) {
        return Vec::new();
    }
    let told = batch.flights.iter().zip(&batch.decisions).zip(0..);
    told.filter(|((flight, decision), _)| flight.told && **decision == Decision::Duplicate)
        .map(|(_, event)| event)
        .collect()
}
