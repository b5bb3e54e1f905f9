//! A node's place in a group: which slices are where, whether the slices here are complete, and what comes and goes
//! with a new map.
//!
//! Promises: the map alone says which nodes an event asks and sets; no slice is called complete that may lack an event
//! of the window; other nodes are sent what they need to know of this node's past. Must not know: verdicts, levels of
//! trees, which events are in flight (callers lend what it needs of these).

mod former_heads;
mod gap;
mod handing;
mod missed;
mod reach;

use std::collections::BTreeSet;

use firstseen_filter::FilterDefinition;

use super::durable::ToPersist;
use super::flights::Ticket;
use super::outbox::Outbox;
use super::own::OwnSlices;
use super::placement::Placement;
use crate::group::from_copies::FromCopies;
use crate::group::gap::Proposals;
use crate::group::limits::OwnerLimits;
use crate::group::present::Present;
use crate::group::rescan::Rescan;
use crate::group::site::Site;
use crate::group::wholeness::Wholeness;
use crate::ids::{Epoch, Incarnation, NodeId};
use crate::map::{ClusterMap, Durability, FilterPolicies, FilterRecord};
use crate::protocol::{CellParts, MonotonicMs, PeerBody};
use former_heads::FormerHeads;
use gap::Gaps;
pub(super) use handing::Handing;
pub(super) use missed::Missed;

pub(super) use reach::Unreachable;

/// A node's place in a group.
pub(super) struct Membership {
    site: Site,
    placement: Placement,
    /// When the first input came.
    first_ms: Option<MonotonicMs>,
    /// The retry horizon: for how long a submission may come again.
    horizon_ms: u64,
    former_heads: FormerHeads,
    handing: Handing,
    missed: Missed,
    wholeness: Wholeness,
    /// What the slices here may lack; none where they are complete, or where this was not looked at yet.
    gaps: Option<Gaps>,
    proposals: Proposals,
    from_copies: FromCopies,
    has_copies: bool,
    /// No reply first-seen leaves before all nodes have acknowledged the event's sets.
    replies_are_safe: bool,
    unreachable: Unreachable,
}

/// What a new map has changed.
pub(super) struct Followed {
    pub(super) former: Placement,
    /// Nodes that were down and are back.
    pub(super) returned: Vec<NodeId>,
}

