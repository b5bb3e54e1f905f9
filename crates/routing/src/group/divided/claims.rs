//! Claims of events whose positions are divided over several nodes: granted once all nodes that would record the event have
//! answered that they do not know it, and hold no claim of it.
//!
//! Promises: a claim sets nothing; two heads of an event, one before and one after a change of the map, hold no claims of it at
//! a time; who waits for an event that was granted is asked anew, and never called a duplicate of it. Must not know: how
//! messages travel.

use firstseen_filter::{Sighting, UnitNumber};

use super::DividedGroup;
use super::flights::{Flight, Ticket};
use super::outbox::{Asks, ClaimedEvent, Finding};
use super::placement::{Placement, Voters};
use crate::claims::{BeforeTest, ClaimCall};
use crate::group::claiming::{GrantRequest, HELD, event_of_positions, lost, other, tag_of};
use crate::group::rules::Rule;
use crate::group::state::ClaimCounts;
use crate::group::thresholds::{Course, TOO_FEW_LEFT};
use crate::ids::{Epoch, NodeId};
use crate::protocol::{ClaimTests, Fence, Hold, Operation, PeerBody, Resolved, Submission};
use crate::verdict::{Decision, Reason};

impl DividedGroup {
    /// Whether what a submission says of claims fits the filter: where that has no claims, it may bring no fences.
    pub(super) fn takes_claims(&self, submission: &Submission) -> bool {
        let Submission { operation, fences, probes, .. } = submission;
        self.claiming.as_ref().map_or(fences.is_empty(), |claiming| claiming.takes(*operation, fences, probes.len()))
    }

    /// What is called for, as claims know it.
    fn call(&self, ticket: Ticket) -> Option<ClaimCall> {
        let header = self.in_flight.flights.batch(ticket)?.header();
        Some(match header.operation {
            Operation::Claim { .. } => ClaimCall::Claim { tag: self.tag(ticket)? },
            Operation::Confirm => ClaimCall::Confirm(self.fence(ticket)?),
            Operation::Release => ClaimCall::Release(self.fence(ticket)?),
            operation if operation.records() => ClaimCall::Observe,
            _ => ClaimCall::Test,
        })
    }

    fn tag(&self, ticket: Ticket) -> Option<u64> {
        let (header, index) = (self.in_flight.flights.batch(ticket)?.header(), ticket.index());
        let name = header.names.get(index).map(|named| named.name);
        Some(tag_of(name, (header.producer, header.sequence, index)))
    }

    fn fence(&self, ticket: Ticket) -> Option<Fence> {
        self.in_flight.flights.batch(ticket)?.header().fences.get(ticket.index()).copied()
    }

    fn event(&self, ticket: Ticket) -> u128 {
        event_of_positions(self.in_flight.flights.positions(ticket))
    }

    pub(super) fn is_claim(&self, ticket: Ticket) -> bool {
        self.in_flight.flights.batch(ticket).is_some_and(|batch| batch.header().operation.is_claim())
    }

    pub(super) fn is_confirm(&self, ticket: Ticket) -> bool {
        self.in_flight.flights.batch(ticket).is_some_and(|batch| batch.header().operation == Operation::Confirm)
    }

    /// Whether the reply waits until the event is recorded at all nodes, whatever other replies do.
    pub(super) fn awaits_all(&self, ticket: Ticket) -> bool {
        self.claiming.is_some() && self.is_confirm(ticket) && self.present.keeps(Rule::ConfirmsAwaitAll)
    }

    /// Lets an event go.
    pub(super) fn let_go(&mut self, ticket: Ticket) {
        let (event, fence, now_ms) = (self.event(ticket), self.fence(ticket), self.present.now_ms());
        let released =
            self.claiming.as_mut().zip(fence).map(|(claiming, fence)| claiming.release(event, fence, now_ms));
        self.decide_and_end(ticket, released.unwrap_or(Decision::Undecided(Reason::Invalid)));
    }

