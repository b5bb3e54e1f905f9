//! Claims of events whose positions are divided over several nodes. The head node of an event grants a claim only after
//! it has asked all nodes that would record the event. Each of them must have replied that it does not know the event
//! and has no claim of the event for another client.
//!
//! # Guarantees
//!
//! - Granting a claim sets no cells.
//! - If a change of the cluster map gives an event a new head, the old and the new head never hold claims of the event
//!   at the same time.
//! - A submission that waited for an event which was then granted is tested again. It is never called a duplicate
//!   because of the grant.

use firstseen_filter::{Stamp, TestResult};

use super::flights::{Event, InFlightEvents, Ticket};
use super::local::LocalState;
use super::local_slices::OwnSlices;
use super::outbox::{Finding, Outbox};
use super::placement::Placement;
use crate::claims::ClaimCall;
use crate::group::claiming::{GrantRequest, GroupClaims, event_of_positions, tag_of};
use crate::group::limits::OwnerLimits;
use crate::group::state::ClaimCounts;
use crate::ids::{Epoch, NodeId};
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::{ClaimTests, Fence, MonotonicMs, Operation, PeerBody, Resolved, Submission};
use crate::verdict::{Decision, Reason};

/// The claims of the events that this node heads. Empty if the filter does not support claims.
pub(super) struct Claims(Option<Box<GroupClaims<Placement>>>);

impl Claims {
    pub(super) fn new(map: &ClusterMap, record: &FilterRecord, limits: &OwnerLimits) -> Self {
        Self(GroupClaims::new(map, record, limits).map(Box::new))
    }

    /// Returns the claims, or `None` if the filter does not support claims.
    #[inline]
    pub(super) fn get(&self) -> Option<&GroupClaims<Placement>> {
        self.0.as_deref()
    }

    /// Returns the claims for writing, or `None` if the filter does not support claims.
    pub(super) fn get_mut(&mut self) -> Option<&mut GroupClaims<Placement>> {
        self.0.as_deref_mut()
    }

    /// Returns whether the claim parameters of a submission are valid for this filter.
    pub(super) fn takes(&self, submission: &Submission) -> bool {
        let Submission { operation, fences, probes, .. } = submission;
        match self.get() {
            Some(claiming) => claiming.takes(*operation, fences, probes.len()),
            None => !operation.is_of_claims() && fences.is_empty(),
        }
    }

    /// Returns the request about an event in the terms of the claim table. Returns `None` if a required fence is
    /// missing.
    pub(super) fn call(event: Event<'_>) -> Option<ClaimCall> {
        Some(match event.operation() {
            Operation::Claim { .. } => ClaimCall::Claim { tag: tag(event) },
            Operation::Confirm => ClaimCall::Confirm(event.fence()?),
            Operation::Release => ClaimCall::Release(event.fence()?),
            operation if operation.records() => ClaimCall::Observe,
            _ => ClaimCall::Test,
        })
    }

    /// Releases an event that its holder no longer wants.
    pub(super) fn release(&mut self, event: Event<'_>, now_ms: MonotonicMs) -> Decision {
        match self.get_mut().zip(event.fence()) {
            Some((claiming, fence)) => claiming.release(claim_key(event), fence, now_ms),
            None => Decision::Undecided(Reason::Invalid),
        }
    }

    /// Returns the decision on an event whose window has already ended. The event is not recorded, because its cells
    /// would expire at once. If a client confirms the event, the confirmation nevertheless succeeds, because the client
    /// has already delivered the event. Every other operation gets the reply that the event is too late.
    pub(super) fn late(&mut self, event: Event<'_>, now_ms: MonotonicMs) -> Decision {
        if event.operation() == Operation::Confirm
            && let Some((claiming, fence)) = self.get_mut().zip(event.fence())
        {
            return claiming.confirm_late(fence, claim_key(event), now_ms);
        }
        Decision::Undecided(Reason::Late)
    }

