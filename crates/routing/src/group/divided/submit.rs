//! Submissions: limits, the replay guard, the clock, single-flight; then an event is tested.
//!
//! Promises: a submission is refused before anything is set, or not at all; a retry is not run again. Must not know:
//! what nodes answer.

use firstseen_filter::{PREFETCH_EVENTS, Placed, Sighting};

use super::DividedGroup;
use super::decide::{Asked, Head, course_of};
use super::flights::{BATCH_EVENTS_MAX, BatchHeader, Flight, Phase, Ticket};
use super::outbox::Question;
use super::own::Density;
use super::placement::Voters;
use crate::group::clock::Heading;
use crate::group::guard::{Admission, Standing};
use crate::group::rules::{Rule, remembered};
use crate::group::thresholds::{Course, TOO_FEW_LEFT, min_live, rate_of_positions, verdict_if_too_few};
use crate::map::{Lookup, WhenLost};
use crate::protocol::{BatchName, Command, GroupReply, Moment, Operation, Submission, Times};
use crate::verdict::{Decision, Reason};

/// The verdict on an event whose name stands for another event.
const NAME_REUSED: Decision = Decision::Undecided(Reason::NameReused);

impl DividedGroup {
    /// Takes up a submission; its reply comes now or later.
    pub(crate) fn submit(&mut self, submission: Submission, now: Moment) {
        self.present.begin(now);
        self.counts.batches += 1;
        self.counts.events += submission.probes.len() as u64;
        let admission = match self.refusal(&submission) {
            Some(reason) => Admission::Refused(reason),
            None if !submission.operation.records() => Admission::New,
            None => self.guard.admit(&submission, now.monotonic_ms, &mut self.standings),
        };
        let admission = remembered(admission, &mut self.standings, self.present.limits().rules);
        match admission {
            Admission::Refused(reason) => self.refuse(submission, reason),
            Admission::Attached => {}
            Admission::New | Admission::Known => self.take_up(submission, admission == Admission::Known),
        }
        self.finish();
    }

    /// Why the whole submission cannot be taken up.
    fn refusal(&self, submission: &Submission) -> Option<Reason> {
        let events = submission.probes.len();
        let named = submission.names.is_empty() || submission.names.len() == events;
        let can_run = match submission.operation {
            Operation::Observe | Operation::Lookup => true,
            Operation::Claim { .. } | Operation::Confirm | Operation::Release => self.claiming.is_some(),
            Operation::Verify => self.tree.is_any(),
            Operation::BringUp => self.tree.is_any() && submission.from.is_some(),
            Operation::Count | Operation::Estimate => false,
        };
        let whole = can_run
            && submission.probes.shape() == self.tree.shape(self.membership.placement().plan())
            && events <= self.present.limits().batch_events_max.min(BATCH_EVENTS_MAX)
            && named
            && self.takes_claims(submission)
            && self.present.clock().is_valid(&submission.times, events)
            && submission.takes_its_ttl()
            // Other levels would remember the event for the window.
            && (submission.times.ttl_ms.is_none() || !self.tree.is_any());
        let inflight = self.in_flight.flights.open_events();
        let inflight = inflight.saturating_sub(self.membership.unreachable().stuck_events());
        match () {
            () if !whole => Some(Reason::Invalid),
            () if submission.operation == Operation::Observe && self.tree.must_come_from_below(submission.from) => {
                Some(Reason::Invalid)
            }
            () if self.is_draining => Some(Reason::NotReady),
            () if !self.membership.placement().has_any_here() => Some(Reason::StaleMap),
            () if self.present.doubt().is_some() => self.present.doubt(),
            () if inflight + events > self.present.limits().inflight_events_max => Some(Reason::Overloaded),
            () => None,
        }
    }

    fn refuse(&mut self, submission: Submission, reason: Reason) {
        let reply = GroupReply {
            reply_to: submission.reply_to,
            clock_ms: self.present.clock().clock_ms(),
            ..GroupReply::undecided(submission.probes.len(), reason)
        };
        if submission.operation.is_of_verdicts() {
            self.counts.decisions.count(&reply.decisions);
        }
        self.outbox.push(Command::Reply(GroupReply { spent: Some(submission.probes), ..reply }));
    }

