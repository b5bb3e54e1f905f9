//! What a new map means for a group: nodes come and go, and heads of events with them.
//!
//! A node that is down is neither asked nor set, and the events whose head it was have another: the node of their next
//! position. So that no two heads find an event new, what one asks or sets by a map that is over is refused (see
//! `DividedGroup::receive`), and what it has not told by then is unknown, unless it heads the event by the next map too.
//!
//! Promises: of two heads of an event, one before and one after a change of the map, one is told that it is new at most,
//! if nothing is told before all have acknowledged. Must not know: how the map is agreed on.

use super::DividedGroup;
use super::flights::{Flights, Phase};
use super::missed::Missed;
use super::placement::Placement;
use super::sets::{SetEnd, SetFlight};
use crate::ids::{Incarnation, NodeId};
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::{Command, Moment};
use crate::verdict::{Decision, Reason};

/// Changes of heads that are told apart; older ones count for all events.
const CHANGES_MAX: usize = 64;

/// Who has handed over is remembered for so long after that has ceased to matter: longer than any retry horizon.
const HANDED_OVER_KEPT_MS: u64 = 24 * 3_600_000;

/// Who headed events before, for as long as submissions may come again.
#[derive(Default)]
pub(super) struct FormerHeads {
    /// With the monotonic time until which it matters.
    placements: Vec<(u64, Placement)>,
    /// Until then any event may have had another head.
    any_until_ms: u64,
    /// What was before this process began, nobody knows.
    is_unknown: bool,
    /// Who has told all that it told under names before an epoch: what of that is not known here is over at this time.
    handed_over: Vec<(NodeId, u64, u64)>,
    /// When this node became the head of events that others have headed, last.
    gained_ms: u64,
}

impl FormerHeads {
    fn push(&mut self, former: Placement, until_ms: u64, now_ms: u64) {
        self.placements.retain(|(until_ms, _)| *until_ms > now_ms);
        if self.placements.len() >= CHANGES_MAX {
            self.any_until_ms = self.placements.remove(0).0;
        }
        self.placements.push((until_ms, former));
        self.handed_over.retain(|(_, _, until_ms)| until_ms.saturating_add(HANDED_OVER_KEPT_MS) > now_ms);
    }

    /// Others may have headed any event before this process began.
    pub(super) fn forget(&mut self) {
        self.is_unknown = true;
    }

    /// The process begins; that matters no more at `until_ms`.
    pub(super) fn begin(&mut self, until_ms: u64) {
        if std::mem::take(&mut self.is_unknown) {
            self.any_until_ms = until_ms;
        }
    }

    /// Whether no submission may come again that another node has headed.
    pub(super) fn are_over(&self, now_ms: u64) -> bool {
        let is_over = |(until_ms, _): &(u64, Placement)| *until_ms <= now_ms;
        !self.is_unknown && self.any_until_ms <= now_ms && self.placements.iter().all(is_over)
    }

    /// A node has told all that it told under names by maps before `epoch`, but for what is over at `until_ms`.
    pub(super) fn handed_over(&mut self, node: NodeId, epoch: u64, until_ms: u64) {
        self.handed_over.push((node, epoch, until_ms));
    }

    /// This node has become the head of events that others have headed.
    pub(super) fn gained(&mut self, now_ms: u64) {
        self.gained_ms = now_ms;
    }

    /// When that was last.
    pub(super) fn gained_ms(&self) -> u64 {
        self.gained_ms
    }

    /// Whether another node than `me` headed an event of these positions lately.
    pub(super) fn are_elsewhere(&self, positions: &[u64], me: NodeId, now_ms: u64) -> bool {
        let is_known = |head: Option<NodeId>, epoch: u64| {
            let is_of =
                |(node, by, until_ms): &(NodeId, u64, u64)| Some(*node) == head && *by > epoch && *until_ms <= now_ms;
            head == Some(me) || self.handed_over.iter().any(is_of)
        };
        let is_elsewhere = |(until_ms, placement): &(u64, Placement)| {
            *until_ms > now_ms && !is_known(placement.head(positions), placement.epoch())
        };
        self.is_unknown || self.any_until_ms > now_ms || self.placements.iter().any(is_elsewhere)
    }
}