    /// Looks an event up in the table of claims. Returns the course to follow; none if the claims have decided.
    pub(super) fn beside_claims(&mut self, ticket: Ticket, course: Course) -> Option<Course> {
        let Some(claiming) = &self.claiming else { return Some(course) };
        let call = self.call(ticket)?;
        let is_of_claims = !matches!(call, ClaimCall::Observe | ClaimCall::Test);
        // What is said where too few slices are left is no knowledge of the event.
        let course = match course {
            Course::Decide(Decision::Undecided(_)) => return Some(course),
            Course::Decide(_) | Course::New if is_of_claims => return Some(Course::Decide(TOO_FEW_LEFT)),
            course => course,
        };
        match claiming.before_test(call, self.event(ticket), self.present.now_ms()) {
            BeforeTest::Ask => return Some(course),
            BeforeTest::Record => self.record_confirmed(ticket),
            BeforeTest::Claimed(fence) => self.decide_held(ticket, Hold::Own(fence)),
            BeforeTest::InProgress { left_ms } => self.decide_held(ticket, other(left_ms)),
            BeforeTest::UndecidedClaimed => self.decide_and_release(ticket, HELD),
            BeforeTest::LeaseLost(why) => self.decide_and_release(ticket, lost(why)),
            // `place` has answered releases, before any test.
            BeforeTest::Release => {}
        }
        None
    }

    /// Asks all nodes that would record an event, and have copies of slices that are on their way, too: those that are asked
    /// about voting positions whether they know the event, and every one whether it holds a claim of it.
    pub(super) fn ask_all(&mut self, ticket: Ticket, voters: &Voters) {
        // Nobody could find a zero then; and should the map call slices complete meanwhile, the event would count as found.
        if voters.voting == 0 {
            return self.decide_and_release(ticket, TOO_FEW_LEFT);
        }
        let event = self.event(ticket);
        let Self { in_flight, own, membership, outbox, .. } = self;
        let (placement, now_ms) = (membership.placement(), self.present.now_ms());
        let flights = &mut in_flight.flights;
        let Some((stamp, batch)) = flights.flight(ticket).map(Flight::stamp).zip(flights.batch(ticket)) else {
            return;
        };
        let left_ms = u32::try_from(batch.header().deadline_ms.since(now_ms)).unwrap_or(u32::MAX);
        self.counts.tests += 1;
        let mut found = Sighting::ALL;
        own.test(placement, voters.positions(), stamp, &mut found);
        let (positions, mut waiting) = (flights.positions(ticket), 0);
        for (index, node) in placement.nodes().iter().enumerate() {
            if placement.is_me(index) || placement.is_gone(index) {
                continue;
            }
            let voting = || voters.positions().iter().copied().filter(|position| placement.node_at(*position) == index);
            let there = || positions.iter().copied().filter(|position| placement.has_copy(index, *position));
            let event = ClaimedEvent { head: membership.site().me, ticket: ticket.sent(), event, stamp };
            if there().next().is_none() {
                continue;
            } else if !found.is_hit() {
                // The zero proves that the event is new, so the others say only whether they hold a claim of it.
                outbox.test_claim(*node, event, Asks::Copies, there().take(1), left_ms);
            } else if voting().next().is_some() {
                outbox.test_claim(*node, event, Asks::Voters, voting(), left_ms);
            } else {
                outbox.test_claim(*node, event, Asks::Copies, there(), left_ms);
            }
            waiting += 1;
        }
        if let Some((batch, index)) = flights.event_mut(ticket) {
            batch.asked(index, now_ms);
            batch.flight_mut(index).await_answers(waiting, Sighting { expiry: UnitNumber::NEVER, ..found });
        }
        if waiting == 0 || !found.is_hit() && !self.present.keeps(Rule::AwaitsAllAnswers) {
            self.tested(ticket);
        }
    }

    /// Answers heads of events that are claimed.
    pub(super) fn test_claims(&mut self, from: NodeId, tests: &ClaimTests) {
        let Self { own, membership, outbox, claiming, present, .. } = self;
        let (placement, test) = (membership.placement(), &tests.test);
        if tests.events.is_empty() {
            return outbox.send(from, PeerBody::Resolved(Resolved::default()));
        }
        let newest = own.newest_generation();
        test.left.iter().filter(|left| placement.admits(left)).for_each(|left| own.prefetch(placement, left, newest));
        let events = test.left.iter().zip(&test.tickets).zip(&test.stamps).zip(&tests.events).zip(test.run_of_each());
        for ((((left, ticket), stamp), event), run) in events.filter(|(_, run)| run.deadline_in_ms > 0) {
            let held_ms = claiming.as_ref().and_then(|claiming| claiming.held_ms(*event, present.now_ms()));
            let is_complete = |position: &u64| placement.is_slice_complete_here(placement.locate(*position).0);
            let finding = match (held_ms, own.rejudge(*stamp)) {
                (Some(left_ms), _) => Finding::Veto(left_ms),
                _ if !placement.admits(left) => Finding::Undecided(Reason::Invalid),
                // A head whose map is older than a loss would take what is not tested for found.
                _ if !run.asks_all && !left.iter().all(is_complete) => Finding::Undecided(Reason::StaleMap),
                (None, None) => Finding::Undecided(Reason::Late),
                (None, Some(stamp)) => {
                    let mut found = Sighting::ALL;
                    if left.iter().all(is_complete) {
                        own.test(placement, left, stamp, &mut found);
                    } else {
                        let complete: Vec<u64> = left.iter().copied().filter(is_complete).collect();
                        own.test(placement, &complete, stamp, &mut found);
                    }
                    Finding::Found(found, false)
                }
            };
            outbox.resolve(run.head, *ticket, finding, 1, false);
        }
    }