impl Membership {
    /// By this `placement`, before any input.
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
            handing: Handing::default(),
            missed: Missed::begin(&placement),
            wholeness: Wholeness::new(placement.is_complete_here(), placement.has_gap_here()),
            gaps: None,
            proposals: Proposals::default(),
            from_copies: FromCopies::new(compared),
            has_copies: policies.copies > 0,
            replies_are_safe: policies.replies_when_all_acknowledged(),
            unreachable: Unreachable::default(),
            placement,
        }
    }

    /// Begins by the first map.
    pub(super) fn begin_by(&mut self, map: &ClusterMap, record: &FilterRecord, outbox: &mut Outbox) {
        if !self.wholeness.is_complete() && (self.placement.has_gap_here() || !record.copies.is_empty()) {
            self.former_heads.forget();
        }
        let placement = self.placement.clone();
        self.follow_handing(map, &placement, Ticket::default(), MonotonicMs::START);
        if record.epoch > Epoch::FIRST {
            self.hand_over_the_past(outbox);
        }
    }

    /// The first input has come: whether there were earlier heads matters for the retry horizon.
    pub(super) fn begin(&mut self, now_ms: MonotonicMs) {
        self.first_ms.get_or_insert(now_ms);
        self.former_heads.begin(now_ms.after(self.horizon_ms));
    }

    /// All that an earlier process has persisted is read back; `knows_heads` says whether that process had headed all
    /// events that may come again.
    pub(super) fn end_restore(&mut self, is_whole: bool, knows_heads: bool) {
        self.wholeness.restore(is_whole);
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

    /// Gives the placement, which says where events are set, and the list of what nodes that are down miss.
    pub(super) fn placement_and_missed(&mut self) -> (&Placement, &mut Missed) {
        (&self.placement, &mut self.missed)
    }

    pub(super) fn handing(&self) -> &Handing {
        &self.handing
    }

    pub(super) fn wholeness(&self) -> &Wholeness {
        &self.wholeness
    }

    pub(super) fn unreachable(&self) -> &Unreachable {
        &self.unreachable
    }

    /// Other nodes are out of reach than before; false where they are the same.
    pub(super) fn reach_changed(&mut self, nodes: &BTreeSet<NodeId>) -> bool {
        self.unreachable.follow(nodes)
    }

    /// Counts the events that are being set at nodes out of reach.
    pub(super) fn count_stuck_events<'a>(&mut self, sets: impl Iterator<Item = (NodeId, &'a [Ticket])>) {
        self.unreachable.count_stuck(sets);
    }

    pub(super) fn mended_runs(&self) -> u64 {
        self.from_copies.compared.mended_runs()
    }

    /// Whether submissions may come again whose first attempt an earlier process of this node has taken up.
    pub(super) fn is_young(&self, durability: Durability, now_ms: MonotonicMs) -> bool {
        let is_over = now_ms.since(self.first_ms.unwrap_or(now_ms)) >= self.horizon_ms;
        self.wholeness.has_lost(durability) && !is_over
    }

    /// Whether another node may have taken up an event before, whose guard this one does not have.
    pub(super) fn was_headed_elsewhere(&self, positions: &[u64], now_ms: MonotonicMs) -> bool {
        self.former_heads.are_elsewhere(positions, self.site.me, now_ms)
    }

    /// Whether no submission may come again that another node has headed.
    pub(super) fn heads_all_that_may_come(&self, now_ms: MonotonicMs) -> bool {
        self.first_ms.is_some() && self.former_heads.are_over(now_ms)
    }

    /// Follows the map: slices come and go, and heads of events with them. `first_free` is the ticket of the next event.
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
            self.wholeness.interrupt();
        }
        self.wholeness.follow(placement.is_complete_here(), placement.has_gap_here());
        if !placement.has_any_here() {
            self.wholeness.leave();
        }
        let former = std::mem::replace(&mut self.placement, placement);
        // This also tries slices again that could not be built before.
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
        // A slice may have left and come again in between.
        let again = placement.arriving_here().iter().filter(|arrival| !former.arriving_here().contains(arrival));
        let new: Vec<u32> = again.map(|arrival| arrival.slice).chain(come).collect();
        self.from_copies
            .fetched
            .retain(|slice| !new.contains(&slice) && placement.lacking_here().any(|lacking| lacking == slice));
        let returned = self.missed.follow(&former, &self.placement, are_known, outbox);
        Followed { former, returned }
    }

    /// The node is about to count as started anew: from now on events may be recorded without it.
    pub(super) fn interrupt(&mut self) {
        // The map by which this node was down may have come together with the next one.
        if !self.placement.is_gone_here() {
            self.wholeness.interrupt();
        }
    }

    /// The node counts as started anew, though its process goes on: others had given it up, and went on without it.
    pub(super) fn begin_anew(&mut self, incarnation: Incarnation, now_ms: MonotonicMs) {
        self.site.incarnation = incarnation;
        // Where no other node has slices of the group, nobody has recorded anything meanwhile.
        self.wholeness.begin_anew(self.placement.nodes().len() != 1);
        self.missed = Missed::begin(&self.placement);
        self.former_heads.forget();
        self.handing.begin_anew();
        self.first_ms = Some(now_ms);
        self.gaps = None;
        self.from_copies.forget_fetched();
    }

    /// Asks for the next cells of what slices here lack, if it is time.
    pub(super) fn fetch(&mut self, present: &Present, own: &OwnSlices, outbox: &mut Outbox) {
        if !self.placement.lacks_here() || self.placement.is_gone_here() {
            return;
        }
        let Self { from_copies, placement, .. } = self;
        if let Some((source, ask)) = from_copies.fetch(placement.sources(), placement.epoch(), present, own) {
            outbox.send(source, PeerBody::AskCells(ask));
        }
    }

    /// When [`Self::fetch`] has something to do, if nothing comes.
    fn next_fetch_ms(&self) -> Option<MonotonicMs> {
        let fetches = self.placement.lacks_here() && !self.placement.is_gone_here();
        fetches.then(|| self.from_copies.fetched.next_ms(self.placement.sources())).flatten()
    }

    /// Compares complete slices here with their other copies, if it is time, and puts in cells that are missing here.
    pub(super) fn rescan(&mut self, present: &Present, own: &mut OwnSlices, kept: &mut ToPersist, outbox: &mut Outbox) {
        let Self { from_copies, placement, .. } = self;
        if !self.has_copies || placement.is_gone_here() {
            return;
        }
        let asked = from_copies.compare(placement.complete_twins(), present, own, |part| kept.copied(part));
        if let Some((source, ask)) = asked {
            outbox.send(source, PeerBody::AskCells(ask));
        }
    }

    /// When [`Self::rescan`] has something to do, if nothing comes.
    pub(super) fn next_rescan_ms(&self) -> Option<MonotonicMs> {
        (self.has_copies && !self.placement.is_gone_here()).then(|| self.from_copies.compared.next_ms()).flatten()
    }

    /// The cells that were asked for, as another copy had them by the map of `epoch`.
    pub(super) fn hear_cells(
        &mut self,
        parts: CellParts,
        epoch: Epoch,
        present: &Present,
        own: &mut OwnSlices,
        kept: &mut ToPersist,
    ) {
        let is_complete = self.placement.is_slice_complete_here(parts.slice as usize);
        if is_complete {
            self.from_copies.hear_to_compare(parts, present, own);
        } else {
            self.from_copies.hear_fetched(parts, epoch, present, own, |part| kept.copied(part));
        }
    }
}
