//! Reactions of a group to new cluster maps, to time, and to the loss of nodes. Nodes come and go, and the heads of
//! events change with them.
//!
//! A node that is gone is neither asked nor set. Events that it headed get another head, which is the node of their
//! next position. To prevent two heads from finding the same event new, tests and sets that a head sends by an older
//! map are rejected (see `MultiSliceGroup::receive`). An event that another node may have headed since it was found new
//! becomes unknown, unless all nodes acknowledge its sets (see `Recording::end_set_of`). A filter can be closed because
//! a successor has replaced it. Events in flight then continue to their end, and nothing new is recorded.
//!
//! # Guarantees
//!
//! - If a change of the cluster map gives an event a new head, at most one of the two heads replies first-seen. This
//!   requires that replies are sent only after all nodes have acknowledged.
//! - Every batch has its reply by its deadline.
//! - After a filter was closed and its group has ended, the group never replies first-seen again.

use std::collections::BTreeSet;

use super::MultiSliceGroup;
use super::flights::Phase;
use super::membership::Followed;
use super::sets::SetEnd;
use crate::group::thresholds::TOO_FEW_LEFT;
use crate::ids::{Incarnation, NodeId};
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::{Moment, MonotonicMs};
use crate::verdict::{Decision, Reason};

/// Reactions to cluster maps.
impl MultiSliceGroup {
    /// Applies a new cluster map that changes something about the filter.
    pub(crate) fn map_changed(&mut self, map: &ClusterMap, record: &FilterRecord, now: Moment) {
        self.local.present.begin(now);
        self.outbox.set_epoch(record.epoch);
        self.follow_line(map, record);
        self.local.tree.follow(map);
        let first_free = self.in_flight.flights.first_free();
        let Self { local, outbox, .. } = self;
        let Followed { former, returned } =
            local.membership.follow(map, record, first_free, now.monotonic_ms, &mut local.own, outbox);
        let placement = self.local.membership.placement();
        let epoch = placement.epoch();
        if !placement.is_like(&former) {
            self.local.spread_heads();
        }
        self.claims.follow_heads(&former, self.local.membership.placement());
        self.recording().mark_overtaken(&former);
        if epoch != former.epoch() {
            // Results of tests by the former map are worthless, whether the tests run on this node or at lower levels.
            let tested = self.in_flight.flights.in_phases(|phase| matches!(phase, Phase::Testing | Phase::Checking));
            self.verdicts().decide_all(tested, Decision::Undecided(Reason::StaleMap));
            self.recording().keep_unacknowledged();
            self.in_flight.sets.follow(&former, self.local.membership.placement());
            let gone: Vec<NodeId> = self.local.membership.placement().gone_peers().collect();
            self.end_sets(self.in_flight.sets.numbers(|set| gone.contains(&set.to)), SetEnd::NodeGone);
            // A set for a node that has no slices any more must be sent to the nodes that have these slices now.
            let placement = self.local.membership.placement();
            let stale = self.in_flight.sets.numbers(|set| set.awaits_map || placement.index_of(set.to).is_none());
            self.end_sets(stale, SetEnd::Stale);
            self.count_stuck_events();
        }
        self.local.open_generation(record);
        let Self { local, outbox, .. } = self;
        local.membership.follow_gap(&local.present, &local.own);
        // Nodes that came back would ask for the events that they missed. The answer is sent before they ask.
        for node in returned {
            local.membership.send_past(node, epoch, &local.present, &local.own, outbox);
        }
        self.finish();
    }

    /// Notes whether the map says that the filter is closed.
    fn follow_line(&mut self, map: &ClusterMap, record: &FilterRecord) {
        let is_closed = self.local.present.follow(record.line.absent());
        if is_closed {
            self.in_flight.close_line();
        }
        if let Some(claiming) = self.claims.get_mut() {
            claiming.follow(map);
            if is_closed {
                claiming.close();
            }
        }
    }

    /// Treats the node as restarted although its process continues, because the other nodes had given it up and
    /// continued without it.
    pub(crate) fn mark_restarted(&mut self, incarnation: Incarnation, now: Moment) {
        self.local.present.begin(now);
        self.local.membership.interrupt();
        self.replying().abandon_all(Reason::NotReady);
        self.in_flight.clear();
        self.local.tree.clear();
        // All batches have their replies by now. Messages that were collected for other nodes belong to a start of this
        // node that has ended for them.
        self.outbox.mark_restarted();
        self.local.membership.mark_restarted(incarnation, now.monotonic_ms);
        self.claims.mark_restarted(self.local.membership.placement());
    }