    /// Returns the reply if a former head may hold an event that is not recorded. `None` if none can, or if the event is claimed
    /// and that head is asked.
    pub(super) fn unknown_claim(&self, ticket: Ticket) -> Option<Reason> {
        if self.claiming.as_ref()?.is_sure(self.present.now_ms()) {
            return None;
        }
        let (positions, placement, me) =
            (self.in_flight.flights.positions(ticket), self.membership.placement(), self.membership.site().me);
        let is_claim = self.in_flight.flights.batch(ticket)?.header().operation.is_claim();
        let may_hold = |former: &Placement| {
            let other = former.head(positions).filter(|head| *head != me);
            other.is_some_and(|head| !is_claim || !placement.has_former_head(former, head, positions))
        };
        self.claiming.as_ref()?.unknown(|former| former.is_none_or(may_hold), self.present.now_ms())
    }

    /// Grants an event that nobody knows.
    pub(super) fn grant(&mut self, ticket: Ticket) {
        if !self.present.keeps(Rule::GrantsRecordNothing) {
            let _ = self.set(ticket, self.fill.newest());
        }
        let (event, tag) = (self.event(ticket), self.tag(ticket));
        let granted = self.grant_if_room(ticket, event, tag.unwrap_or_default());
        match granted {
            Ok(fence) => self.decide_held(ticket, Hold::Own(fence)),
            Err(reason) => self.decide_and_release(ticket, Decision::Undecided(reason)),
        }
    }

    fn grant_if_room(&mut self, ticket: Ticket, event: u128, tag: u64) -> Result<Fence, Reason> {
        let batch = self.in_flight.flights.batch(ticket).ok_or(Reason::NotReady)?;
        let Operation::Claim { lease_ms } = batch.header().operation else { return Err(Reason::Invalid) };
        let since_ms = batch.asked_ms(ticket.index()).ok_or(Reason::NotReady)?;
        let unit = batch.flights().get(ticket.index()).ok_or(Reason::NotReady)?.stamp().unit;
        let pending = self.pending();
        self.room_beside(unit, pending)?;
        let (site, epoch) = (self.membership.site(), self.membership.placement().epoch());
        let (request, now_ms) = (GrantRequest { event, tag, since_ms, lease_ms }, self.present.now_ms());
        let claiming = self.claiming.as_mut().ok_or(Reason::Invalid)?;
        claiming.grant(&site, epoch, request, now_ms)
    }

    /// An estimate of the events that all nodes of the group hold: as many at each as here.
    fn pending(&mut self) -> u64 {
        let heads = 1 + self.membership.placement().live_peers().count() as u64;
        let room_events = self.fill.room_events(self.own.len() as u64, || self.own.used_cells(self.fill.newest()));
        let (now_ms, claiming) = (self.present.now_ms(), &mut self.claiming);
        let room_events = room_events.unwrap_or(u64::MAX) / heads;
        claiming.as_mut().map_or(0, |claiming| claiming.pending((room_events, 1), now_ms)) * heads
    }

    /// Decides a claim as held: its reply says who holds the event.
    pub(super) fn decide_held(&mut self, ticket: Ticket, hold: Hold) {
        if let Some((batch, index)) = self.in_flight.flights.event_mut(ticket) {
            batch.hold(index, hold);
        }
        if matches!(hold, Hold::Own(_)) && !self.present.keeps(Rule::AsksJoinersAnew) {
            self.end_joiners(ticket);
        }
        self.decide_and_release(ticket, HELD);
    }

    /// Where the rule `AsksJoinersAnew` is broken, whoever waits for an event that was granted is called a duplicate of it.
    fn end_joiners(&mut self, ticket: Ticket) {
        let Some(leader) = self.in_flight.flights.flight_mut(ticket) else { return };
        let mut joiners = leader.take_joiners();
        while let Some(joiner) = self.in_flight.flights.dequeue(&mut joiners) {
            self.decide_and_end(joiner, Decision::Duplicate);
        }
    }

