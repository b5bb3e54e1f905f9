//! A batch that a producer has submitted and that has events in flight. A batch counts its verdicts to detect when it
//! is complete. Its reply and its message of early duplicates are each sent only once. This module does not depend on
//! cells, nodes or other batches.

use std::sync::Arc;

use firstseen_filter::Probes;

use super::{InFlightEvent, Phase};
use crate::protocol::{BatchName, Fence, FromLevel, Hold, MonotonicMs, NamedEvent, Operation};
use crate::verdict::{Decision, Reason, Seen};

/// Description of a batch without its events.
#[derive(Clone, Debug)]
pub(crate) struct BatchHeader {
    pub(crate) reply_to: u64,
    pub(crate) operation: Operation,
    /// The level of the filter tree that sent the batch. `None` if a producer sent it.
    pub(crate) from: Option<FromLevel>,
    pub(crate) producer: u128,
    pub(crate) sequence: u64,
    pub(crate) names: Vec<NamedEvent>,
    pub(crate) fences: Vec<Fence>,
    pub(crate) deadline_ms: MonotonicMs,
    /// Whether the batch was sent before and may have been recorded then.
    pub(crate) again: bool,
    pub(crate) traceparent: Option<Arc<str>>,
}

impl BatchHeader {
    /// Returns the batch's idempotency key, which distinguishes it from other batches of its producer.
    pub(crate) fn name(&self) -> BatchName {
        BatchName { producer: self.producer, sequence: self.sequence }
    }

    /// Returns whether the events may have been recorded before under the same idempotency key.
    pub(crate) fn may_be_again(&self) -> bool {
        self.operation == Operation::Observe && (self.again || !self.names.is_empty())
    }
}

/// A submission whose events are in flight.
pub(crate) struct Batch {
    header: BatchHeader,
    probes: Probes,
    /// Positions at the root of the filter tree, if they differ from the positions at this level.
    above: Option<Probes>,
    flights: Vec<InFlightEvent>,
    /// The verdicts. They are sent with the reply.
    decisions: Vec<Decision>,
    /// Where events were found, in filter trees. This is sent with the reply.
    seen: Vec<Seen>,
    /// Which clients hold the events, if the batch claims events. This is sent with the reply.
    holds: Vec<Hold>,
    /// The times at which nodes were asked about the events, if the batch claims events.
    asked_ms: Vec<MonotonicMs>,
    /// Number of events that have no verdict yet.
    pending: usize,
    /// Number of events that have not ended.
    open: usize,
    is_replied: bool,
    /// Whether some of its events had a reply before.
    has_repeats: bool,
    /// Whether early duplicates were sent before the reply.
    has_sent_early: bool,
    /// Whether the replay guard has learnt all decisions.
    is_learnt: bool,
    /// Whether the batch as a whole is degraded.
    is_degraded: bool,
    /// Indexes of events that are degraded on their own, in no order.
    degraded_events: Vec<u32>,
    /// Number of events of which not all positions were asked, and the sum of the probabilities that a new event among
    /// them is called a duplicate.
    partial_events: u32,
    partial_rates: f64,
}

