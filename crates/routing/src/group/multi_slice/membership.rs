//! A node's membership in a slice group. This module stores which slices are on which node, and whether the slices of
//! this node are complete. It applies each change of the cluster map to this state.
//!
//! # Guarantees
//!
//! - The cluster map alone determines on which nodes an event is tested and recorded.
//! - No slice is called complete that may lack an event of the window.
//! - Other nodes are sent what they must know about the past of this node.
//!
//! The events in flight are not part of the membership. Callers pass what is needed about them.

mod former_heads;
mod gap;
mod handover;
mod missed;
mod reach;

use std::collections::BTreeSet;

use firstseen_filter::FilterDefinition;

use super::durable::ToPersist;
use super::flights::Ticket;
use super::local_slices::OwnSlices;
use super::outbox::Outbox;
use super::placement::Placement;
use crate::group::completeness_tracker::CompletenessTracker;
use crate::group::from_copies::FromCopies;
use crate::group::gap::Proposals;
use crate::group::group_time::GroupTime;
use crate::group::limits::OwnerLimits;
use crate::group::rescan::Rescan;
use crate::group::site::Site;
use crate::ids::{Epoch, Incarnation, NodeId};
use crate::map::{ClusterMap, Durability, FilterPolicies, FilterRecord};
use crate::protocol::{CellParts, MonotonicMs, PeerBody};
use former_heads::FormerHeads;
use gap::Gaps;
pub(super) use handover::Handover;
pub(super) use missed::Missed;

pub(super) use reach::Unreachable;

/// A node's membership in a group.
pub(super) struct Membership {
    site: Site,
    placement: Placement,
    /// The time of the first input.
    first_ms: Option<MonotonicMs>,
    /// The retry horizon in milliseconds: how long after its first attempt a submission may be retried.
    horizon_ms: u64,
    former_heads: FormerHeads,
    handing: Handover,
    missed: Missed,
    completeness: CompletenessTracker,
    /// The events that slices here may lack. `None` if they are complete or if this was not examined yet.
    gaps: Option<Gaps>,
    proposals: Proposals,
    from_copies: FromCopies,
    has_copies: bool,
    /// Whether the filter sends first-seen replies only after all nodes have acknowledged the event's sets.
    replies_are_safe: bool,
    unreachable: Unreachable,
}

/// The changes that a new map has caused.
pub(super) struct Followed {
    pub(super) former: Placement,
    /// Nodes that were down and have come back.
    pub(super) returned: Vec<NodeId>,
}

impl Membership {
    /// Creates the membership for this `placement`, before any input.
    pub(super) fn new(
        site: Site,
        placement: Placement,
        definition: &FilterDefinition,
        policies: &FilterPolicies,
        limits: &OwnerLimits,
    ) -> Self {
        let compared = Rescan::new(&definition.rule, &definition.unit, site.group, 0, limits.rescan_every_ms);
        Self {
            site,
            first_ms: None,
            horizon_ms: u64::from(policies.retry_horizon_ms),
            former_heads: FormerHeads::default(),
            handing: Handover::default(),
            missed: Missed::begin(&placement),
            completeness: CompletenessTracker::new(placement.is_complete_here(), placement.has_gap_here()),
            gaps: None,
            proposals: Proposals::default(),
            from_copies: FromCopies::new(compared),
            has_copies: policies.copies > 0,
            replies_are_safe: policies.replies_when_all_acknowledged(),
            unreachable: Unreachable::default(),
            placement,
        }
    }

    /// Applies the first cluster map.
    pub(super) fn begin_by(&mut self, map: &ClusterMap, record: &FilterRecord, outbox: &mut Outbox) {
        if !self.completeness.is_complete() && (self.placement.has_gap_here() || !record.copies.is_empty()) {
            self.former_heads.forget();
        }
        let placement = self.placement.clone();
        self.follow_handing(map, &placement, Ticket::default(), MonotonicMs::START);
        if record.epoch > Epoch::FIRST {
            self.hand_over_the_past(outbox);
        }
    }