impl DividedGroup {
    /// The map says something new of the filter.
    pub(crate) fn map_changed(
        &mut self,
        map: &ClusterMap,
        record: &FilterRecord,
        now: Moment,
        commands: &mut Vec<Command>,
    ) {
        self.now = now;
        let placement = Placement::new(map, record, self.group, self.me, *self.placement.plan());
        let is_down = placement.is_down_here();
        if is_down && !self.placement.is_down_here() {
            self.holding.interrupt();
        }
        self.holding.follow(placement.is_complete_here(), placement.has_gap_here());
        if !placement.has_any_here() {
            self.holding.leave();
        }
        self.outbox.set_epoch(record.epoch);
        self.follow_line(record);
        let former = std::mem::replace(&mut self.placement, placement);
        // Those that could not be built before, too.
        let come = self.own.follow(&self.placement);
        if !come.is_empty() {
            self.begin_arrivals_anew();
        }
        if !self.placement.is_like(&former) {
            self.fill.spread_over(self.placement.live_slices(), self.placement.asked_here());
        }
        if !self.placement.heads_as(&former) {
            let until_ms = now.monotonic_ms.saturating_add(u64::from(self.policies.retry_horizon_ms));
            self.former_heads.push(former.clone(), until_ms, now.monotonic_ms);
            if self.placement.heads_more_than(&former) {
                self.former_heads.gained(now.monotonic_ms);
            }
        }
        let are_known = !self.is_owed_by_others();
        self.follow_handing(map, &former);
        // A slice may have left and come again in between.
        let is_new = |slice: u32| {
            let arrivals = self.placement.arriving_here().iter();
            let is_new =
                arrivals.filter(|(of, _)| *of == slice).any(|arrival| !former.arriving_here().contains(arrival));
            is_new || come.contains(&slice)
        };
        self.copying.retain(|slice| self.placement.lacking_here().any(|lacking| lacking == slice) && !is_new(slice));
        let returned = self.missed.follow(&former, &self.placement, are_known, &mut self.outbox);
        if self.placement.epoch() != former.epoch() {
            self.abandon_tests();
            self.keep_unacknowledged();
            self.follow_sets(&former);
            self.end_sets_by(|group, set| group.placement.down_peers().any(|peer| peer == set.to()), SetEnd::Down);
            // What a node was to set that has no slices any more is for whoever has them now.
            let is_stale =
                |group: &Self, set: &SetFlight| set.awaits_map() || group.placement.index_of(set.to()).is_none();
            self.end_sets_by(is_stale, SetEnd::Stale);
            self.count_stuck_events();
        }
        self.open_generation(record);
        self.follow_gap();
        // They would ask.
        returned.into_iter().for_each(|node| self.tell_past(node, self.placement.epoch()));
        self.finish(commands);
    }

    /// The node counts as started anew, though its process goes on: others had given it up, and went on without it.
    pub(crate) fn begin_anew(&mut self, incarnation: Incarnation, now: Moment, commands: &mut Vec<Command>) {
        self.now = now;
        // The map that says so may have come together with the next.
        if !self.placement.is_down_here() {
            self.holding.interrupt();
        }
        self.answer_all();
        (self.flights, self.incarnation) = (None, incarnation);
        self.sets.clear();
        self.named.clear();
        self.ready.clear();
        self.closing.clear();
        self.parting.clear();
        self.tree.clear();
        // Batches are settled above; what was gathered for other nodes was told by a process that is over for them.
        self.kept.take(self.filter, self.group, commands);
        self.outbox.begin_anew(commands);
        // Where no other node has slices of the group, nobody has recorded anything meanwhile.
        self.holding.begin_anew(self.placement.nodes().len() != 1);
        self.missed = Missed::begin(&self.placement);
        self.former_heads.forget();
        self.handing.begin_anew();
        self.first_ms = Some(now.monotonic_ms);
        self.gaps = None;
        self.fetch_anew();
    }

    /// Nothing of what is in flight can come to an end here: whoever waits for an answer gets one, and asks elsewhere.
    pub(crate) fn give_up_flights(&mut self, now: Moment, commands: &mut Vec<Command>) {
        self.now = now;
        self.answer_all();
        self.finish(commands);
    }

    fn answer_all(&mut self) {
        for first in self.flights.as_ref().map(Flights::batches).unwrap_or_default() {
            self.give_up(first);
            self.answer(first);
        }
    }

    /// Tells all events of a batch that are not told what is known of them.
    fn give_up(&mut self, first: u64) {
        let Some(batch) = self.flights.as_mut().and_then(|flights| flights.batch_mut(first)) else { return };
        for event in 0..batch.flights.len() {
            let reason = match batch.flights[event].phase {
                _ if batch.flights[event].told => continue,
                Phase::Testing | Phase::Joined => Reason::NotReady,
                _ => Reason::Unknown,
            };
            batch.flights[event].told = true;
            batch.decide(event, Decision::Undecided(reason), None);
        }
    }
}
