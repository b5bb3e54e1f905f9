//! Moves events through a group: from an input to the steps of each event, and to the end of the input.
//!
//! Each handler executes one step of an event, borrows only the parts of the group that the step may change, and
//! returns the next step ([`Next`]). `run_steps` executes these steps one after another, until the event has ended or
//! waits for a message. When the event has ended, other events that have waited for it are executed, the oldest one
//! first.

use super::MultiSliceGroup;
use super::decide::Next;
use super::flights::Ticket;
use super::intake::Intake;
use super::parent_queries::Climbing;
use super::recording::Recording;
use super::replies::Replying;
use super::sets::SetEnd;
use super::testing::Testing;
use super::verdicts::Verdicts;
use crate::group::guard::Admission;
use crate::group::rules::Rule;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{
    Answers, Command, GroupReply, Hold, LevelReply, Moment, Operation, Resolved, SetAcks, Submission,
};
use crate::verdict::{Decision, Reason};

/// Constructors of the handlers, each with the parts of the group that it may change.
impl MultiSliceGroup {
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

impl MultiSliceGroup {
    /// Executes the steps of an event until it waits for something or has ended.
    fn run_steps(&mut self, ticket: Ticket, mut next: Option<Next>) {
        while let Some(step) = next {
            next = self.execute(ticket, step);
        }
    }

    /// Executes one step of an event and returns the next step.
    fn execute(&mut self, ticket: Ticket, step: Next) -> Option<Next> {
        match step {
            Next::Test => return self.testing().test(ticket),
            Next::TreatAsMiss => return self.testing().missed(ticket),
            Next::Record => return self.recording().record_if_room(ticket),
            Next::RecordAgain => return self.recording().record_again(ticket),
            Next::RecordAs(outcome) => return self.recording().record_as(ticket, outcome),
            Next::Grant => return self.grant(ticket),
            Next::LevelQuery(operation) => self.climbing().climb(ticket, operation),
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

    /// Grants a claim on an event that is not known and not held.
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

    /// Runs the events that have waited for an event which has ended.
    fn run_ready(&mut self) {
        while let Some(ticket) = self.in_flight.next_ready() {
            self.run_steps(ticket, Some(Next::Test));
        }
    }

    /// Accepts a submission. Its reply follows at once or later.
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

    /// Begins the events of a submission. `is_known` states whether the replay guard knows some of them.
    fn take_up(&mut self, submission: Submission, is_known: bool) {
        let batch = self.intake().open(submission, is_known);
        for index in 0..batch.events {
            let next = self.intake().begin(&batch, index);
            self.run_steps(batch.first.event(index), next);
            self.run_ready();
        }
        self.intake().close(&batch);
    }

    /// Handles the results of tests that another node has executed.
    pub(super) fn resolved(&mut self, resolved: &Resolved) {
        for answer in resolved.answers() {
            let next = self.testing().answered(&answer, resolved.degraded);
            self.run_steps(Ticket::received(answer.ticket), next);
            self.run_ready();
        }
    }

    /// Handles the acknowledgement or rejection of sets by another node.
    pub(super) fn acknowledged(&mut self, from: NodeId, acks: &SetAcks, epoch: Epoch) {
        let done = acks.set_numbers.iter().map(|number| (*number, SetEnd::Done));
        let refused = acks.refused_numbers.iter().map(|number| (*number, SetEnd::Refused));
        for (number, end) in done.chain(refused) {
            if let Some(end) = self.in_flight.sets.end_by(number, from, epoch, end) {
                self.end_set(number, end);
            }
        }
    }

    /// Ends several sets in the same way.
    pub(super) fn end_sets(&mut self, numbers: Vec<u64>, end: SetEnd) {
        numbers.into_iter().for_each(|number| self.end_set(number, end));
    }

    /// Ends a set. Events for which no other set is on its way end too.
    fn end_set(&mut self, number: u64, end: SetEnd) {
        let Some(mut set) = self.recording().end_set(number, end) else { return };
        for ticket in std::mem::take(&mut set.tickets) {
            let next = self.recording().end_set_of(ticket, &set, end);
            self.run_steps(ticket, next);
        }
    }

    /// Handles the reply of another level of the filter tree.
    pub(crate) fn climbed(&mut self, climbed: &LevelReply, now: Moment) {
        self.local.present.begin(now);
        if self.local.tree.replayed(climbed, now.monotonic_ms) {
            self.climbing().replay_owed();
        }
        let Some((operation, tickets)) = self.local.tree.end(climbed.number) else { return self.finish() };
        for (index, ticket) in tickets.into_iter().enumerate() {
            let answer = climbed.answer(index);
            let next = if operation == Operation::Verify {
                self.climbing().answered_from_below(ticket, answer)
            } else {
                self.climbing().answered_from_above(ticket, answer)
            };
            self.run_steps(ticket, next);
            self.run_ready();
        }
        self.finish();
    }

    /// Completes the work that an input has caused. `take_commands` later returns journal records first, then other
    /// commands in their order, and collected messages last. The order of the steps has the following reasons:
    ///
    /// 1. Events that became ready run first, because all later steps look at the events in flight.
    /// 2. Gaps are handled before fetching, because a gap that has closed needs no cells. Fetching comes before
    ///    comparing, because only complete slices are compared.
    /// 3. Nodes that may still know old claims are asked at any point, because nothing else in this input depends on
    ///    it.
    /// 4. Early duplicates and queries to other levels come before batches are replied to and dropped, because both
    ///    read the batches.
    /// 5. Batches come before handing over. A node that has taken over must get the replies to idempotency keys before
    ///    the message that no more replies follow.
    pub(super) fn finish(&mut self) {
        let now_ms = self.local.present.now_ms();
        self.local.membership.begin(now_ms);
        self.run_ready();
        self.local.mind_slices(&mut self.outbox, &mut self.kept);
        self.claims.query_former_heads(now_ms, &mut self.outbox);
        self.replying().send_early_duplicates();
        self.climbing().begin_climbs();
        while let Some(ticket) = self.in_flight.next_closing() {
            // The same batch may be in this queue several times.
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
