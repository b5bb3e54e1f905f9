//! Tests whether an event was recorded. The node first tests its own slices. It asks other nodes only if its own slices
//! contain no empty cell, because an empty cell already proves that the event is new. A test sets no cells. The result
//! of a test names the next step of the event (`Next`).

use firstseen_filter::{TestResult, UnitNumber};

use super::claims::{Claims, claim_key};
use super::decide::{Next, after_miss, after_test};
use super::flights::{Phase, Ticket};
use super::in_flight::InFlight;
use super::local::LocalState;
use super::local_slices::Density;
use super::outbox::{Asks, ClaimedEvent, Outbox, Question};
use super::placement::Voters;
use crate::claims::BeforeTest;
use crate::group::claiming::{HELD, lost, other};
use crate::group::rules::Rule;
use crate::group::state::Counts;
use crate::group::thresholds::{Course, TOO_FEW_LEFT, rate_of_positions};
use crate::map::Lookup;
use crate::protocol::{Hold, TestAnswer};
use crate::verdict::Decision;

/// Handler that tests events.
pub(super) struct Testing<'a> {
    pub(super) local: &'a mut LocalState,
    pub(super) in_flight: &'a mut InFlight,
    pub(super) claims: &'a mut Claims,
    pub(super) outbox: &'a mut Outbox,
    pub(super) counts: &'a mut Counts,
}