    fn take_up(&mut self, submission: Submission, is_known: bool) {
        let heading = Heading::of(&submission);
        let (operation, from) = (submission.operation, submission.from);
        if operation.records() {
            self.guard.depart(&submission);
        }
        let names = submission.named_events().collect::<Vec<_>>();
        let Submission { reply_to, producer, sequence, fences, probes, times, deadline_ms, again, traceparent, .. } =
            submission;
        let events = probes.len();
        if operation.records() {
            // This is persisted whatever the verdict will be: a retry may find the cells.
            self.kept.taken(BatchName { producer, sequence }, &names, events);
        }
        let header = BatchHeader {
            reply_to,
            operation,
            from,
            producer,
            sequence,
            names,
            fences,
            deadline_ms,
            again,
            traceparent,
        };
        let (probes, above) = self.tree.split(probes, self.membership.placement().plan());
        let is_degraded = is_known && self.may_have_been_degraded();
        if !self.in_flight.flights.has_begun() {
            let first_number = self.membership.site().first_number();
            self.outbox.number_sets_from(first_number);
            self.in_flight.flights.number_from(first_number);
        }
        let first = self.in_flight.flights.push(header, probes, above, is_degraded);
        self.present.open_batch(heading, &times);
        let standings = std::mem::take(&mut self.standings);
        first.events(PREFETCH_EVENTS.min(events)).for_each(|ticket| self.prefetch(ticket));
        for (index, ticket) in first.events(events).enumerate() {
            if index + PREFETCH_EVENTS < events {
                self.prefetch(first.event(index + PREFETCH_EVENTS));
            }
            match standings.get(index).filter(|_| is_known) {
                None | Some(Standing::New) => self.place(ticket, (heading, &times), index, operation),
                // The name was used for another event: a verdict that is new, and counts.
                Some(Standing::Answered(refused @ NAME_REUSED)) => self.decide_and_end(ticket, *refused),
                Some(Standing::Answered(decision)) => self.repeat(ticket, *decision),
                Some(Standing::InFlight) => self.echo(ticket, index),
            }
            self.run_ready();
        }
        self.standings = standings;
        self.present.clock_mut().close_batch(heading, &times);
        if events == 0 {
            self.in_flight.close(first);
        }
    }

    /// Gives an event the verdict of its earlier submission.
    fn repeat(&mut self, ticket: Ticket, decision: Decision) {
        if let Some((batch, event)) = self.in_flight.flights.event_mut(ticket) {
            batch.repeat(event);
        }
        self.decide_and_end(ticket, decision);
    }

    /// Whether a verdict that is repeated now may have been degraded the first time: the guard does not remember that.
    fn may_have_been_degraded(&self) -> bool {
        let horizon_ms = u64::from(self.policies.retry_horizon_ms);
        self.degraded_ms.is_some_and(|last_ms| self.present.now_ms().since(last_ms) <= horizon_ms)
    }

    fn prefetch(&self, ticket: Ticket) {
        self.own.prefetch(self.membership.placement(), self.in_flight.flights.positions(ticket), self.fill.newest());
    }

