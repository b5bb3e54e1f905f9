//! Claims of events whose positions are divided over several nodes: granted once all nodes that would record the event have
//! answered that they do not know it, and hold no claim of it.
//!
//! Promises: a claim sets nothing; two heads of an event, one before and one after a change of the map, hold no claims of it at
//! a time; who waits for an event that was granted is asked anew, and never called a duplicate of it. Must not know: how
//! messages travel.

use firstseen_filter::{Sighting, Stamp};

use super::flights::{Event, Flights, Ticket};
use super::local::LocalState;
use super::outbox::{Finding, Outbox};
use super::own::OwnSlices;
use super::placement::Placement;
use crate::claims::ClaimCall;
use crate::group::claiming::{GrantRequest, GroupClaims, event_of_positions, tag_of};
use crate::group::limits::OwnerLimits;
use crate::group::state::ClaimCounts;
use crate::ids::{Epoch, NodeId};
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::{ClaimTests, Fence, MonotonicMs, Operation, PeerBody, Resolved, Submission};
use crate::verdict::{Decision, Reason};

/// The claims of the events that are headed here; empty where the filter has none.
pub(super) struct Claims(Option<Box<GroupClaims<Placement>>>);

impl Claims {
    pub(super) fn new(map: &ClusterMap, record: &FilterRecord, limits: &OwnerLimits) -> Self {
        Self(GroupClaims::new(map, record, limits).map(Box::new))
    }

    /// The claims, where the filter has any.
    #[inline]
    pub(super) fn get(&self) -> Option<&GroupClaims<Placement>> {
        self.0.as_deref()
    }

    /// As [`Self::get`], to be changed.
    pub(super) fn get_mut(&mut self) -> Option<&mut GroupClaims<Placement>> {
        self.0.as_deref_mut()
    }

    /// Whether a submission can be one of the filter, as far as claims go.
    pub(super) fn takes(&self, submission: &Submission) -> bool {
        let Submission { operation, fences, probes, .. } = submission;
        match self.get() {
            Some(claiming) => claiming.takes(*operation, fences, probes.len()),
            None => !operation.is_of_claims() && fences.is_empty(),
        }
    }

    /// What is called for, as claims know it. `None` where a fence is missing.
    pub(super) fn call(event: Event<'_>) -> Option<ClaimCall> {
        Some(match event.operation() {
            Operation::Claim { .. } => ClaimCall::Claim { tag: tag(event) },
            Operation::Confirm => ClaimCall::Confirm(event.fence()?),
            Operation::Release => ClaimCall::Release(event.fence()?),
            operation if operation.records() => ClaimCall::Observe,
            _ => ClaimCall::Test,
        })
    }

    /// Releases an event that its holder does not want any more.
    pub(super) fn release(&mut self, event: Event<'_>, now_ms: MonotonicMs) -> Decision {
        match self.get_mut().zip(event.fence()) {
            Some((claiming, fence)) => claiming.release(claim_key(event), fence, now_ms),
            None => Decision::Undecided(Reason::Invalid),
        }
    }

    /// The decision on an event whose window is over: who confirms it has delivered it, and nothing is recorded.
    pub(super) fn late(&mut self, event: Event<'_>, now_ms: MonotonicMs) -> Decision {
        if event.operation() == Operation::Confirm
            && let Some((claiming, fence)) = self.get_mut().zip(event.fence())
        {
            return claiming.confirm_late(fence, claim_key(event), now_ms);
        }
        Decision::Undecided(Reason::Late)
    }

    /// Grants an event that nobody knows, if there will be room for it.
    pub(super) fn grant(
        &mut self,
        event: Event<'_>,
        local: &mut LocalState,
        outbox: &mut Outbox,
    ) -> Result<Fence, Reason> {
        let claiming = self.get_mut().ok_or(Reason::Invalid)?;
        let Operation::Claim { lease_ms } = event.operation() else { return Err(Reason::Invalid) };
        let since_ms = event.asked_ms().ok_or(Reason::NotReady)?;
        let now_ms = local.present.now_ms();
        // An estimate of the events that all nodes of the group hold: as many at each as here.
        let heads = 1 + local.membership.placement().live_peers().count() as u64;
        let room_events = local.fill.room_events(local.own.len() as u64, || local.own.used_cells(local.fill.newest()));
        let pending = claiming.pending(room_events.unwrap_or(u64::MAX) / heads, 1, now_ms) * heads;
        local.room(event.stamp().unit, pending, outbox)?;
        let request = GrantRequest { event: claim_key(event), tag: tag(event), since_ms, lease_ms };
        let epoch = local.membership.placement().epoch();
        claiming.grant(&local.membership.site(), epoch, request, now_ms)
    }

    /// Notes the decision on an event: the claim of one that is recorded is over.
    pub(super) fn note_decision(&mut self, flights: &Flights, ticket: Ticket, outcome: Decision) {
        let Some(claiming) = self.get_mut() else { return };
        // What is repeated was recorded before: another one may hold the event by now.
        let Some(event) = flights.event(ticket).filter(|event| !event.flight().is_repeat()) else { return };
        if event.operation() == Operation::Confirm {
            claiming.count_confirm(outcome);
        }
        if event.operation().records() && outcome == Decision::FirstSeen {
            claiming.forget(claim_key(event));
        }
    }

