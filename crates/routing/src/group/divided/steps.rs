//! The way of events through a group: from an input to the steps that each event takes, and to the end of the input.
//!
//! Each handler borrows only the parts that its steps may touch, and returns the step that follows: [`Next`]. `go_on`
//! has a handler carry out that step, until the event waits for something or is over.
//!
//! Promises: the steps of an event are carried out one after another, and then those of the events that have waited for
//! it, oldest first. Must not know: how a step is carried out.

use super::DividedGroup;
use super::climb::Climbing;
use super::decide::Next;
use super::flights::Ticket;
use super::intake::Intake;
use super::recording::Recording;
use super::replies::Replying;
use super::sets::SetEnd;
use super::testing::Testing;
use super::verdicts::Verdicts;
use crate::group::guard::Admission;
use crate::group::rules::Rule;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{Answers, Climbed, Command, GroupReply, Hold, Moment, Operation, Resolved, SetAcks, Submission};
use crate::verdict::{Decision, Reason};

/// The handlers, each with the parts that it may touch.
impl DividedGroup {
    pub(super) fn intake(&mut self) -> Intake<'_> {
        let Self { replays, local, in_flight, claims, outbox, kept, .. } = self;
        Intake { replays, local, in_flight, claims, outbox, kept }
    }

    pub(super) fn verdicts(&mut self) -> Verdicts<'_> {
        let Self { local, in_flight, claims, .. } = self;
        Verdicts { local, in_flight, claims }
    }

    fn testing(&mut self) -> Testing<'_> {
        let Self { local, in_flight, claims, outbox, counts, .. } = self;
        Testing { local, in_flight, claims, outbox, counts }
    }

    pub(super) fn recording(&mut self) -> Recording<'_> {
        let Self { local, in_flight, outbox, kept, counts, .. } = self;
        Recording { local, in_flight, outbox, kept, counts }
    }

    pub(super) fn climbing(&mut self) -> Climbing<'_> {
        let Self { local, in_flight, outbox, .. } = self;
        Climbing { local, in_flight, outbox }
    }

    pub(super) fn replying(&mut self) -> Replying<'_> {
        let Self { local, in_flight, replays, outbox, kept, counts, .. } = self;
        Replying { local, in_flight, replays, outbox, kept, counts }
    }
}

impl DividedGroup {
    /// Carries out the steps of an event until it waits for something, or is over.
    fn go_on(&mut self, ticket: Ticket, mut next: Option<Next>) {
        while let Some(step) = next {
            next = self.carry_out(ticket, step);
        }
    }

    /// Carries out a step of an event; returns the step that follows.
    fn carry_out(&mut self, ticket: Ticket, step: Next) -> Option<Next> {
        match step {
            Next::Test => return self.testing().test(ticket),
            Next::TreatAsMiss => return self.testing().missed(ticket),
            Next::Record => return self.recording().record_if_room(ticket),
            Next::RecordAgain => return self.recording().record_again(ticket),
            Next::RecordAs(outcome) => return self.recording().record_as(ticket, outcome),
            Next::Grant => return self.grant(ticket),
            Next::Climb(operation) => self.climbing().climb(ticket, operation),
            Next::CheckBelow => self.climbing().check_below(ticket),
            Next::Await(leader) => self.verdicts().join(leader, ticket),
            Next::DuplicateOf(leader) => self.verdicts().end_as_duplicate(leader, ticket),
            Next::Hold(hold) => self.verdicts().hold(ticket, hold),
            Next::Reply(outcome) => self.verdicts().decide(ticket, outcome),
            Next::Decide(outcome) => self.verdicts().decide_and_release(ticket, outcome),
            Next::End(outcome) => self.verdicts().decide_and_end(ticket, outcome),
        }
        None
    }

    /// Grants an event that nobody knows.
    fn grant(&mut self, ticket: Ticket) -> Option<Next> {
        if !self.local.present.keeps(Rule::GrantsRecordNothing) {
            let newest = self.local.fill.newest();
            let _ = self.recording().set(ticket, newest);
        }
        let event = self.in_flight.flights.event(ticket)?;
        Some(match self.claims.grant(event, &mut self.local, &mut self.outbox) {
            Ok(fence) => Next::Hold(Hold::Own(fence)),
            Err(reason) => Next::Decide(Decision::Undecided(reason)),
        })
    }

    /// Runs the events that have waited for one that is over.
    fn run_ready(&mut self) {
        while let Some(ticket) = self.in_flight.next_ready() {
            self.go_on(ticket, Some(Next::Test));
        }
    }

    /// Takes up a submission; its reply comes now or later.
    pub(crate) fn submit(&mut self, submission: Submission, now: Moment) {
        self.local.present.begin(now);
        self.counts.batches += 1;
        self.counts.events += submission.probes.len() as u64;
        match self.intake().admit(&submission) {
            Admission::Refused(reason) => self.refuse(submission, reason),
            Admission::Attached => {}
            Admission::New => self.take_up(submission, false),
            Admission::Known => self.take_up(submission, true),
        }
        self.finish();
    }

