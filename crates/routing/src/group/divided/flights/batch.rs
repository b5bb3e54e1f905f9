//! A submission whose events are in flight.
//!
//! Promises: what a batch is does not change; its verdicts are counted, and its reply and its early duplicates leave once.
//! Must not know: cells, nodes, other batches.

use std::sync::Arc;

use firstseen_filter::Probes;

use super::{Flight, Phase};
use crate::protocol::{BatchName, Fence, FromLevel, Hold, MonotonicMs, NamedEvent, Operation};
use crate::verdict::{Decision, Reason, Seen};

/// What a batch is, beside its events.
#[derive(Clone, Debug)]
pub(crate) struct BatchHeader {
    pub(crate) reply_to: u64,
    pub(crate) operation: Operation,
    /// The level that the batch came from, in trees.
    pub(crate) from: Option<FromLevel>,
    pub(crate) producer: u128,
    pub(crate) sequence: u64,
    pub(crate) names: Vec<NamedEvent>,
    pub(crate) fences: Vec<Fence>,
    pub(crate) deadline_ms: MonotonicMs,
    /// The batch was sent before, and may have been recorded.
    pub(crate) again: bool,
    pub(crate) traceparent: Option<Arc<str>>,
}

impl BatchHeader {
    /// What tells the batch from others of its producers.
    pub(crate) fn name(&self) -> BatchName {
        BatchName { producer: self.producer, sequence: self.sequence }
    }

    /// The events may have been recorded under the batch's name before.
    pub(crate) fn may_be_again(&self) -> bool {
        self.operation == Operation::Observe && (self.again || !self.names.is_empty())
    }
}

/// A submission whose events are in flight.
pub(crate) struct Batch {
    header: BatchHeader,
    probes: Probes,
    /// Positions of the tree's root, where they are others.
    above: Option<Probes>,
    flights: Vec<Flight>,
    /// The verdicts, which leave with the reply.
    decisions: Vec<Decision>,
    /// Where events were found, in trees; these leave with the reply too.
    seen: Vec<Seen>,
    /// Who holds the events, where they are claimed; these leave with the reply too.
    holds: Vec<Hold>,
    /// When nodes were asked about the events, where these are claimed.
    asked_ms: Vec<MonotonicMs>,
    /// Events without a verdict so far.
    pending: usize,
    /// Events that are not over.
    open: usize,
    is_replied: bool,
    /// Some of its events had a reply before.
    has_repeats: bool,
    /// Early duplicates were sent, ahead of the reply.
    has_sent_early: bool,
    /// The guard has learnt all decisions.
    is_learnt: bool,
    is_degraded: bool,
    /// Events of which not all positions were asked, and the sum of the chances that a new one is called a duplicate.
    partial_events: u32,
    partial_rates: f64,
}

impl Batch {
    /// A batch none of whose events is in flight yet; `flights` is memory to use.
    pub(super) fn new(
        header: BatchHeader,
        probes: Probes,
        above: Option<Probes>,
        mut flights: Vec<Flight>,
        is_degraded: bool,
    ) -> Self {
        let events = probes.len();
        flights.clear();
        flights.resize(events, Flight::IDLE);
        Self {
            header,
            probes,
            above,
            flights,
            decisions: vec![Decision::Undecided(Reason::Unknown); events],
            seen: Vec::new(),
            holds: Vec::new(),
            asked_ms: Vec::new(),
            pending: events,
            open: events,
            is_replied: false,
            has_repeats: false,
            has_sent_early: false,
            is_learnt: false,
            is_degraded,
            partial_events: 0,
            partial_rates: 0.0,
        }
    }

    /// The memory of a batch that is over.
    pub(super) fn into_memory(self) -> (Probes, Vec<Flight>) {
        (self.above.unwrap_or(self.probes), self.flights)
    }

    pub(crate) fn header(&self) -> &BatchHeader {
        &self.header
    }

    pub(crate) fn flights(&self) -> &[Flight] {
        &self.flights
    }

    #[inline]
    pub(crate) fn flight_mut(&mut self, index: usize) -> &mut Flight {
        &mut self.flights[index]
    }

    /// The positions of an event at this level.
    #[inline]
    pub(super) fn positions(&self, index: usize) -> &[u64] {
        self.probes.positions(index)
    }

    /// The positions by which an event is told from others.
    #[inline]
    pub(super) fn identity(&self, index: usize) -> &[u64] {
        self.above.as_ref().unwrap_or(&self.probes).positions(index)
    }

    pub(crate) fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    pub(crate) fn seen(&self) -> &[Seen] {
        &self.seen
    }