    /// Notes the first input. Earlier heads of events matter for one retry horizon from then on.
    pub(super) fn begin(&mut self, now_ms: MonotonicMs) {
        self.first_ms.get_or_insert(now_ms);
        self.former_heads.begin(now_ms.after(self.horizon_ms));
    }

    /// Notes that all journal entries of the earlier process have been restored. `knows_heads` states whether the
    /// earlier process was the head node of all events that producers may still retry. If another node may have been
    /// their head, this node does not know which one, so it treats every other node as a possible former head of these
    /// events.
    pub(super) fn end_restore(&mut self, is_whole: bool, knows_heads: bool) {
        self.completeness.restore(is_whole);
        let has_others = self.placement.nodes().len() > 1;
        if has_others && !knows_heads {
            self.former_heads.forget();
        }
    }

    pub(super) fn site(&self) -> Site {
        self.site
    }

    pub(super) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Returns the placement, which says where events are set, and the list of events that nodes which are down miss.
    pub(super) fn placement_and_missed(&mut self) -> (&Placement, &mut Missed) {
        (&self.placement, &mut self.missed)
    }

    pub(super) fn handing(&self) -> &Handover {
        &self.handing
    }

    pub(super) fn completeness(&self) -> &CompletenessTracker {
        &self.completeness
    }

    pub(super) fn unreachable(&self) -> &Unreachable {
        &self.unreachable
    }

    /// Updates the unreachable nodes. Returns `false` if they are the same as before.
    pub(super) fn reach_changed(&mut self, nodes: &BTreeSet<NodeId>) -> bool {
        self.unreachable.follow(nodes)
    }

