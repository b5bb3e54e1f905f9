//! The end of an input: the order of what it has set off, and the replies that are due.
//!
//! Promises: a reply leaves once, when all events of its batch are decided, and the guard has learnt it before. Must not know: how
//! events are decided.

use super::DividedGroup;
use super::flights::{Batch, Ticket};
use crate::protocol::{Command, GroupReply, Operation};
use firstseen_filter::Probes;

impl DividedGroup {
    /// Brings what an input has set off to its end. The steps have this order for the reasons below. `take_commands` gives
    /// what is to be persisted first, then other commands in this order, and messages that still gather last:
    ///
    /// 1. events that became ready run first, as all later steps look at what is in flight;
    /// 2. gaps before fetching, as a gap that is over needs no cells, and fetching before comparing, which is of slices that
    ///    lack nothing;
    /// 3. whom claims are unsure of is asked whenever, as nothing else of this input rests on it;
    /// 4. early duplicates and questions to other levels before batches are replied to and dropped, as both look into
    ///    batches;
    /// 5. batches before handing over: a node that has taken over is sent the replies under names before the word that
    ///    there are no more.
    pub(super) fn finish(&mut self) {
        self.membership.begin(self.present.now_ms());
        self.run_ready();
        self.mind_slices();
        self.mind_unsure();
        self.send_early_duplicates();
        self.begin_climbs();
        while let Some(ticket) = self.in_flight.next_closing() {
            // It may be there several times.
            let Some(batch) = self.in_flight.flights.unless_over(ticket) else { continue };
            if !batch.is_pending() {
                self.reply(ticket);
            }
            self.in_flight.retire(ticket);
        }
        let Self { membership, in_flight, guard, outbox, present, .. } = self;
        membership.hand_over(&in_flight.flights, guard, present.now_ms(), outbox);
    }

    /// Minds what slices here lack, and whether copies agree.
    fn mind_slices(&mut self) {
        let Self { membership, own, kept, outbox, present, .. } = self;
        membership.mind_gap(present, own, outbox);
        membership.fetch(present, own, outbox);
        membership.rescan(present, own, kept, outbox);
    }

    /// The chance that a new event of which all positions are asked is called a duplicate; computed only where the
    /// batch has other events.
    fn rate_if_partial(&mut self, ticket: Ticket) -> f64 {
        let batch = self.in_flight.flights.batch(ticket);
        if batch.is_some_and(Batch::is_degraded) {
            self.expected_rate(self.membership.placement().plan().shape().hashes() as usize)
        } else {
            0.0
        }
    }

    /// Replies to the batch of an event, unless it has its reply; the guard learns what is known of it.
    pub(super) fn reply(&mut self, ticket: Ticket) {
        let cannot_deny = !self.membership.wholeness().is_whole() || self.tree.has_forgotten(&self.own);
        let full_rate = self.rate_if_partial(ticket);
        self.in_flight.forget_names(ticket);
        let Some(reply_to) = self.learn(ticket) else { return };
        let flights = &mut self.in_flight.flights;
        let Some(batch) = flights.batch_mut(ticket) else { return };
        let degraded = batch.is_degraded() || batch.header().operation == Operation::Verify && cannot_deny;
        let expected_rate = batch.expected_rate(|| full_rate).unwrap_or(0.0) as f32;
        if degraded && batch.header().operation.records() {
            self.degraded_ms = Some(self.present.now_ms());
        }
        if batch.reply() {
            let (decisions, seen, holds) = (batch.decisions().to_vec(), batch.seen().to_vec(), batch.holds().to_vec());
            // Granted and released events are counted as such.
            if batch.header().operation.is_of_verdicts() {
                self.counts.decisions.count(batch.decisions_but_repeats().as_ref().unwrap_or(&decisions));
            }
            let (clock_ms, spent) = (self.present.clock().clock_ms(), flights.spare_probes());
            let reply = GroupReply {
                reply_to,
                decisions,
                clock_ms,
                degraded,
                expected_rate,
                seen,
                holds,
                spent,
                ..GroupReply::default()
            };
            self.outbox.push(Command::Reply(reply));
        }
    }

    /// The guard learns the replies of a batch, and so do the disk, and nodes that have taken slices over. Returns the place that the
    /// reply goes to: that of the newest try; none where the batch is not there.
    fn learn(&mut self, ticket: Ticket) -> Option<u64> {
        let batch = self.in_flight.flights.batch_mut(ticket)?;
        let reply_to = batch.header().reply_to;
        if !batch.is_unlearnt() {
            return Some(reply_to);
        }
        let (name, names) = (batch.header().name(), &batch.header().names[..]);
        self.guard.learn(name, names.iter().map(|event| event.name), batch.decisions());
        let reading = self.present.clock().reading();
        self.kept.replied(name, names, batch.decisions(), reading);
        let handing = self.membership.handing();
        if handing.sends_replies() {
            let no_probes = Probes::new(self.tree.shape(self.membership.placement().plan()));
            handing.send_replies(&mut self.outbox, (name, names, batch.decisions()), reading, no_probes);
        }
        // Once the batch has its reply, a batch in flight under its name is a retry.
        let newest = if batch.is_replied() { None } else { self.guard.arrive(name) };
        batch.learnt();
        Some(newest.unwrap_or(reply_to))
    }
}