    /// Answers the heads of events that are claimed.
    pub(super) fn answer(&self, from: NodeId, tests: &ClaimTests, local: &mut LocalState, outbox: &mut Outbox) {
        let LocalState { own, membership, present, .. } = local;
        let placement = membership.placement();
        let test = &tests.test;
        if tests.events.is_empty() {
            return outbox.send(from, PeerBody::Resolved(Resolved::default()));
        }
        let newest = own.newest_generation();
        test.left.iter().filter(|left| placement.admits(left)).for_each(|left| own.prefetch(placement, left, newest));
        let events = test.left.iter().zip(&test.tickets).zip(&test.stamps).zip(&tests.events).zip(test.run_of_each());
        for ((((left, ticket), stamp), event), run) in events.filter(|(_, run)| run.deadline_in_ms > 0) {
            let held_ms = self.get().and_then(|claiming| claiming.held_ms(*event, present.now_ms()));
            let judged = own.rejudge(*stamp);
            let finding = match (held_ms, judged) {
                (Some(left_ms), _) => Finding::Veto(left_ms),
                _ if !placement.admits(left) => Finding::Undecided(Reason::Invalid),
                // A head whose map is older than a loss would take what is not tested for found.
                _ if !run.asks_all && !placement.has_complete_here(left) => Finding::Undecided(Reason::StaleMap),
                (None, None) => Finding::Undecided(Reason::Late),
                (None, Some(stamp)) => Finding::Found(test_complete(own, placement, left, stamp), false),
            };
            outbox.resolve(run.head, *ticket, finding, 1, false);
        }
    }

    /// Heads that are not known here, or headed events by `former`, may have granted claims.
    pub(super) fn become_unsure(&mut self, former: Option<Placement>, placement: &Placement) {
        if let Some(claiming) = self.get_mut() {
            claiming.become_unsure(former, placement.epoch(), placement.live_peers().map(|(peer, _)| peer));
        }
    }

    /// The map has changed: some events may have another head than by `former`, which may have granted claims of them.
    pub(super) fn follow_heads(&mut self, former: &Placement, placement: &Placement) {
        if self.0.is_none() {
            return;
        }
        let had_others = placement.nodes().len() > 1 || former.nodes().len() > 1;
        // Where a map was missed, other nodes may have headed events in between.
        let is_unseen = placement.epoch().since(former.epoch()) > 1 && had_others;
        if is_unseen {
            self.become_unsure(None, placement);
        } else if !placement.heads_as(former) {
            self.become_unsure(Some(former.clone()), placement);
        }
        if let Some(claiming) = self.get_mut() {
            claiming.unsure_mut().follow(|node| placement.live_peers().any(|(peer, _)| peer == node));
        }
    }

    /// Takes note that a node acts by the map of this epoch.
    pub(super) fn hear_by_which_map(&mut self, from: NodeId, epoch: Epoch) {
        if let Some(claiming) = self.get_mut() {
            claiming.unsure_mut().hear(from, epoch);
        }
    }

    /// Asks nodes by which map they act, where that matters.
    pub(super) fn mind_unsure(&mut self, now_ms: MonotonicMs, outbox: &mut Outbox) {
        let Some(claiming) = self.get_mut() else { return };
        claiming.pass(now_ms);
        if claiming.unsure_mut().is_over() {
            return;
        }
        for node in claiming.ask(now_ms) {
            outbox.send(node, PeerBody::ClaimTests(Box::default()));
        }
    }

    /// The node counts as started anew.
    pub(super) fn begin_anew(&mut self, placement: &Placement) {
        if let Some(claiming) = self.get_mut() {
            claiming.begin_anew(placement.epoch(), placement.live_peers().map(|(peer, _)| peer));
        }
    }

    /// When there is something to do, if nothing comes.
    pub(super) fn next_ms(&self) -> Option<MonotonicMs> {
        self.get().and_then(GroupClaims::next_ms)
    }

    pub(super) fn counts(&self, now_ms: MonotonicMs) -> Option<ClaimCounts> {
        self.get().map(|claiming| claiming.counts(now_ms))
    }
}

/// Tests positions on slices that are complete here.
fn test_complete(own: &mut OwnSlices, placement: &Placement, positions: &[u64], stamp: Stamp) -> Sighting {
    let mut found = Sighting::ALL;
    if placement.has_complete_here(positions) {
        own.test(placement, positions, stamp, &mut found);
    } else {
        let positions = positions.iter().copied();
        let complete: Vec<u64> = positions.filter(|position| placement.has_complete_here(&[*position])).collect();
        own.test(placement, &complete, stamp, &mut found);
    }
    found
}

/// The number by which tables of claims know an event.
pub(super) fn claim_key(event: Event<'_>) -> u128 {
    event_of_positions(event.positions())
}

/// Names the claim of an event.
fn tag(event: Event<'_>) -> u64 {
    tag_of(event.name(), event.header().name(), event.index())
}