    fn refuse(&mut self, submission: Submission, reason: Reason) {
        let clock_ms = self.local.present.clock().clock_ms();
        let answers = Answers::undecided(submission.probes.len(), reason).with_clock(clock_ms);
        if submission.operation.is_of_verdicts() {
            self.counts.decisions.count(answers.decisions());
        }
        let reply = GroupReply { reply_to: submission.reply_to, answers, spent: Some(submission.probes) };
        self.outbox.push(Command::Reply(reply));
    }

    /// Begins the events of a submission; the guard knows some of them if it `is_known`.
    fn take_up(&mut self, submission: Submission, is_known: bool) {
        let batch = self.intake().open(submission, is_known);
        for index in 0..batch.events {
            let next = self.intake().begin(&batch, index);
            self.go_on(batch.first.event(index), next);
            self.run_ready();
        }
        self.intake().close(&batch);
    }

    /// Takes the results of tests that another node has carried out.
    pub(super) fn resolved(&mut self, resolved: &Resolved) {
        for answer in resolved.answers() {
            let next = self.testing().answered(&answer, resolved.degraded);
            self.go_on(Ticket::received(answer.ticket), next);
            self.run_ready();
        }
    }

    /// Another node has set cells, or refused to.
    pub(super) fn acknowledged(&mut self, from: NodeId, acks: &SetAcks, epoch: Epoch) {
        let done = acks.set_numbers.iter().map(|number| (*number, SetEnd::Done));
        let refused = acks.refused_numbers.iter().map(|number| (*number, SetEnd::Refused));
        for (number, end) in done.chain(refused) {
            if let Some(end) = self.in_flight.sets.end_by(number, from, epoch, end) {
                self.end_set(number, end);
            }
        }
    }

    /// Ends some sets in the same way.
    pub(super) fn end_sets(&mut self, numbers: Vec<u64>, end: SetEnd) {
        numbers.into_iter().for_each(|number| self.end_set(number, end));
    }

    /// Ends a set, and the events for which no other set is on its way.
    fn end_set(&mut self, number: u64, end: SetEnd) {
        let Some(mut set) = self.recording().end_set(number, end) else { return };
        for ticket in std::mem::take(&mut set.tickets) {
            let next = self.recording().end_set_of(ticket, &set, end);
            self.go_on(ticket, next);
        }
    }

    /// Another level has answered.
    pub(crate) fn climbed(&mut self, climbed: &Climbed, now: Moment) {
        self.local.present.begin(now);
        if self.local.tree.replayed(climbed, now.monotonic_ms) {
            self.climbing().replay_owed();
        }
        let Some((operation, tickets)) = self.local.tree.end(climbed.number) else { return self.finish() };
        for (index, ticket) in tickets.into_iter().enumerate() {
            let decision = climbed.decisions.get(index).copied().unwrap_or(Decision::Undecided(Reason::Unknown));
            let next = if operation == Operation::Verify {
                self.climbing().answered_from_below(ticket, decision, climbed.degraded)
            } else {
                let seen = climbed.seen.get(index).copied().unwrap_or_default();
                self.climbing().answered_from_above(ticket, decision, seen, climbed.degraded)
            };
            self.go_on(ticket, next);
            self.run_ready();
        }
        self.finish();
    }

    /// Brings what an input has set off to its end. The steps have this order for the reasons below. `take_commands` gives
    /// what is to be persisted first, then other commands in this order, and messages that still gather last:
    ///
    /// 1. events that became ready run first, as all later steps look at what is in flight;
    /// 2. gaps before fetching, as a gap that is over needs no cells, and fetching before comparing, which is of slices that
    ///    lack nothing;
    /// 3. whom claims are unsure of is asked whenever, as nothing else of this input rests on it;
    /// 4. early duplicates and questions to other levels before batches are replied to and dropped, as both look into
    ///    batches;
    /// 5. batches before handing over: a node that has taken over is sent the replies under names before the word that
    ///    there are no more.
    pub(super) fn finish(&mut self) {
        let now_ms = self.local.present.now_ms();
        self.local.membership.begin(now_ms);
        self.run_ready();
        self.local.mind_slices(&mut self.outbox, &mut self.kept);
        self.claims.mind_unsure(now_ms, &mut self.outbox);
        self.replying().send_early_duplicates();
        self.climbing().begin_climbs();
        while let Some(ticket) = self.in_flight.next_closing() {
            // It may be there several times.
            let Some(batch) = self.in_flight.flights.unless_over(ticket) else { continue };
            if !batch.is_pending() {
                self.replying().reply(ticket);
            }
            self.in_flight.retire(ticket);
        }
        let Self { local, in_flight, replays, outbox, .. } = self;
        local.membership.hand_over(&in_flight.flights, &replays.guard, now_ms, outbox);
    }
}