    /// Records an event whose holder confirms it, whatever its cells say: a false positive since the claim must not leave cells
    /// that expire too early.
    fn record_confirmed(&mut self, ticket: Ticket) {
        if let Some(reason) = self.present.absent().or_else(|| self.present.cut_off()) {
            return self.decide_and_release(ticket, Decision::Undecided(reason));
        }
        // There was room when it was granted; the next generation is proposed in time all the same.
        if let Some(unit) = self.in_flight.flights.flight(ticket).map(|flight| flight.stamp().unit) {
            let _ = self.room(unit);
        }
        self.record(ticket, self.fill.newest(), Decision::FirstSeen);
    }

    /// The decision on an event whose window is over: who confirms it has delivered it, and nothing is recorded.
    pub(super) fn late(&mut self, ticket: Ticket) -> Decision {
        if self.is_confirm(ticket) { self.confirm_late(ticket) } else { Decision::Undecided(Reason::Late) }
    }

    /// As [`Self::late`], of a confirm.
    pub(super) fn confirm_late(&mut self, ticket: Ticket) -> Decision {
        let (event, fence, now_ms) = (self.event(ticket), self.fence(ticket), self.present.now_ms());
        let confirmed =
            self.claiming.as_mut().zip(fence).map(|(claiming, fence)| claiming.confirm_late(fence, event, now_ms));
        confirmed.unwrap_or(Decision::Undecided(Reason::Late))
    }

    /// An event is decided.
    pub(super) fn note_of_claims(&mut self, ticket: Ticket, outcome: Decision) {
        if self.claiming.is_none() {
            return;
        }
        let is_confirm = self.is_confirm(ticket);
        let records = self.in_flight.flights.batch(ticket).is_some_and(|batch| batch.header().operation.records());
        // What is repeated was recorded before: another one may hold the event by now.
        if self.in_flight.flights.flight(ticket).is_none_or(Flight::is_repeat) {
            return;
        }
        let recorded = (records && outcome == Decision::FirstSeen).then(|| self.event(ticket));
        let Some(claiming) = &mut self.claiming else { return };
        if is_confirm {
            claiming.count_confirm(outcome);
        }
        if let Some(event) = recorded {
            claiming.forget(event);
        }
    }

    pub(super) fn claim_counts(&self) -> Option<ClaimCounts> {
        self.claiming.as_ref().map(|claiming| claiming.counts(self.present.now_ms()))
    }

    /// Heads that are not known here, or headed events by `former`, may have granted claims.
    pub(super) fn become_unsure(&mut self, former: Option<Placement>) {
        let Self { claiming, membership, .. } = self;
        let placement = membership.placement();
        if let Some(claiming) = claiming {
            claiming.become_unsure(former, placement.epoch(), placement.live_peers().map(|(peer, _)| peer));
        }
    }

    /// The map has changed: some events may have another head than by `former`, which may have granted claims of them.
    pub(super) fn follow_claims(&mut self, former: &Placement) {
        if self.claiming.is_none() {
            return;
        }
        let placement = self.membership.placement();
        let had_others = placement.nodes().len() > 1 || former.nodes().len() > 1;
        // Where a map was missed, other nodes may have headed events in between.
        let is_unseen = placement.epoch().since(former.epoch()) > 1 && had_others;
        if is_unseen {
            self.become_unsure(None);
        } else if !placement.heads_as(former) {
            self.become_unsure(Some(former.clone()));
        }
        let Self { claiming, membership, .. } = self;
        if let Some(claiming) = claiming {
            let live = |node: NodeId| membership.placement().live_peers().any(|(peer, _)| peer == node);
            claiming.unsure_mut().follow(live);
        }
    }

    /// A node acts by the map of this epoch.
    pub(super) fn hear_by_which_map(&mut self, from: NodeId, epoch: Epoch) {
        if let Some(claiming) = &mut self.claiming {
            claiming.unsure_mut().hear(from, epoch);
        }
    }

    /// Asks nodes by which map they act, where that matters.
    pub(super) fn mind_unsure(&mut self) {
        let Self { claiming, outbox, present, .. } = self;
        let Some(claiming) = claiming else { return };
        claiming.pass(present.now_ms());
        if claiming.unsure_mut().is_over() {
            return;
        }
        for node in claiming.ask(present.now_ms()) {
            outbox.send(node, PeerBody::ClaimTests(Box::default()));
        }
    }
}
