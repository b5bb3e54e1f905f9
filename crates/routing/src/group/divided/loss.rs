//! What time and the loss of nodes do to events in flight.
//!
//! Promises: every batch has its reply by its deadline. A test sets nothing, so it can be given up at any time, and a
//! retry runs anew; an event whose cells are being set goes on after its deadline, and a retry gets its verdict. Must
//! not know: how a loss is noticed.

use std::collections::BTreeSet;

use super::DividedGroup;
use super::flights::{Phase, Ticket};
use crate::group::thresholds::TOO_FEW_LEFT;
use crate::ids::NodeId;
use crate::protocol::{Moment, MonotonicMs};
use crate::verdict::{Decision, Reason};

/// The verdict on a submission that is given up before anything is set: the guard does not remember it.
const GIVEN_UP: Decision = Decision::Undecided(Reason::NotReady);

impl DividedGroup {
    /// Replies to batches whose deadline has come, and forgets names and events that need not be remembered.
    pub(crate) fn tick(&mut self, now: Moment) {
        self.present.begin(now);
        self.guard.expire(now.monotonic_ms);
        let mut leaders = BTreeSet::new();
        for first in self.in_flight.flights.batches() {
            let batch = self.in_flight.flights.batch(first);
            if batch.is_some_and(|batch| !batch.is_replied() && batch.header().deadline_ms <= now.monotonic_ms) {
                self.expire(first, &mut leaders);
            }
        }
        leaders.into_iter().for_each(|leader| self.in_flight.end_abandoned(leader));
        self.replay_owed();
        self.keep_head();
        self.finish();
    }

    /// When [`Self::tick`] has something to do.
    pub(crate) fn next_tick_ms(&self) -> Option<MonotonicMs> {
        let deadline_ms = self.in_flight.flights.next_deadline_ms();
        let commands_ms = self.outbox.has_commands().then_some(MonotonicMs::START);
        let membership = &self.membership;
        let gap_ms = membership.next_gap_ms(&self.present, &self.own);
        let of_copies = gap_ms.into_iter().chain(membership.next_rescan_ms()).chain(membership.handing().next_ms());
        let claims_ms = self.claiming.as_ref().and_then(|claiming| claiming.next_ms());
        let others = [commands_ms, self.guard.next_expiry_ms(), self.tree.next_replay_ms(), claims_ms];
        deadline_ms.into_iter().chain(others.into_iter().flatten()).chain(of_copies).min()
    }

    /// Replies to a batch whose deadline has come; adds the events in flight whose queues now have some that nobody waits
    /// for.
    fn expire(&mut self, first: Ticket, leaders: &mut BTreeSet<Ticket>) {
        let Some(batch) = self.in_flight.flights.batch(first) else { return };
        let events = batch.flights().len();
        for ticket in first.events(events) {
            let Some(flight) = self.in_flight.flights.flight_mut(ticket).filter(|flight| !flight.is_decided()) else {
                continue;
            };
            match flight.phase() {
                Phase::Testing | Phase::Checking => self.decide_and_release(ticket, GIVEN_UP),
                Phase::Joined => {
                    flight.enter(Phase::Abandoned);
                    self.decide(ticket, GIVEN_UP);
                    leaders.extend(self.in_flight.flights.leader_of(ticket));
                }
                // The submission of the same name may still get a verdict.
                Phase::Echo => {
                    flight.enter(Phase::Abandoned);
                    self.decide(ticket, Decision::Undecided(Reason::Unknown));
                }
                // The verdict in this reply stays `Unknown`, which the batch began with, as the level above may have
                // recorded the event already, or cells are being set; the guard learns the verdict later.
                Phase::Climbing | Phase::Setting => {}
                Phase::Abandoned | Phase::Over => {}
            }
        }
        self.reply(first);
    }

    /// A node's process is gone: it will not answer tests, and the cells that it has set may be lost.
    pub(crate) fn peer_lost(&mut self, peer: NodeId, now: Moment) {
        self.present.begin(now);
        self.end_sets_of(peer);
        self.count_stuck_events();
        if let Some(index) = self.membership.placement().index_of(peer) {
            // An event may have got stuck on its way to that node, wherever it is now.
            let asked = |group: &Self, ticket: Ticket| {
                let placement = group.membership.placement();
                let is_claim = group.is_claim(ticket);
                let is_asked = |position: &u64| {
                    placement.node_at(*position) == index || is_claim && placement.has_copy(index, *position)
                };
                group.in_flight.flights.positions(ticket).iter().any(is_asked)
            };
            self.give_up_tests(asked, Decision::Undecided(Reason::NotReady));
        }
        self.finish();
    }

    /// Other nodes are out of reach than before.
    pub(crate) fn reach_changed(&mut self, nodes: &BTreeSet<NodeId>, now: Moment) {
        if !self.membership.reach_changed(nodes) {
            return;
        }
        self.present.begin(now);
        self.count_stuck_events();
        let asks_them = |group: &Self, ticket: Ticket| {
            let (positions, membership) = (group.in_flight.flights.positions(ticket), &group.membership);
            membership.unreachable().has_any(membership.placement(), positions.iter().copied())
        };
        self.give_up_tests(asks_them, TOO_FEW_LEFT);
        self.finish();
    }

    pub(super) fn count_stuck_events(&mut self) {
        let Self { membership, in_flight, .. } = self;
        membership.count_stuck_events(in_flight.sets.all().map(|set| (set.to(), set.tickets())));
    }

    /// The slices have moved: tests by the former map mean nothing, whether they go on here or in the levels below.
    pub(super) fn abandon_tests(&mut self) {
        let tested = self.in_flight.flights.in_phases(|phase| matches!(phase, Phase::Testing | Phase::Checking));
        tested.into_iter().for_each(|ticket| self.decide_and_release(ticket, Decision::Undecided(Reason::StaleMap)));
    }

    fn give_up_tests(&mut self, is_lost: impl Fn(&Self, Ticket) -> bool, outcome: Decision) {
        let testing = self.in_flight.flights.in_phases(|phase| phase == Phase::Testing).into_iter();
        let lost: Vec<Ticket> = testing.filter(|ticket| is_lost(self, *ticket)).collect();
        lost.into_iter().for_each(|ticket| self.decide_and_release(ticket, outcome));
    }

    /// The node is about to stop: events in flight go on, nothing new is taken up.
    pub(crate) fn drain(&mut self, now: Moment) {
        self.present.begin(now);
        self.is_draining = true;
        self.finish();
    }
}
