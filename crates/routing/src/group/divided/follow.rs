//! What a new map means for a group: nodes come and go, and heads of events with them.
//!
//! A node that is gone is neither asked nor set, and the events whose head it was have another head: the node of their
//! next position. So that no two heads find an event new, tests and sets that a head sends by an older map are refused
//! (see `DividedGroup::receive`). An event that another node may have headed since it was found new is unknown, unless
//! all nodes acknowledge its sets (see `DividedGroup::end_set`).
//!
//! Promises: of two heads of an event, one before and one after a change of the map, at most one replies first-seen, if
//! no reply leaves before all nodes have acknowledged. Must not know: how the map is agreed on.

use super::DividedGroup;
use super::flights::{Phase, Ticket};
use super::membership::Followed;
use super::sets::{SetEnd, SetFlight};
use crate::ids::Incarnation;
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::Moment;
use crate::verdict::Reason;

impl DividedGroup {
    /// The map says something new of the filter.
    pub(crate) fn map_changed(&mut self, map: &ClusterMap, record: &FilterRecord, now: Moment) {
        self.present.begin(now);
        self.outbox.set_epoch(record.epoch);
        self.follow_line(map, record);
        let (replies_when_all_acknowledged, first_free) =
            (self.replies_when_all_acknowledged(), self.in_flight.flights.first_free());
        let Self { membership, own, outbox, .. } = self;
        let followed =
            membership.follow((map, record), replies_when_all_acknowledged, first_free, now.monotonic_ms, own, outbox);
        let (Followed { former, returned }, placement) = (followed, self.membership.placement());
        if !placement.is_like(&former) {
            self.fill.spread_over(placement.served_slices(), placement.asked_here());
        }
        let is_new_epoch = placement.epoch() != former.epoch();
        self.follow_claims(&former);
        self.mark_overtaken(&former);
        if is_new_epoch {
            self.abandon_tests();
            self.keep_unacknowledged();
            self.follow_sets(&former);
            let placement = self.membership.placement();
            let is_gone = |set: &SetFlight| placement.gone_peers().any(|peer| peer == set.to());
            self.end_sets(self.in_flight.sets.numbers(is_gone), SetEnd::NodeGone);
            // A set that was for a node without slices now is for the nodes that have them now.
            let placement = self.membership.placement();
            let is_stale = |set: &SetFlight| set.awaits_map() || placement.index_of(set.to()).is_none();
            self.end_sets(self.in_flight.sets.numbers(is_stale), SetEnd::Stale);
            self.count_stuck_events();
        }
        self.open_generation(record);
        let Self { membership, present, own, outbox, .. } = self;
        let epoch = membership.placement().epoch();
        membership.follow_gap(present, own);
        // The nodes that are back would ask for what they missed; this answers ahead of their question.
        returned.into_iter().for_each(|node| membership.send_past(node, epoch, present, own, outbox));
        self.finish();
    }

    /// The node counts as started anew, though its process goes on: others had given it up, and went on without it.
    pub(crate) fn begin_anew(&mut self, incarnation: Incarnation, now: Moment) {
        self.present.begin(now);
        self.membership.interrupt();
        self.reply_to_all(Reason::NotReady);
        self.in_flight.clear();
        self.tree.clear();
        // Batches have their replies by now; messages gathered for other nodes are of a start that is over for them.
        self.outbox.begin_anew();
        self.membership.begin_anew(incarnation, now.monotonic_ms);
        let Self { claiming, membership, .. } = self;
        if let Some(claiming) = claiming {
            let placement = membership.placement();
            claiming.begin_anew(placement.epoch(), placement.live_peers().map(|(peer, _)| peer));
        }
    }

    /// No event in flight can come to an end here: every caller that waits gets a reply, and asks elsewhere.
    pub(crate) fn give_up_flights(&mut self, now: Moment) {
        self.present.begin(now);
        self.reply_to_all(Reason::NotReady);
        self.finish();
    }

    /// The map does not have the filter any more: every caller that waits gets a reply, and asks the filter that has followed, if
    /// one has.
    pub(crate) fn end_dropped(&mut self, now: Moment) {
        self.present.begin(now);
        self.is_draining = true;
        self.reply_to_all(Reason::UnknownFilter);
        self.finish();
    }

    fn reply_to_all(&mut self, unrecorded: Reason) {
        for first in self.in_flight.flights.batches() {
            self.give_up(first, unrecorded);
            self.reply(first);
        }
    }

    /// Decides all undecided events of a batch by what is known of them: `unrecorded` of those of which nothing was recorded.
    fn give_up(&mut self, first: Ticket, unrecorded: Reason) {
        let Some(batch) = self.in_flight.flights.batch_mut(first) else { return };
        for event in 0..batch.flights().len() {
            let reason = match batch.flights()[event].phase() {
                Phase::Testing | Phase::Joined => unrecorded,
                _ => Reason::Unknown,
            };
            batch.give_up(event, reason);
        }
    }
}
