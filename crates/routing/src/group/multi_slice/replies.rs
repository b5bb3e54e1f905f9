//! Sends the replies to batches of events, and messages of early duplicates. In a filter tree, some events of a batch
//! may already be found at this level while other events wait for another level. A message of early duplicates tells
//! the producer which events were found, before the other events are decided.
//!
//! # Guarantees
//!
//! - A reply is sent once, when all events of its batch are decided, and the replay guard learns it before.
//! - A batch has at most one message of early duplicates before its reply. It is sent when all undecided events of the
//!   batch wait for another level. The reply repeats its contents, so this message may be lost.

use firstseen_filter::GenerationNumber;

use super::durable::ToPersist;
use super::flights::{Batch, Phase, Ticket};
use super::in_flight::InFlight;
use super::intake::Replays;
use super::local::LocalState;
use super::outbox::Outbox;
use super::testing::expected_rate;
use crate::group::state::Counts;
use crate::protocol::{Answers, Command, EarlyDuplicates, GroupReply, Mirrored, Operation};
use crate::verdict::{Decision, Reason};

/// Handler that replies to batches. It only reads the local state.
pub(super) struct Replying<'a> {
    pub(super) local: &'a LocalState,
    pub(super) in_flight: &'a mut InFlight,
    pub(super) replays: &'a mut Replays,
    pub(super) outbox: &'a mut Outbox,
    pub(super) kept: &'a mut ToPersist,
    pub(super) counts: &'a mut Counts,
}

impl Replying<'_> {
    /// Replies to the batch of an event, unless the batch has its reply already. The replay guard learns the decisions.
    pub(super) fn reply(&mut self, ticket: Ticket) {
        let cannot_deny =
            !self.local.membership.completeness().is_whole() || self.local.tree.has_forgotten(&self.local.own);
        let full_rate = self.rate_if_partial(ticket);
        self.in_flight.forget_names(ticket);
        let Some(reply_to) = self.learn(ticket) else { return };
        let flights = &mut self.in_flight.flights;
        let Some(batch) = flights.batch_mut(ticket) else { return };
        let operation = batch.header().operation;
        let degraded = batch.is_degraded() || operation == Operation::Verify && cannot_deny;
        if degraded && operation.records() {
            self.replays.degraded_ms = Some(self.local.present.now_ms());
        }
        if !batch.reply() {
            return;
        }
        // Granted and released events have separate counts.
        if operation.is_of_verdicts() {
            self.counts.decisions.count(batch.decisions_but_repeats().as_deref().unwrap_or(batch.decisions()));
        }
        let cannot_deny = operation == Operation::Verify && cannot_deny;
        let degraded_events = if cannot_deny { Vec::new() } else { batch.degraded_events() };
        let expected_rate = batch.expected_rate(full_rate).unwrap_or(0.0) as f32;
        let answers = Answers::new(batch.decisions().to_vec())
            .with_seen(batch.seen().to_vec())
            .with_holds(batch.holds().to_vec())
            .with_clock(self.local.present.clock().clock_ms())
            .with_quality(degraded, expected_rate)
            .with_degraded_events(degraded_events);
        self.outbox.push(Command::Reply(GroupReply { reply_to, answers, spent: flights.spare_probes() }));
    }

    /// Returns the probability that a new event is called a duplicate by mistake, if all of its positions are tested.
    /// The caller needs this value only for a batch in which the positions of some events could not all be tested. For
    /// every other batch, the function saves the computation and returns 0.
    fn rate_if_partial(&self, ticket: Ticket) -> f64 {
        if !self.in_flight.flights.batch(ticket).is_some_and(Batch::is_degraded) {
            return 0.0;
        }
        let hashes = self.local.membership.placement().plan().shape().hashes();
        expected_rate(self.local, hashes as usize)
    }

    /// Passes the decisions of a batch to the replay guard and to the journal. If slices of this node are moving to
    /// other nodes, these nodes receive the decisions too. Returns the connection that gets the reply, which is the
    /// connection of the newest attempt, or `None` if the batch does not exist.
    fn learn(&mut self, ticket: Ticket) -> Option<u64> {
        let batch = self.in_flight.flights.batch_mut(ticket)?;
        let reply_to = batch.header().reply_to;
        if !batch.is_unlearnt() {
            return Some(reply_to);
        }
        let LocalState { membership, tree, present, .. } = self.local;
        let guard = &mut self.replays.guard;
        let name = batch.header().name();
        let names = &batch.header().names;
        guard.learn(name, names.iter().map(|event| event.name), batch.decisions());
        let clock = present.clock().reading();
        self.kept.replied(name, names, batch.decisions(), clock);
        if membership.handing().sends_replies() {
            let shape = tree.shape(membership.placement().plan());
            let replies = Mirrored {
                names: names.clone(),
                decisions: batch.decisions().to_vec(),
                ..Mirrored::without_events(name, clock, GenerationNumber::FIRST, shape)
            };
            membership.handing().send_replies(self.outbox, replies);
        }
        // After the batch has its reply, a batch in flight with the same idempotency key is a retry.
        let newest = if batch.is_replied() { None } else { guard.arrive(name) };
        batch.learnt();
        Some(newest.unwrap_or(reply_to))
    }

    /// Replies to all waiting batches at once, because the events in flight cannot be completed on this node. If no
    /// cell was set for an event, its decision is undecided with the reason `unrecorded`. If cells may have been set,
    /// nobody knows whether the event will be recorded, so its decision is undecided with the reason
    /// [`Reason::Unknown`].
    pub(super) fn abandon_all(&mut self, unrecorded: Reason) {
        for first in self.in_flight.flights.batches() {
            if let Some(batch) = self.in_flight.flights.batch_mut(first) {
                abandon(batch, unrecorded);
            }
            self.reply(first);
        }
    }

    /// Sends the early duplicates of batches whose other events wait for another level.
    pub(super) fn send_early_duplicates(&mut self) {
        let clock_ms = self.local.present.clock().clock_ms();
        while let Some(ticket) = self.in_flight.next_parting() {
            let Some(batch) = self.in_flight.flights.batch_mut(ticket) else { continue };
            let events = if batch.awaits_early() { found_in(batch) } else { Vec::new() };
            if !events.is_empty() {
                batch.send_early();
                let reply_to = batch.header().reply_to;
                self.outbox.push(Command::EarlyDuplicates(EarlyDuplicates { reply_to, events, clock_ms }));
            }
        }
    }
}

/// Decides all undecided events of a batch by what is known about them.
fn abandon(batch: &mut Batch, unrecorded: Reason) {
    for event in 0..batch.flights().len() {
        let reason = match batch.flights()[event].phase() {
            Phase::Testing | Phase::Joined => unrecorded,
            _ => Reason::Unknown,
        };
        batch.abandon(event, reason);
    }
}

/// Returns the duplicates of a batch whose other events wait for another level. Returns an empty list while more
/// duplicates may be found here.
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