impl Batch {
    /// Creates a batch whose events are not in flight yet. `flights` is memory to reuse.
    pub(super) fn new(
        header: BatchHeader,
        probes: Probes,
        above: Option<Probes>,
        mut flights: Vec<InFlightEvent>,
    ) -> Self {
        let events = probes.len();
        flights.clear();
        flights.resize(events, InFlightEvent::IDLE);
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
            is_degraded: false,
            degraded_events: Vec::new(),
            partial_events: 0,
            partial_rates: 0.0,
        }
    }

    /// Returns the memory of a batch that has ended.
    pub(super) fn into_memory(self) -> (Probes, Vec<InFlightEvent>) {
        (self.above.unwrap_or(self.probes), self.flights)
    }

    pub(crate) fn header(&self) -> &BatchHeader {
        &self.header
    }

    pub(crate) fn flights(&self) -> &[InFlightEvent] {
        &self.flights
    }

    #[inline]
    pub(crate) fn flight_mut(&mut self, index: usize) -> &mut InFlightEvent {
        &mut self.flights[index]
    }

    /// Returns the positions of an event at this level.
    #[inline]
    pub(super) fn positions(&self, index: usize) -> &[u64] {
        self.probes.positions(index)
    }

    /// Returns the positions that distinguish an event from others.
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

    /// Returns whether an event has no verdict yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending > 0
    }

    /// Returns whether the batch may be dropped, because all of its events have ended and it has its reply.
    pub(super) fn is_over(&self) -> bool {
        self.open == 0 && self.is_replied
    }

    pub(crate) fn is_replied(&self) -> bool {
        self.is_replied
    }

    /// Marks the reply as sent. Returns `false` if it was sent before.
    pub(crate) fn reply(&mut self) -> bool {
        !std::mem::replace(&mut self.is_replied, true)
    }

    /// Returns whether a message of early duplicates may still be sent for the batch. Such a message tells a producer
    /// which events of the batch were found before the rest of the batch is decided. No such message is sent to another
    /// level of a filter tree, because that level waits for the complete reply anyway.
    pub(crate) fn awaits_early(&self) -> bool {
        self.header.from.is_none() && self.is_pending() && !self.is_replied && !self.has_sent_early
    }

    /// Marks early duplicates as sent.
    pub(crate) fn send_early(&mut self) {
        debug_assert!(self.awaits_early(), "early duplicates come late, or twice");
        self.has_sent_early = true;
    }

    /// Returns whether the replay guard must still learn decisions of the batch.
    pub(crate) fn is_unlearnt(&self) -> bool {
        self.header.operation.records() && !self.is_learnt
    }

    /// Notes that the replay guard has learnt all decisions made so far.
    pub(crate) fn learnt(&mut self) {
        self.is_learnt = !self.is_pending();
    }

    /// Marks an event as one that had a reply before.
    pub(crate) fn repeat(&mut self, index: usize) {
        self.has_repeats = true;
        self.flights[index].repeat();
    }

    /// Returns the verdicts on events that had no reply before. Returns `None` if no event had a reply before, so that
    /// all verdicts are new.
    pub(crate) fn decisions_but_repeats(&self) -> Option<Vec<Decision>> {
        let new = self.flights.iter().zip(&self.decisions).filter(|(flight, _)| !flight.is_repeat());
        self.has_repeats.then(|| new.map(|(_, decision)| *decision).collect())
    }

    /// Returns whether the batch or any of its events is degraded.
    pub(crate) fn is_degraded(&self) -> bool {
        self.is_degraded || !self.degraded_events.is_empty()
    }

    /// Returns whether one event was marked as degraded on its own.
    pub(crate) fn is_event_degraded(&self, index: usize) -> bool {
        self.degraded_events.contains(&(index as u32))
    }

    /// Returns the indexes of the degraded events in ascending order. The list is empty if the batch is degraded as a
    /// whole, or not at all.
    pub(crate) fn degraded_events(&self) -> Vec<u32> {
        if self.is_degraded {
            return Vec::new();
        }
        let mut events = self.degraded_events.clone();
        events.sort_unstable();
        events.dedup();
        events
    }

    /// Marks the batch as degraded, because a node that was asked may lack events.
    pub(crate) fn degrade(&mut self) {
        self.is_degraded = true;
    }

    /// Marks one event as degraded, because it was decided without the levels above.
    pub(crate) fn degrade_event(&mut self, index: usize) {
        self.degraded_events.push(index as u32);
    }

    /// Notes that not all positions of an event are asked. If the event is new, it is called a duplicate with
    /// probability `rate`.
    pub(crate) fn ask_partly(&mut self, rate: f64) {
        self.degrade();
        self.partial_events += 1;
        self.partial_rates += rate;
    }

    /// Returns the expected rate of false positives for a batch, which is the probability that a new event is called a
    /// duplicate by mistake. The rate is the mean of the probabilities of the individual events. If all positions of an
    /// event were tested, its probability is `rate`. If some positions could not be tested, its probability is greater.
    ///
    /// Returns `None` if all positions of all events were tested, because the mean is then equal to `rate`.
    pub(crate) fn expected_rate(&self, rate: f64) -> Option<f64> {
        let events = self.flights.len() as f64;
        let whole_events = (events - f64::from(self.partial_events)).max(0.0);
        (self.partial_events > 0).then(|| (self.partial_rates + whole_events * rate) / events)
    }

    /// Returns whether an event of the batch is in flight.
    pub(crate) fn is_open(&self) -> bool {
        self.flights.iter().any(|flight| !matches!(flight.phase(), Phase::Over | Phase::Abandoned))
    }

    /// Notes that nodes are asked about a claimed event at `now_ms`.
    pub(crate) fn asked(&mut self, index: usize, now_ms: MonotonicMs) {
        self.asked_ms.resize(self.flights.len(), now_ms);
        self.asked_ms[index] = now_ms;
    }

    /// Returns the time at which nodes were asked about an event.
    pub(crate) fn asked_ms(&self, index: usize) -> Option<MonotonicMs> {
        self.asked_ms.get(index).copied()
    }

    /// Adds to the reply who holds an event.
    pub(crate) fn hold(&mut self, index: usize, hold: Hold) {
        self.holds.resize(self.flights.len(), Hold::None);
        self.holds[index] = hold;
    }

    /// Sets the verdict of an event, unless the event already has one. An existing verdict stays unchanged, and the
    /// result is then `None`. If the verdict was set, the result states where a filter tree has found the event. The
    /// callback `seen` provides this information.
    pub(crate) fn decide(
        &mut self,
        index: usize,
        outcome: Decision,
        seen: impl FnOnce(&InFlightEvent) -> Option<Seen>,
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

    /// Abandons an event that has no verdict. Its caller gets the verdict undecided with this reason.
    pub(crate) fn abandon(&mut self, index: usize, reason: Reason) {
        if self.flights[index].abandon() {
            self.note_decision(index, Decision::Undecided(reason));
        }
    }

    fn note_decision(&mut self, index: usize, outcome: Decision) {
        debug_assert!(self.pending > 0, "all events have their verdicts");
        self.decisions[index] = outcome;
        self.pending = self.pending.saturating_sub(1);
    }

    /// Ends an event. Returns whether all events of the batch have verdicts.
    pub(super) fn end(&mut self, index: usize) -> bool {
        self.flights[index].end();
        self.open = self.open.saturating_sub(1);
        !self.is_pending()
    }
}