    /// Grants an event that is not known and not held, if there will be room for it.
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
        // The number of events that all nodes of the group hold is estimated, assuming that each node holds as many as
        // this one.
        let heads = 1 + local.membership.placement().live_peers().count() as u64;
        let room_events = local.fill.room_events(local.own.len() as u64, || local.own.used_cells(local.fill.newest()));
        let pending = claiming.pending(room_events.unwrap_or(u64::MAX) / heads, 1, now_ms) * heads;
        local.room(event.stamp().unit, pending, outbox)?;
        let request = GrantRequest { event: claim_key(event), tag: tag(event), since_ms, lease_ms };
        let epoch = local.membership.placement().epoch();
        claiming.grant(&local.membership.site(), epoch, request, now_ms)
    }

    /// Notes the decision on an event. If the event is recorded, its claim is removed.
    pub(super) fn note_decision(&mut self, flights: &InFlightEvents, ticket: Ticket, outcome: Decision) {
        let Some(claiming) = self.get_mut() else { return };
        // A repeated decision was made before, so another client may hold the event by now.
        let Some(event) = flights.event(ticket).filter(|event| !event.flight().is_repeat()) else { return };
        if event.operation() == Operation::Confirm {
            claiming.count_confirm(outcome);
        }
        if event.operation().records() && outcome == Decision::FirstSeen {
            claiming.forget(claim_key(event));
        }
    }

    /// Replies to the heads of claimed events.
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
                // A head whose map is older than a loss would take untested positions for found.
                _ if !run.asks_all && !placement.has_complete_here(left) => Finding::Undecided(Reason::StaleMap),
                (None, None) => Finding::Undecided(Reason::Late),
                (None, Some(stamp)) => Finding::Found(test_complete(own, placement, left, stamp), false),
            };
            outbox.resolve(run.head, *ticket, finding, 1, false);
        }
    }

    /// Notes that claims may have been granted by heads that are not known here, or by the heads according to `former`.
    pub(super) fn note_head_change(&mut self, former: Option<Placement>, placement: &Placement) {
        if let Some(claiming) = self.get_mut() {
            claiming.note_head_change(former, placement.epoch(), placement.live_peers().map(|(peer, _)| peer));
        }
    }

    /// Applies a change of the cluster map to the claims. If an event had a different head node before the change, in
    /// the placement `former`, that head may have granted a claim that this node does not know. Such an event is marked
    /// as unsure. This node grants no claim of an unsure event until the claims of the former head have certainly
    /// ended.
    pub(super) fn follow_heads(&mut self, former: &Placement, placement: &Placement) {
        if self.0.is_none() {
            return;
        }
        let had_others = placement.nodes().len() > 1 || former.nodes().len() > 1;
        // If this node missed a map, other nodes may have headed events in between.
        let is_unseen = placement.epoch().since(former.epoch()) > 1 && had_others;
        if is_unseen {
            self.note_head_change(None, placement);
        } else if !placement.heads_as(former) {
            self.note_head_change(Some(former.clone()), placement);
        }
        if let Some(claiming) = self.get_mut() {
            claiming.head_changes_mut().follow(|node| placement.live_peers().any(|(peer, _)| peer == node));
        }
    }

    /// Notes that a node acts by the map of this epoch.
    pub(super) fn hear_by_which_map(&mut self, from: NodeId, epoch: Epoch) {
        if let Some(claiming) = self.get_mut() {
            claiming.head_changes_mut().hear(from, epoch);
        }
    }

    /// Asks nodes by which cluster map they act, if claims of former heads may still be active.
    pub(super) fn query_former_heads(&mut self, now_ms: MonotonicMs, outbox: &mut Outbox) {
        let Some(claiming) = self.get_mut() else { return };
        claiming.pass(now_ms);
        if claiming.head_changes_mut().is_over() {
            return;
        }
        for node in claiming.ask(now_ms) {
            outbox.send(node, PeerBody::ClaimTests(Box::default()));
        }
    }

    /// Treats the node as restarted.
    pub(super) fn mark_restarted(&mut self, placement: &Placement) {
        if let Some(claiming) = self.get_mut() {
            claiming.mark_restarted(placement.epoch(), placement.live_peers().map(|(peer, _)| peer));
        }
    }

    /// Returns the time at which claims have work to do, if no other input arrives before.
    pub(super) fn next_ms(&self) -> Option<MonotonicMs> {
        self.get().and_then(GroupClaims::next_ms)
    }

    pub(super) fn counts(&self, now_ms: MonotonicMs) -> Option<ClaimCounts> {
        self.get().map(|claiming| claiming.counts(now_ms))
    }
}

/// Tests the positions that lie on complete slices of this node.
fn test_complete(own: &mut OwnSlices, placement: &Placement, positions: &[u64], stamp: Stamp) -> TestResult {
    let mut found = TestResult::ALL;
    if placement.has_complete_here(positions) {
        own.test(placement, positions, stamp, &mut found);
    } else {
        let positions = positions.iter().copied();
        let complete: Vec<u64> = positions.filter(|position| placement.has_complete_here(&[*position])).collect();
        own.test(placement, &complete, stamp, &mut found);
    }
    found
}

/// Returns the number under which claim tables store an event.
pub(super) fn claim_key(event: Event<'_>) -> u128 {
    event_of_positions(event.positions())
}

/// Returns the number that identifies the claim of an event.
fn tag(event: Event<'_>) -> u64 {
    tag_of(event.name(), event.header().name(), event.index())
}