impl Testing<'_> {
    /// Tests an event in the slices of this node. If no cell is empty, the function sends the event to the other nodes.
    /// Returns the next step of the event, or `None` while replies of other nodes are missing.
    pub(super) fn test(&mut self, ticket: Ticket) -> Option<Next> {
        let flights = &mut self.in_flight.flights;
        // An event that became ready may have been abandoned since.
        let event = flights.event(ticket).filter(|event| event.flight().phase() == Phase::Testing)?;
        let asks_all_below = self.local.asks_all_below(event);
        let voters = self.local.membership.placement().voters(event.positions(), asks_all_below);
        let course = self.local.course(event, &voters);
        let is_claim = event.operation().is_claim();
        let asked = if self.local.tree.has_parent() { voters.positions().len() } else { voters.voting };
        let is_partial = asked < event.positions().len();
        let Some(stamp) = self.local.own.rejudge(event.stamp()) else {
            return Some(Next::Decide(self.claims.late(event, self.local.present.now_ms())));
        };
        if let Some(flight) = flights.flight_mut(ticket) {
            flight.rejudge(stamp);
        }
        let course = match self.beside_claims(ticket, course) {
            Ok(course) => course,
            Err(next) => return next,
        };
        match course {
            Course::Decide(decision @ Decision::Undecided(_)) => Some(Next::Decide(decision)),
            Course::Decide(decision) => {
                self.ask_partly(ticket, 1.0);
                Some(Next::Decide(decision))
            }
            Course::New => {
                self.ask_partly(ticket, 0.0);
                self.missed(ticket)
            }
            Course::Ask => {
                if is_partial {
                    let rate = self.partial_rate(ticket, &voters);
                    self.ask_partly(ticket, rate);
                }
                if is_claim {
                    self.ask_all(ticket, &voters)
                } else {
                    self.ask(ticket, &voters, voters.voting < asks_all_below)
                }
            }
        }
    }

    /// Returns the next step after the test at this level has ended, because all nodes have replied or one has found an
    /// empty cell.
    fn tested(&mut self, ticket: Ticket) -> Option<Next> {
        let facts = self.local.facts(&self.in_flight.flights, self.claims, ticket)?;
        if !facts.is_found {
            self.note_expiry(ticket);
        }
        Some(after_test(&facts))
    }

    /// Returns the next step if this level does not know an event, whatever its slices contain.
    pub(super) fn missed(&mut self, ticket: Ticket) -> Option<Next> {
        let facts = self.local.facts(&self.in_flight.flights, self.claims, ticket)?;
        self.note_expiry(ticket);
        Some(after_miss(&facts))
    }

    /// Cells that are set for a new event live as long as its window.
    fn note_expiry(&mut self, ticket: Ticket) {
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.miss(self.local.own.rule());
        }
    }

    /// Handles the result of a test by another node. `is_degraded` states whether the result depends on an incomplete
    /// slice. Returns the next step of the event. Returns `None` if the event still waits for other replies, or if it
    /// no longer needs this reply.
    pub(super) fn answered(&mut self, answer: &TestAnswer, is_degraded: bool) -> Option<Next> {
        let ticket = Ticket::received(answer.ticket);
        let (batch, index) = self.in_flight.flights.event_unless_over(ticket)?;
        if is_degraded {
            batch.degrade();
        }
        let awaits_all = batch.header().operation.is_claim() && self.local.present.keeps(Rule::AwaitsAllAnswers);
        let flight = batch.flight_mut(index);
        if flight.phase() != Phase::Testing {
            return None;
        }
        if let Some(reason) = answer.undecided {
            return Some(Next::Decide(Decision::Undecided(reason)));
        }
        if let Some(left_ms) = answer.veto_ms {
            return Some(Next::Hold(Hold::Other { left_ms }));
        }
        let is_over = flight.answered(answer.found) || !flight.is_found() && !awaits_all;
        if is_over { self.tested(ticket) } else { None }
    }

    /// Looks an event up in the claim table. Returns how to process the event, or as an error the next step that the
    /// claims determine instead.
    fn beside_claims(&mut self, ticket: Ticket, course: Course) -> Result<Course, Option<Next>> {
        let Some(claiming) = self.claims.get() else { return Ok(course) };
        let event = self.in_flight.flights.event(ticket).ok_or(None)?;
        match course {
            Course::Decide(Decision::Undecided(_)) => return Ok(course),
            // The decision that the policy makes for too few slices is not knowledge about the event, so claims must
            // not rely on it.
            Course::Decide(_) | Course::New if event.operation().is_of_claims() => {
                return Ok(Course::Decide(TOO_FEW_LEFT));
            }
            Course::Decide(_) | Course::New | Course::Ask => {}
        }
        let call = Claims::call(event).ok_or(None)?;
        let unit = event.stamp().unit;
        let next = match claiming.before_test(call, claim_key(event), self.local.present.now_ms()) {
            BeforeTest::Ask => return Ok(course),
            BeforeTest::Record => self.record_confirmed(unit),
            BeforeTest::Claimed(fence) => Next::Hold(Hold::Own(fence)),
            BeforeTest::InProgress { left_ms } => Next::Hold(other(left_ms)),
            BeforeTest::UndecidedClaimed => Next::Decide(HELD),
            BeforeTest::LeaseLost(why) => Next::Decide(lost(why)),
            // Releases are answered before any test.
            BeforeTest::Release => return Err(None),
        };
        Err(Some(next))
    }

    /// Returns the step that records an event because a client confirms its claim. The event's cells are set without a
    /// test, because a test could do harm. The cells may be set by chance, because other events use the same cells. A
    /// test would then find the event, and the event would not be recorded. As soon as the cells of the other events
    /// expired, the event would be forgotten, although its own window has not ended.
    fn record_confirmed(&mut self, unit: UnitNumber) -> Next {
        let present = &self.local.present;
        if let Some(reason) = present.absent().or_else(|| present.cut_off()) {
            return Next::Decide(Decision::Undecided(reason));
        }
        // There was room when the event was granted. This call makes sure that the next generation is still proposed in
        // time.
        let _ = self.local.room(unit, 0, self.outbox);
        Next::RecordAs(Decision::FirstSeen)
    }

    /// Returns the probability that a new event is called a duplicate if only these positions are asked.
    fn partial_rate(&self, ticket: Ticket, voters: &Voters) -> f64 {
        let event = self.in_flight.flights.event(ticket);
        if let Some(Decision::Undecided(_)) = event.and_then(|event| self.local.too_few_left(event)) {
            return 0.0;
        }
        expected_rate(self.local, voters.positions().len())
    }

    /// Notes that not all positions of an event can be asked. If the event is new, it is called a duplicate with
    /// probability `rate`.
    fn ask_partly(&mut self, ticket: Ticket, rate: f64) {
        if let Some(batch) = self.in_flight.flights.batch_mut(ticket) {
            batch.ask_partly(rate);
        }
    }

    /// Asks this node's slices about an event's voting positions, and other nodes if no empty cell is found here.
    fn ask(&mut self, ticket: Ticket, voters: &Voters, asks_all: bool) -> Option<Next> {
        let LocalState { own, membership, tree, policies, present, .. } = &mut *self.local;
        let event = self.in_flight.flights.event(ticket)?;
        let placement = membership.placement();
        let positions = voters.positions();
        let stamp = event.stamp();
        self.counts.tests += 1;
        let mut found = TestResult::ALL;
        own.test(placement, positions, stamp, &mut found);
        let elsewhere = positions.iter().copied().filter(|position| !placement.is_tested_here(*position));
        let next = elsewhere.clone().next().filter(|_| found.is_hit());
        let mut waiting = 0;
        if let Some(next) = next {
            let header = event.header();
            let parallel = policies.lookup == Lookup::Parallel;
            let question = Question {
                head: membership.site().me,
                ticket: ticket.sent(),
                stamp,
                found,
                in_tree: tree.is_any(),
                parallel,
                asks_all,
                deadline_in_ms: u32::try_from(header.deadline_ms.since(present.now_ms())).unwrap_or(u32::MAX),
                degraded: false,
                traceparent: header.traceparent.as_ref(),
            };
            for (index, node) in placement.nodes().iter().enumerate() {
                let is_asked = if parallel { !placement.is_me(index) } else { index == placement.node_at(next) };
                if !is_asked {
                    continue;
                }
                let left = elsewhere.clone().filter(|position| !parallel || placement.node_at(*position) == index);
                if left.clone().next().is_some() {
                    self.outbox.test(*node, question, left);
                    waiting += 1;
                }
            }
        }
        if let Some(flight) = self.in_flight.flights.flight_mut(ticket) {
            flight.await_answers(waiting, found);
        }
        if next.is_none() { self.tested(ticket) } else { None }
    }

    /// Asks all nodes that would record a claimed event, including nodes to which slices are moving. Every one of these
    /// nodes is asked whether it has a claim of the event for another client. Nodes with positions in voting slices are
    /// also asked whether they know the event.
    fn ask_all(&mut self, ticket: Ticket, voters: &Voters) -> Option<Next> {
        // No node could find an empty cell in this case. If the cluster map then called slices complete, the event
        // would count as found.
        if voters.voting == 0 {
            return Some(Next::Decide(TOO_FEW_LEFT));
        }
        let LocalState { own, membership, present, .. } = &mut *self.local;
        let event = self.in_flight.flights.event(ticket)?;
        let placement = membership.placement();
        let now_ms = present.now_ms();
        let left_ms = u32::try_from(event.header().deadline_ms.since(now_ms)).unwrap_or(u32::MAX);
        let claimed = ClaimedEvent {
            head: membership.site().me,
            ticket: ticket.sent(),
            event: claim_key(event),
            stamp: event.stamp(),
        };
        self.counts.tests += 1;
        let mut found = TestResult::ALL;
        own.test(placement, voters.positions(), event.stamp(), &mut found);
        let mut waiting = 0;
        for (index, node) in placement.nodes().iter().enumerate() {
            if placement.is_me(index) || placement.is_gone(index) {
                continue;
            }
            let voters = voters.positions().iter().copied();
            let voting = voters.filter(|position| placement.node_at(*position) == index);
            let positions = event.positions().iter().copied();
            let there = positions.filter(|position| placement.has_copy(index, *position));
            if there.clone().next().is_none() {
                continue;
            } else if !found.is_hit() {
                // The empty cell proves that the event is new, so the other nodes only say whether they hold a claim of
                // it.
                self.outbox.test_claim(*node, claimed, Asks::Copies, there.take(1), left_ms);
            } else if voting.clone().next().is_some() {
                self.outbox.test_claim(*node, claimed, Asks::Voters, voting, left_ms);
            } else {
                self.outbox.test_claim(*node, claimed, Asks::Copies, there, left_ms);
            }
            waiting += 1;
        }
        if let Some((batch, index)) = self.in_flight.flights.event_mut(ticket) {
            batch.asked(index, now_ms);
            batch.flight_mut(index).await_answers(waiting, TestResult { expiry: UnitNumber::NEVER, ..found });
        }
        let awaits_none = waiting == 0 || !found.is_hit() && !self.local.present.keeps(Rule::AwaitsAllAnswers);
        if awaits_none { self.tested(ticket) } else { None }
    }
}

/// Returns the probability that a new event is called a duplicate if `positions` of its positions are asked.
pub(super) fn expected_rate(local: &LocalState, positions: usize) -> f64 {
    let Density { fill, generations } = local.own.density(local.present.now_ms());
    rate_of_positions(fill, positions, generations)
}
