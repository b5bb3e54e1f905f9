//! Accepts submissions, which are the batches of events that producers send. A submission is checked against the
//! limits, the replay guard and the clock. It is then either rejected before any cell is set, or accepted as a whole.
//! If the replay guard recognizes a submission as a retry, the submission is not executed again.
//!
//! If a batch contains events with the same positions, or such an event is already in flight, only the first of these
//! events is tested. The others wait until the first one has a verdict, because that verdict may also decide them.

use firstseen_filter::{PREFETCH_EVENTS, Placed};

use super::claims::Claims;
use super::decide::Next;
use super::durable::ToPersist;
use super::flights::{BATCH_EVENTS_MAX, BatchHeader, Phase, Ticket};
use super::in_flight::InFlight;
use super::local::LocalState;
use super::outbox::Outbox;
use crate::group::clock::Heading;
use crate::group::guard::{Admission, ReplayGuard, Standing};
use crate::group::rules::{Rule, remembered};
use crate::protocol::{Mirrored, MonotonicMs, Operation, Submission, Times};
use crate::verdict::{Decision, Reason};

/// The decision on an event whose idempotency key belongs to another event.
const NAME_REUSED: Decision = Decision::Undecided(Reason::NameReused);

/// What a head remembers of earlier submissions.
pub(super) struct Replays {
    pub(super) guard: ReplayGuard,
    /// What the replay guard knows about the events of the current batch.
    standings: Vec<Standing>,
    /// Whether new submissions are rejected, because the node is about to stop or the filter was dropped.
    pub(super) is_draining: bool,
    /// The last time at which a degraded reply was sent.
    pub(super) degraded_ms: Option<MonotonicMs>,
}

impl Replays {
    pub(super) fn new(guard: ReplayGuard) -> Self {
        Self { guard, standings: Vec::new(), is_draining: false, degraded_ms: None }
    }
}

/// Handler that accepts submissions.
pub(super) struct Intake<'a> {
    pub(super) replays: &'a mut Replays,
    pub(super) local: &'a mut LocalState,
    pub(super) in_flight: &'a mut InFlight,
    pub(super) claims: &'a mut Claims,
    pub(super) outbox: &'a mut Outbox,
    pub(super) kept: &'a mut ToPersist,
}

/// A batch whose events are being started one by one.
pub(super) struct OpenBatch {
    pub(super) first: Ticket,
    pub(super) events: usize,
    operation: Operation,
    heading: Heading,
    times: Times,
    /// Whether the replay guard knows some of the events.
    is_known: bool,
}