    /// Finds an event's place in the window and runs it.
    fn place(&mut self, ticket: Ticket, (heading, times): (Heading, &Times), index: usize, operation: Operation) {
        let records = operation.records();
        let names = self.in_flight.flights.batch(ticket).filter(|_| records).map(|batch| &batch.header().names);
        if let Some(name) = names.and_then(|names| names.get(index)).map(|event| event.name) {
            self.in_flight.name(name, ticket);
        }
        if operation == Operation::Release {
            return self.let_go(ticket);
        }
        match self.present.clock_mut().place(heading, times, index) {
            Placed::At(stamp) => {
                self.fill.advance(stamp.unit);
                let level = self.tree.level_number();
                if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
                    flight.place(stamp, level);
                }
                self.start(ticket, operation);
            }
            Placed::Late if operation == Operation::Confirm => {
                let decision = self.confirm_late(ticket);
                self.decide_and_end(ticket, decision);
            }
            Placed::Late => self.decide_and_end(ticket, Decision::Undecided(Reason::Late)),
            Placed::Refused => self.decide_and_end(ticket, Decision::Undecided(Reason::Future)),
        }
    }

    /// Lets an event wait for another of the same positions, or tests it.
    fn start(&mut self, ticket: Ticket, operation: Operation) {
        let leads = operation.leads();
        let flights = &mut self.in_flight.flights;
        if self.present.keeps(Rule::SingleFlight) {
            match flights.leader_of(ticket) {
                None if leads => flights.lead(ticket),
                Some(leader) if leads => return self.join(leader, ticket),
                // The event's cells may be about to be set here, as they are above already.
                Some(leader) if operation == Operation::Verify => return self.end_as_duplicate(leader, ticket),
                Some(leader) if self.is_decided_by(leader, ticket) => return self.end_as_duplicate(leader, ticket),
                // A lookup is tested at once, and waits for a leader only if it finds what that leader may be setting (`recorded_by`).
                Some(_) | None => {}
            }
        }
        self.in_flight.enter(ticket, Phase::Testing);
        self.test(ticket);
    }

    /// Whether an event is a duplicate of a leader that is decided, and whose cells may not all be set yet.
    fn is_decided_by(&self, leader: Ticket, ticket: Ticket) -> bool {
        self.in_flight
            .flights
            .flight(leader)
            .is_some_and(|leading| leading.is_decided() && self.covers(leading, ticket))
    }

    /// Lets an event wait for another of the same positions, unless that is decided already.
    pub(super) fn join(&mut self, leader: Ticket, ticket: Ticket) {
        if self.is_decided_by(leader, ticket) {
            return self.end_as_duplicate(leader, ticket);
        }
        let Some(leading) = self.in_flight.flights.flight_mut(leader).copied() else { return };
        let leads = self.in_flight.flights.batch(ticket).is_some_and(|batch| batch.header().operation.leads());
        let places = self.present.limits().joiners_max;
        // Lookups leave room for submissions.
        let places = if leads { places } else { places.div_ceil(2) };
        if leading.joiners() >= places {
            self.decide_and_end(ticket, Decision::Undecided(Reason::Overloaded));
        } else {
            self.in_flight.join(leader, ticket);
        }
    }

    /// Gives an event the verdict of the one of the same name, now or later.
    fn echo(&mut self, ticket: Ticket, index: usize) {
        let event = self.in_flight.flights.batch(ticket).and_then(|batch| batch.header().names.get(index));
        let original = event.and_then(|event| self.in_flight.named(&event.name));
        match original.and_then(|ticket| Some((ticket, self.in_flight.flights.flight(ticket)?))) {
            Some((original, flight)) if !flight.is_decided() => self.in_flight.echo(original, ticket),
            Some((_, flight)) => self.decide_and_end(ticket, flight.outcome()),
            None => self.decide_and_end(ticket, Decision::Undecided(Reason::Overloaded)),
        }
    }

    /// Runs the events that have waited for one that is over.
    pub(super) fn run_ready(&mut self) {
        while let Some(ticket) = self.in_flight.next_ready() {
            self.test(ticket);
        }
    }

    /// The number of voting positions below which those on slices that may lack something are asked, too.
    fn asks_all_below(&self, ticket: Ticket) -> usize {
        match self.policies.when_lost {
            // What this level does not know climbs, so a zero counts on any slice, also on one that may lack something.
            _ if self.tree.has_parent() => usize::MAX,
            // A zero on a slice that may lack something grants nothing.
            _ if self.is_claim(ticket) => 0,
            WhenLost::FirstSeen => min_live(&self.policies, self.in_flight.flights.positions(ticket).len()),
            WhenLost::Undecided | WhenLost::Duplicate => 0,
        }
    }

    /// Tests an event at own slices, and sends it on if no zero is found.
    fn test(&mut self, ticket: Ticket) {
        let (has_parent, asks_all_below) = (self.tree.has_parent(), self.asks_all_below(ticket));
        let Self { in_flight, own, membership, policies, present, .. } = self;
        let flights = &mut in_flight.flights;
        let (placement, handing, unreachable) =
            (membership.placement(), membership.handing(), membership.unreachable());
        // An event that became ready may have been given up since.
        let Some(flight) = flights.flight(ticket).filter(|flight| flight.phase() == Phase::Testing).copied() else {
            return;
        };
        let positions = flights.positions(ticket);
        let voters = placement.voters(positions, asks_all_below);
        let course = course_of(
            policies,
            &Asked {
                head: match placement.head(positions) {
                    None => Head::Nowhere,
                    Some(head) if head == membership.site().me => Head::Here,
                    Some(_) => Head::Elsewhere,
                },
                awaits_former_head: present.keeps(Rule::AwaitsFormerHeads) && handing.awaits_head_of(positions),
                lacks_slice: !own.has_all(placement, positions),
                needs_unreachable: unreachable.has_any(placement, positions.iter().copied()),
                has_parent,
                hashes: positions.len(),
                voting: voters.voting,
            },
        );
        let is_partial =
            if has_parent { voters.positions().len() < positions.len() } else { voters.voting < positions.len() };
        let Some(stamp) = own.rejudge(flight.stamp()) else {
            let decision = self.late(ticket);
            return self.decide_and_release(ticket, decision);
        };
        if let Some(flight) = flights.flight_mut(ticket) {
            flight.rejudge(stamp);
        }
        let Some(course) = self.beside_claims(ticket, course) else { return };
        match course {
            Course::Decide(decision @ Decision::Undecided(_)) => self.decide_and_release(ticket, decision),
            Course::Decide(decision) => {
                self.ask_partly(ticket, 1.0);
                self.decide_and_release(ticket, decision);
            }
            Course::New => {
                self.ask_partly(ticket, 0.0);
                self.treat_as_miss(ticket);
            }
            Course::Ask => {
                if is_partial {
                    let rate = match self.too_few_left(ticket) {
                        Some(Decision::Undecided(_)) => 0.0,
                        _ => self.expected_rate(voters.positions().len()),
                    };
                    self.ask_partly(ticket, rate);
                }
                if self.claiming.is_some() && self.is_claim(ticket) {
                    self.ask_all(ticket, &voters);
                } else {
                    self.ask(ticket, &voters, voters.voting < asks_all_below);
                }
            }
        }
    }

    /// The chance that a new event of which so many positions are asked is called a duplicate.
    pub(super) fn expected_rate(&mut self, positions: usize) -> f64 {
        let Density { fill, generations } = self.own.density(self.present.now_ms());
        rate_of_positions(fill, positions, generations)
    }

    /// The policy's verdict on an event of which no zero was found, where too few of its slices are left; none where the slices
    /// decide.
    pub(super) fn too_few_left(&self, ticket: Ticket) -> Option<Decision> {
        let placement = self.membership.placement();
        if placement.is_all_complete() || self.tree.has_parent() {
            return None;
        }
        let positions = self.in_flight.flights.positions(ticket);
        let (voting, hashes) = (placement.voters(positions, 0).voting, positions.len());
        match verdict_if_too_few(&self.policies, voting, hashes) {
            // Few positions make no duplicate of what somebody is about to deliver.
            None if self.is_claim(ticket) && voting < min_live(&self.policies, hashes) => Some(TOO_FEW_LEFT),
            verdict => verdict,
        }
    }

    /// Not all positions of an event can be asked: if it is new, it is called a duplicate by this chance.
    fn ask_partly(&mut self, ticket: Ticket, rate: f64) {
        if let Some(batch) = self.in_flight.flights.batch_mut(ticket) {
            batch.ask_partly(rate);
        }
    }

    /// Asks the own slices about an event's voting positions, and other nodes if no zero is found here.
    fn ask(&mut self, ticket: Ticket, voters: &Voters, asks_all: bool) {
        let Self { in_flight, own, membership, outbox, .. } = self;
        let flights = &mut in_flight.flights;
        let placement = membership.placement();
        let Some((stamp, batch)) = flights.flight(ticket).map(Flight::stamp).zip(flights.batch(ticket)) else {
            return;
        };
        let positions = voters.positions();
        self.counts.tests += 1;
        let mut found = Sighting::ALL;
        own.test(placement, positions, stamp, &mut found);
        let elsewhere = || positions.iter().copied().filter(|position| !placement.is_tested_here(*position));
        let next = elsewhere().next().filter(|_| found.is_hit());
        let mut waiting = 0;
        if let Some(next) = next {
            let left_ms = batch.header().deadline_ms.since(self.present.now_ms());
            let parallel = self.policies.lookup == Lookup::Parallel;
            let question = Question {
                head: membership.site().me,
                ticket: ticket.sent(),
                stamp,
                found,
                in_tree: self.tree.is_any(),
                parallel,
                asks_all,
                deadline_in_ms: u32::try_from(left_ms).unwrap_or(u32::MAX),
                degraded: false,
                traceparent: batch.header().traceparent.as_ref(),
            };
            for (index, node) in placement.nodes().iter().enumerate() {
                let is_asked = if parallel { !placement.is_me(index) } else { index == placement.node_at(next) };
                let here = || elsewhere().filter(|position| !parallel || placement.node_at(*position) == index);
                if is_asked && here().next().is_some() {
                    outbox.test(*node, question, here());
                    waiting += 1;
                }
            }
        }
        if let Some(flight) = flights.flight_mut(ticket) {
            flight.await_answers(waiting, found);
        }
        if next.is_none() {
            self.tested(ticket);
        }
    }
}
