//! What a new map means for a group: nodes come and go, and heads of events with them.
//!
//! A node that is down is neither asked nor set, and the events whose head it was have another: the node of their next
//! position. So that no two heads find an event new, what one asks or sets by a map that is over is refused (see
//! `DividedGroup::receive`), and what it has not told by then is unknown, unless it heads the event by the next map too.
//!
//! Promises: of two heads of an event, one before and one after a change of the map, one is told that it is new at most,
//! if nothing is told before all have acknowledged. Must not know: how the map is agreed on.

use super::DividedGroup;
use super::flights::Phase;
use super::membership::Followed;
use super::sets::{SetEnd, SetFlight};
use crate::ids::Incarnation;
use crate::map::{ClusterMap, FilterRecord};
use crate::protocol::{Command, Moment};
use crate::verdict::{Decision, Reason};

impl DividedGroup {
    /// The map says something new of the filter.
    pub(crate) fn map_changed(
        &mut self,
        map: &ClusterMap,
        record: &FilterRecord,
        now: Moment,
        commands: &mut Vec<Command>,
    ) {
        self.present.begin(now);
        self.outbox.set_epoch(record.epoch);
        self.follow_line(record);
        let (is_safe, first_free) = (self.is_safe(), self.in_flight.flights().first_free());
        let Self { membership, own, outbox, .. } = self;
        let followed = membership.follow((map, record), is_safe, first_free, now.monotonic_ms, own, outbox);
        let (Followed { former, returned }, placement) = (followed, self.membership.placement());
        if !placement.is_like(&former) {
            self.fill.spread_over(placement.live_slices(), placement.asked_here());
        }
        if placement.epoch() != former.epoch() {
            self.abandon_tests();
            self.keep_unacknowledged();
            self.follow_sets(&former);
            let placement = self.membership.placement();
            let is_down = |set: &SetFlight| placement.down_peers().any(|peer| peer == set.to());
            self.end_sets(self.in_flight.sets().numbers(is_down), SetEnd::Down);
            // What a node was to set that has no slices any more is for whoever has them now.
            let placement = self.membership.placement();
            let is_stale = |set: &SetFlight| set.awaits_map() || placement.index_of(set.to()).is_none();
            self.end_sets(self.in_flight.sets().numbers(is_stale), SetEnd::Stale);
            self.count_stuck_events();
        }
        self.open_generation(record);
        let Self { membership, present, own, outbox, .. } = self;
        let epoch = membership.placement().epoch();
        membership.follow_gap(present, own);
        // They would ask.
        returned.into_iter().for_each(|node| membership.tell_past(node, epoch, present, own, outbox));
        self.finish(commands);
    }

    /// The node counts as started anew, though its process goes on: others had given it up, and went on without it.
    pub(crate) fn begin_anew(&mut self, incarnation: Incarnation, now: Moment, commands: &mut Vec<Command>) {
        self.present.begin(now);
        self.membership.interrupt();
        self.answer_all();
        self.in_flight.clear();
        self.tree.clear();
        // Batches are settled above; what was gathered for other nodes was told by a process that is over for them.
        self.kept.take(&self.membership.site(), commands);
        self.outbox.begin_anew(commands);
        self.membership.begin_anew(incarnation, now.monotonic_ms);
    }

    /// Nothing of what is in flight can come to an end here: whoever waits for an answer gets one, and asks elsewhere.
    pub(crate) fn give_up_flights(&mut self, now: Moment, commands: &mut Vec<Command>) {
        self.present.begin(now);
        self.answer_all();
        self.finish(commands);
    }

    fn answer_all(&mut self) {
        for first in self.in_flight.flights().batches() {
            self.give_up(first);
            self.answer(first);
        }
    }

    /// Tells all events of a batch that are not told what is known of them.
    fn give_up(&mut self, first: u64) {
        let Some(batch) = self.in_flight.batch_mut(first) else { return };
        for event in 0..batch.flights.len() {
            let reason = match batch.flights[event].phase() {
                _ if batch.flights[event].told => continue,
                Phase::Testing | Phase::Joined => Reason::NotReady,
                _ => Reason::Unknown,
            };
            batch.flights[event].told = true;
            batch.decide(event, Decision::Undecided(reason), None);
        }
    }
}