impl Intake<'_> {
    /// Returns whether a submission is accepted, and what the replay guard knows about it.
    pub(super) fn admit(&mut self, submission: &Submission) -> Admission {
        if let Some(reason) = self.refusal(submission) {
            return Admission::Refused(reason);
        }
        if !submission.operation.records() {
            return Admission::New;
        }
        let Replays { guard, standings, .. } = &mut *self.replays;
        let admission = guard.admit(submission, self.local.present.now_ms(), standings);
        remembered(admission, standings, self.local.present.limits().rules)
    }

    /// Returns the reason why the whole submission is rejected, or `None` if it can be accepted.
    fn refusal(&self, submission: &Submission) -> Option<Reason> {
        let LocalState { membership, tree, present, .. } = &*self.local;
        let skips_levels = submission.operation == Operation::Observe && tree.must_come_from_below(submission.from);
        if !self.is_valid(submission) || skips_levels {
            return Some(Reason::Invalid);
        }
        if self.replays.is_draining {
            return Some(Reason::NotReady);
        }
        if !membership.placement().has_any_here() {
            return Some(Reason::StaleMap);
        }
        let inflight = self.in_flight.flights.open_events().saturating_sub(membership.unreachable().stuck_events());
        let is_overloaded = inflight + submission.probes.len() > present.limits().inflight_events_max;
        present.doubt().or(is_overloaded.then_some(Reason::Overloaded))
    }

    /// Returns whether a submission is valid for this group.
    fn is_valid(&self, submission: &Submission) -> bool {
        let LocalState { membership, tree, present, .. } = &*self.local;
        let events = submission.probes.len();
        let can_run = match submission.operation {
            Operation::Observe | Operation::Lookup => true,
            Operation::Claim { .. } | Operation::Confirm | Operation::Release => self.claims.get().is_some(),
            Operation::Verify => tree.is_any(),
            Operation::BringUp => tree.is_any() && submission.from.is_some(),
            Operation::Count | Operation::Estimate => false,
        };
        can_run
            && submission.probes.shape() == tree.shape(membership.placement().plan())
            && events <= present.limits().batch_events_max.min(BATCH_EVENTS_MAX)
            && (submission.names.is_empty() || submission.names.len() == events)
            && self.claims.takes(submission)
            && present.clock().is_valid(&submission.times, events)
            && submission.takes_its_ttl()
            // Other levels of a filter tree would remember the event for the full window, so an own time to live is
            // invalid there.
            && (submission.times.ttl_ms.is_none() || !tree.is_any())
    }

    /// Opens an admitted batch. None of its events is started yet.
    pub(super) fn open(&mut self, submission: Submission, is_known: bool) -> OpenBatch {
        let heading = Heading::of(&submission);
        let operation = submission.operation;
        let events = submission.probes.len();
        let names = submission.named_events().collect::<Vec<_>>();
        if operation.records() {
            self.replays.guard.depart(&submission);
            // The submission is persisted before its verdict is known, because a retry may find its cells.
            self.kept.taken(submission.name(), &names, events);
        }
        let (probes, above) = self.local.tree.split(submission.probes, self.local.membership.placement().plan());
        let header = BatchHeader {
            reply_to: submission.reply_to,
            operation,
            from: submission.from,
            producer: submission.producer,
            sequence: submission.sequence,
            names,
            fences: submission.fences,
            deadline_ms: submission.deadline_ms,
            again: submission.again,
            traceparent: submission.traceparent,
        };
        let flights = &mut self.in_flight.flights;
        if !flights.has_begun() {
            let first_number = self.local.membership.site().first_number();
            self.outbox.number_sets_from(first_number);
            flights.number_from(first_number);
        }
        let first = flights.push(header, probes, above);
        self.local.present.open_batch(heading, &submission.times);
        for ticket in first.events(PREFETCH_EVENTS.min(events)) {
            self.prefetch(ticket);
        }
        OpenBatch { first, events, operation, heading, times: submission.times, is_known }
    }

    /// Returns whether a verdict that is repeated now may have been degraded the first time. The replay guard does not
    /// store that.
    fn may_have_been_degraded(&self) -> bool {
        let horizon_ms = u64::from(self.local.policies.retry_horizon_ms);
        self.replays.degraded_ms.is_some_and(|last_ms| self.local.present.now_ms().since(last_ms) <= horizon_ms)
    }

    fn prefetch(&self, ticket: Ticket) {
        let LocalState { own, membership, fill, .. } = &*self.local;
        own.prefetch(membership.placement(), self.in_flight.flights.positions(ticket), fill.newest());
    }

    /// Starts an event of a batch. Returns the next step, or `None` if the event waits for another event.
    pub(super) fn begin(&mut self, batch: &OpenBatch, index: usize) -> Option<Next> {
        if index + PREFETCH_EVENTS < batch.events {
            self.prefetch(batch.first.event(index + PREFETCH_EVENTS));
        }
        let ticket = batch.first.event(index);
        let standing = self.replays.standings.get(index).copied().filter(|_| batch.is_known);
        match standing {
            None | Some(Standing::New) => self.place(batch, ticket),
            // The idempotency key was used for another event. This verdict is new, so it is counted.
            Some(Standing::Answered(NAME_REUSED)) => Some(Next::End(NAME_REUSED)),
            Some(Standing::Answered(decision)) => {
                let is_degraded = self.may_have_been_degraded();
                if let Some((batch, index)) = self.in_flight.flights.event_mut(ticket) {
                    batch.repeat(index);
                    if is_degraded {
                        batch.degrade_event(index);
                    }
                }
                Some(Next::End(decision))
            }
            Some(Standing::InFlight) => self.echo(ticket),
        }
    }

    /// Determines an event's place in the window.
    fn place(&mut self, batch: &OpenBatch, ticket: Ticket) -> Option<Next> {
        let LocalState { present, fill, tree, .. } = &mut *self.local;
        let name = self.in_flight.flights.event(ticket)?.name();
        if let Some(name) = name.filter(|_| batch.operation.records()) {
            self.in_flight.name(name, ticket);
        }
        let event = self.in_flight.flights.event(ticket)?;
        if batch.operation == Operation::Release {
            return Some(Next::End(self.claims.release(event, present.now_ms())));
        }
        let stamp = match present.clock_mut().place(batch.heading, &batch.times, ticket.index()) {
            Placed::At(stamp) => stamp,
            Placed::Late => return Some(Next::End(self.claims.late(event, present.now_ms()))),
            Placed::Refused => return Some(Next::End(Decision::Undecided(Reason::Future))),
        };
        fill.advance(stamp.unit);
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.place(stamp, tree.level_number());
        }
        Some(self.start(ticket, batch.operation))
    }

    /// Lets an event wait for another event with the same positions, or starts its test.
    fn start(&mut self, ticket: Ticket, operation: Operation) -> Next {
        let flights = &mut self.in_flight.flights;
        if self.local.present.keeps(Rule::SingleFlight) {
            let leads = operation.leads();
            match flights.leader_of(ticket) {
                None if leads => flights.lead(ticket),
                Some(leader) if leads => return Next::Await(leader),
                // The other event's cells may be about to be set here, because they are already set at the parent
                // level.
                Some(leader) if operation == Operation::Verify => return Next::DuplicateOf(leader),
                Some(leader) if self.local.is_decided_by(flights, leader, ticket) => return Next::DuplicateOf(leader),
                // A lookup is tested at once. It waits for a leader only if it finds cells that this leader may be
                // setting (`recorded_by`).
                Some(_) | None => {}
            }
        }
        self.in_flight.enter(ticket, Phase::Testing);
        Next::Test
    }

    /// Gives a retry the verdict of the event with the same idempotency key, either at once or when that event ends.
    fn echo(&mut self, ticket: Ticket) -> Option<Next> {
        let name = self.in_flight.flights.event(ticket)?.name();
        let original = name.and_then(|name| self.in_flight.named(&name));
        let flight = original.and_then(|original| self.in_flight.flights.flight(original));
        let Some((original, flight)) = original.zip(flight) else {
            return Some(Next::End(Decision::Undecided(Reason::Overloaded)));
        };
        if flight.is_decided() {
            return Some(Next::End(flight.outcome()));
        }
        self.in_flight.echo(original, ticket);
        None
    }

    /// Closes a batch for the clock, after all of its events were placed.
    pub(super) fn close(&mut self, batch: &OpenBatch) {
        self.local.present.clock_mut().close_batch(batch.heading, &batch.times);
        if batch.events == 0 {
            self.in_flight.close(batch.first);
        }
    }

    /// Restores replies that another head has given.
    pub(super) fn hear_replies(&mut self, mirrored: &Mirrored) {
        if self.local.present.keeps(Rule::RestoresIdempotencyKeys) {
            let replies = (mirrored.name, mirrored.names.clone(), mirrored.decisions.clone());
            self.replays.guard.restore(&replies, self.local.present.now_ms());
        }
        self.kept.replied(mirrored.name, &mirrored.names, &mirrored.decisions, mirrored.clock);
    }
}