    pub(crate) fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// Whether an event has no verdict.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending > 0
    }

    /// Whether the batch may be dropped: all of its events are over, and it has its reply.
    pub(super) fn is_over(&self) -> bool {
        self.open == 0 && self.is_replied
    }

    pub(crate) fn is_replied(&self) -> bool {
        self.is_replied
    }

    /// The reply leaves; false where it has left before.
    pub(crate) fn reply(&mut self) -> bool {
        !std::mem::replace(&mut self.is_replied, true)
    }

    /// Whether its producer may be sent early duplicates. One from another level is sent none: that level waits for its
    /// whole reply anyway.
    pub(crate) fn awaits_early(&self) -> bool {
        self.header.from.is_none() && self.is_pending() && !self.is_replied && !self.has_sent_early
    }

    /// Early duplicates leave.
    pub(crate) fn send_early(&mut self) {
        debug_assert!(self.awaits_early(), "early duplicates come late, or twice");
        self.has_sent_early = true;
    }

    /// Whether the guard has still to learn decisions.
    pub(crate) fn is_unlearnt(&self) -> bool {
        self.header.operation.records() && !self.is_learnt
    }

    /// The guard has learnt all decisions that there are.
    pub(crate) fn learnt(&mut self) {
        self.is_learnt = !self.is_pending();
    }

    /// An event had a reply before.
    pub(crate) fn repeat(&mut self, index: usize) {
        self.has_repeats = true;
        self.flights[index].repeat();
    }

    /// The verdicts on events that had no reply before; none where these are all.
    pub(crate) fn decisions_but_repeats(&self) -> Option<Vec<Decision>> {
        let new = self.flights.iter().zip(&self.decisions).filter(|(flight, _)| !flight.is_repeat());
        self.has_repeats.then(|| new.map(|(_, decision)| *decision).collect())
    }

    pub(crate) fn is_degraded(&self) -> bool {
        self.is_degraded
    }

    /// A node, or another level, that was asked may lack something.
    pub(crate) fn degrade(&mut self) {
        self.is_degraded = true;
    }

    /// Not all positions of an event are asked; a new event is called a duplicate by this chance.
    pub(crate) fn ask_partly(&mut self, rate: f64) {
        self.degrade();
        self.partial_events += 1;
        self.partial_rates += rate;
    }

    /// The mean chance that a new event of the batch is called a duplicate, where the chance is `rate` for events of
    /// which all positions were asked. `None` if that is all events.
    pub(crate) fn expected_rate(&self, rate: f64) -> Option<f64> {
        let events = self.flights.len() as f64;
        let whole_events = (events - f64::from(self.partial_events)).max(0.0);
        (self.partial_events > 0).then(|| (self.partial_rates + whole_events * rate) / events)
    }

    /// Whether an event of the batch is in flight.
    pub(crate) fn is_open(&self) -> bool {
        self.flights.iter().any(|flight| !matches!(flight.phase(), Phase::Over | Phase::Abandoned))
    }

    /// Nodes are asked about an event that is claimed.
    pub(crate) fn asked(&mut self, index: usize, now_ms: MonotonicMs) {
        self.asked_ms.resize(self.flights.len(), now_ms);
        self.asked_ms[index] = now_ms;
    }

    /// When nodes were asked about an event.
    pub(crate) fn asked_ms(&self, index: usize) -> Option<MonotonicMs> {
        self.asked_ms.get(index).copied()
    }

    /// The reply says who holds an event.
    pub(crate) fn hold(&mut self, index: usize, hold: Hold) {
        self.holds.resize(self.flights.len(), Hold::None);
        self.holds[index] = hold;
    }

    /// Decides an event; in a tree the verdict says where it was found, in a window of `span_units`. Returns that; none
    /// where the event was decided before.
    pub(crate) fn decide(
        &mut self,
        index: usize,
        outcome: Decision,
        seen: impl FnOnce(&Flight) -> Option<Seen>,
    ) -> Option<Option<Seen>> {
        let flight = &mut self.flights[index];
        if !flight.decide(outcome) {
            return None;
        }
        let seen = seen(flight);
        self.note_decision(index, outcome);
        if let Some(seen) = seen {
            self.seen.resize(self.decisions.len(), Seen::default());
            self.seen[index] = seen;
        }
        Some(seen)
    }

    /// Gives an event up that has no verdict: its caller gets this one.
    pub(crate) fn give_up(&mut self, index: usize, reason: Reason) {
        if self.flights[index].give_up() {
            self.note_decision(index, Decision::Undecided(reason));
        }
    }

    fn note_decision(&mut self, index: usize, outcome: Decision) {
        debug_assert!(self.pending > 0, "all events have their verdicts");
        self.decisions[index] = outcome;
        self.pending = self.pending.saturating_sub(1);
    }

    /// An event is over. Returns whether all have their verdicts.
    pub(super) fn end(&mut self, index: usize) -> bool {
        self.flights[index].end();
        self.open = self.open.saturating_sub(1);
        !self.is_pending()
    }
}