    /// Abandons all events in flight because they cannot end here. Every caller that waits gets a reply and can ask
    /// another node.
    pub(crate) fn abandon_in_flight(&mut self, now: Moment) {
        self.local.present.begin(now);
        self.replying().abandon_all(Reason::NotReady);
        self.finish();
    }

    /// Ends the group because the cluster map no longer contains its filter. Every client that waits for a reply gets
    /// the reply `UnknownFilter`. If the filter has a successor, the client can send its events to the successor.
    pub(crate) fn end_dropped(&mut self, now: Moment) {
        self.local.present.begin(now);
        self.replays.is_draining = true;
        self.replying().abandon_all(Reason::UnknownFilter);
        self.finish();
    }
}

/// Reactions to time and to the loss of nodes.
impl MultiSliceGroup {
    /// Replies to batches whose deadline has passed, and forgets idempotency keys and events that need not be
    /// remembered.
    pub(crate) fn tick(&mut self, now: Moment) {
        self.local.present.begin(now);
        self.replays.guard.expire(now.monotonic_ms);
        let mut leaders = BTreeSet::new();
        for first in self.in_flight.flights.batches() {
            let batch = self.in_flight.flights.batch(first);
            if batch.is_some_and(|batch| !batch.is_replied() && batch.header().deadline_ms <= now.monotonic_ms) {
                self.verdicts().expire(first, &mut leaders);
                self.replying().reply(first);
            }
        }
        leaders.into_iter().for_each(|leader| self.in_flight.end_abandoned(leader));
        self.climbing().replay_owed();
        let membership = &self.local.membership;
        if membership.heads_all_that_may_come(now.monotonic_ms) {
            self.kept.headed(membership.placement().epoch());
        }
        self.finish();
    }

    /// Returns the time at which [`Self::tick`] has work to do.
    pub(crate) fn next_tick_ms(&self) -> Option<MonotonicMs> {
        let Self { local, in_flight, replays, claims, outbox, .. } = self;
        let due = [
            in_flight.flights.next_deadline_ms(),
            outbox.has_commands().then_some(MonotonicMs::START),
            replays.guard.next_expiry_ms(),
            local.tree.next_replay_ms(),
            claims.next_ms(),
            local.membership.next_gap_ms(&local.present, &local.own),
            local.membership.next_rescan_ms(),
            local.membership.handing().next_ms(),
        ];
        due.into_iter().flatten().min()
    }

    /// Notes that a node's process is gone. It will not reply to tests, and the cells that it has set may be lost.
    pub(crate) fn peer_lost(&mut self, peer: NodeId, now: Moment) {
        self.local.present.begin(now);
        // The node's next process must set the cells.
        self.end_sets(self.in_flight.sets.numbers(|set| set.to == peer), SetEnd::ProcessGone);
        self.count_stuck_events();
        let placement = self.local.membership.placement();
        if let Some(node) = placement.index_of(peer) {
            // An event may be lost on its way to that node, so all events that need the node are decided.
            let lost = self.in_flight.flights.tested(|event| {
                event.positions().iter().any(|position| {
                    let is_claim = event.operation().is_claim();
                    placement.node_at(*position) == node || is_claim && placement.has_copy(node, *position)
                })
            });
            self.verdicts().decide_all(lost, Decision::Undecided(Reason::NotReady));
        }
        self.finish();
    }

    /// Notes that the set of unreachable nodes has changed.
    pub(crate) fn reach_changed(&mut self, nodes: &BTreeSet<NodeId>, now: Moment) {
        if !self.local.membership.reach_changed(nodes) {
            return;
        }
        self.local.present.begin(now);
        self.count_stuck_events();
        let membership = &self.local.membership;
        let lost = self.in_flight.flights.tested(|event| {
            membership.unreachable().has_any(membership.placement(), event.positions().iter().copied())
        });
        self.verdicts().decide_all(lost, TOO_FEW_LEFT);
        self.finish();
    }

    fn count_stuck_events(&mut self) {
        let sets = self.in_flight.sets.all().map(|set| (set.to, &set.tickets[..]));
        self.local.membership.count_stuck_events(sets);
    }

    /// Prepares for the node to stop. Events in flight continue, but no new events are accepted.
    pub(crate) fn drain(&mut self, now: Moment) {
        self.local.present.begin(now);
        self.replays.is_draining = true;
        self.finish();
    }
}