    /// Counts the events that are being set on unreachable nodes.
    pub(super) fn count_stuck_events<'a>(&mut self, sets: impl Iterator<Item = (NodeId, &'a [Ticket])>) {
        self.unreachable.count_stuck(sets);
    }

    pub(super) fn mended_runs(&self) -> u64 {
        self.from_copies.compared.mended_runs()
    }

    /// Returns whether submissions may be retried whose first attempt an earlier process of this node accepted.
    pub(super) fn is_young(&self, durability: Durability, now_ms: MonotonicMs) -> bool {
        let is_over = now_ms.since(self.first_ms.unwrap_or(now_ms)) >= self.horizon_ms;
        self.completeness.has_lost(durability) && !is_over
    }

    /// Returns whether another node may have accepted the event before. This node does not have the replay guard of
    /// that node.
    pub(super) fn was_headed_elsewhere(&self, positions: &[u64], now_ms: MonotonicMs) -> bool {
        self.former_heads.are_elsewhere(positions, self.site.me, now_ms)
    }

    /// Returns whether no submission can be retried any more that another node has headed.
    pub(super) fn heads_all_that_may_come(&self, now_ms: MonotonicMs) -> bool {
        self.first_ms.is_some() && self.former_heads.are_over(now_ms)
    }

    /// Applies a new cluster map, with which slices come and go and the heads of events change. `first_free` is the
    /// ticket of the next event.
    pub(super) fn follow(
        &mut self,
        map: &ClusterMap,
        record: &FilterRecord,
        first_free: Ticket,
        now_ms: MonotonicMs,
        own: &mut OwnSlices,
        outbox: &mut Outbox,
    ) -> Followed {
        let Site { group, me, .. } = self.site;
        let placement = Placement::new(map, record, group, me, *self.placement.plan());
        if placement.is_gone_here() && !self.placement.is_gone_here() {
            self.completeness.interrupt();
        }
        self.completeness.follow(placement.is_complete_here(), placement.has_gap_here());
        if !placement.has_any_here() {
            self.completeness.leave();
        }
        let former = std::mem::replace(&mut self.placement, placement);
        // This call also tries again to build slices that could not be built before.
        let come = own.follow(&self.placement);
        if !come.is_empty() {
            self.begin_arrivals_anew();
        }
        if !self.placement.heads_as(&former) {
            self.former_heads.push(former.clone(), now_ms.after(self.horizon_ms), now_ms);
            if self.placement.heads_more_than(&former) {
                self.former_heads.gained(now_ms);
            }
        }
        let are_known = !self.is_owed_by_others();
        self.follow_handing(map, &former, first_free, now_ms);
        let placement = &self.placement;
        // A slice may have left this node and come back in between.
        let again = placement.arriving_here().iter().filter(|arrival| !former.arriving_here().contains(arrival));
        let new: Vec<u32> = again.map(|arrival| arrival.slice).chain(come).collect();
        self.from_copies
            .fetched
            .retain(|slice| !new.contains(&slice) && placement.lacking_here().any(|lacking| lacking == slice));
        let returned = self.missed.follow(&former, &self.placement, are_known, outbox);
        Followed { former, returned }
    }

    /// Notes that the node is about to count as restarted. From now on, events may be recorded without it.
    pub(super) fn interrupt(&mut self) {
        // The map that marked this node down may have arrived together with the next one.
        if !self.placement.is_gone_here() {
            self.completeness.interrupt();
        }
    }

    /// Treats the node as restarted although its process continues, because the other nodes had given it up and
    /// continued without it.
    pub(super) fn mark_restarted(&mut self, incarnation: Incarnation, now_ms: MonotonicMs) {
        self.site.incarnation = incarnation;
        // If no other node has slices of the group, no events were recorded meanwhile.
        self.completeness.mark_restarted(self.placement.nodes().len() != 1);
        self.missed = Missed::begin(&self.placement);
        self.former_heads.forget();
        self.handing.mark_restarted();
        self.first_ms = Some(now_ms);
        self.gaps = None;
        self.from_copies.forget_fetched();
    }

    /// Requests the next cells of slices here that lack events, if it is time.
    pub(super) fn fetch(&mut self, present: &GroupTime, own: &OwnSlices, outbox: &mut Outbox) {
        if !self.placement.lacks_here() || self.placement.is_gone_here() {
            return;
        }
        let Self { from_copies, placement, .. } = self;
        if let Some((source, ask)) = from_copies.fetch(placement.sources(), placement.epoch(), present, own) {
            outbox.send(source, PeerBody::AskCells(ask));
        }
    }

    /// Returns the time at which [`Self::fetch`] has work to do, if no other input arrives before.
    fn next_fetch_ms(&self) -> Option<MonotonicMs> {
        let fetches = self.placement.lacks_here() && !self.placement.is_gone_here();
        fetches.then(|| self.from_copies.fetched.next_ms(self.placement.sources())).flatten()
    }

    /// Compares complete slices here with their other copies, if it is time, and adds cells that are missing here.
    pub(super) fn rescan(
        &mut self,
        present: &GroupTime,
        own: &mut OwnSlices,
        kept: &mut ToPersist,
        outbox: &mut Outbox,
    ) {
        let Self { from_copies, placement, .. } = self;
        if !self.has_copies || placement.is_gone_here() {
            return;
        }
        let asked = from_copies.compare(placement.complete_twins(), present, own, |part| kept.copied(part));
        if let Some((source, ask)) = asked {
            outbox.send(source, PeerBody::AskCells(ask));
        }
    }

    /// Returns the time at which [`Self::rescan`] has work to do, if no other input arrives before.
    pub(super) fn next_rescan_ms(&self) -> Option<MonotonicMs> {
        (self.has_copies && !self.placement.is_gone_here()).then(|| self.from_copies.compared.next_ms()).flatten()
    }

    /// Receives cells that were requested, as another copy sent them by the map of `epoch`.
    pub(super) fn receive_cells(
        &mut self,
        parts: CellParts,
        epoch: Epoch,
        present: &GroupTime,
        own: &mut OwnSlices,
        kept: &mut ToPersist,
    ) {
        let is_complete = self.placement.is_slice_complete_here(parts.slice as usize);
        if is_complete {
            self.from_copies.receive_for_comparison(parts, present, own);
        } else {
            self.from_copies.receive_fetched(parts, epoch, present, own, |part| kept.copied(part));
        }
    }
}
