//! Events in flight: those that are tested, whose cells are being set, or that wait for another of the same positions.
//!
//! Promises: of the events of the same positions one is in flight and the others wait for it, in order; nothing is
//! allocated for an event. Must not know: cells, nodes, replies.
//!
//! A [`Ticket`] names an event: the number of its batch, and its index there. Numbers are not used again, so a late answer
//! for an event that is over finds no flight ([`Flights::unless_over`]). All other tickets are of events that are there:
//! where one is not (the ticket has gone *astray*), the program is wrong. Tests end there, and a node counts that.

mod phase;
mod ticket;

use std::cell::Cell;
use std::sync::Arc;

use firstseen_filter::{Probes, Refresh, Stamp, UnitNumber, WindowRule};
use hashbrown::HashTable;

use crate::protocol::{Fence, FromLevel, Hold, MonotonicMs, NamedEvent, Operation};
use crate::verdict::{Decision, Reason, Seen};
pub(crate) use phase::Phase;
pub(crate) use ticket::{BATCH_EVENTS_MAX, Ticket};

const SLOTS_MIN: usize = 64;
/// Batches whose memory is kept.
const SPARES_MAX: usize = 16;

/// One event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    phase: Phase,
    pub(crate) stamp: Stamp,
    /// Generations still possible.
    pub(crate) generations: u16,
    /// The least expiry that the event was found with, or that its cells get; in trees only.
    pub(crate) expiry: UnitNumber,
    /// The level of the tree at which the event was found.
    pub(crate) level: u8,
    /// A level below knows the event too, or cannot say.
    pub(crate) is_confirmed: bool,
    /// Answers or acknowledgements that are missing.
    pub(crate) waiting: u16,
    /// The verdict, which counts once `is_decided` is true.
    pub(crate) outcome: Decision,
    pub(crate) is_decided: bool,
    /// Another node may have headed the event since this one found it new, or has before.
    pub(crate) is_overtaken: bool,
    /// An earlier submission of the same name has got this verdict.
    pub(crate) is_repeat: bool,
    /// Events that wait for this one, oldest first.
    pub(crate) joiners: Queue,
    /// Retries of this event.
    pub(crate) echoes: Queue,
    /// The next in the queue that this event waits in.
    next: Option<Ticket>,
}

impl Flight {
    /// Whether an event of the same positions with this stamp is certainly a duplicate, now that this one is decided,
    /// and leaves nothing more to be set.
    pub(crate) fn covers(&self, stamp: Stamp, rule: &WindowRule, refresh: Refresh) -> bool {
        let is_found = match self.outcome {
            Decision::FirstSeen => stamp.judged < rule.expiry(self.stamp.unit),
            Decision::Duplicate => stamp.judged <= self.stamp.judged,
            Decision::Undecided(_) => false,
        };
        is_found && (refresh == Refresh::Fixed || stamp.unit <= self.stamp.unit)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Begins another phase.
    pub(crate) fn enter(&mut self, next: Phase) {
        debug_assert!(self.phase.leads_to(next), "{:?} does not lead to {next:?}", self.phase);
        self.phase = next;
    }

    /// Whether cells are being set for an event that may be recorded nowhere in the end.
    pub(crate) fn may_come_to_nothing(&self) -> bool {
        self.phase == Phase::Setting && (!self.is_decided || matches!(self.outcome, Decision::Undecided(_)))
    }

    /// Where the event was found, in a window of so many units.
    pub(crate) fn seen(&self, span_units: u64) -> Seen {
        let unit = (self.expiry != UnitNumber::NEVER).then(|| self.expiry.before(span_units));
        Seen { unit, level: self.level }
    }
}

/// A list of events that is threaded through them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    first: Option<Ticket>,
    last: Option<Ticket>,
    pub(crate) len: u32,
}

impl Queue {
    pub(crate) const EMPTY: Self = Self { first: None, last: None, len: 0 };
}

impl Flight {
    pub(crate) const IDLE: Self = Self {
        phase: Phase::Over,
        stamp: Stamp::on_time(UnitNumber::FIRST),
        generations: u16::MAX,
        expiry: UnitNumber::NEVER,
        level: 0,
        is_confirmed: false,
        waiting: 0,
        outcome: Decision::Undecided(Reason::Unknown),
        is_decided: false,
        is_overtaken: false,
        is_repeat: false,
        joiners: Queue::EMPTY,
        echoes: Queue::EMPTY,
        next: None,
    };
}

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
    /// Events are recorded, not only looked up.
    pub(crate) fn records(&self) -> bool {
        self.operation.records()
    }

    /// Others of the same positions wait for such an event.
    pub(crate) fn leads(&self) -> bool {
        self.operation.leads()
    }

    /// The events are to be held.
    pub(crate) fn is_claim(&self) -> bool {
        matches!(self.operation, Operation::Claim { .. })
    }

    /// The events are brought up: a level below has replied to them already, without this one.
    pub(crate) fn is_brought_up(&self) -> bool {
        self.operation == Operation::BringUp
    }

    /// The events may have been recorded under the batch's name before.
    pub(crate) fn may_be_again(&self) -> bool {
        self.operation == Operation::Observe && (self.again || !self.names.is_empty())
    }
}

/// A submission whose events are in flight.
pub(crate) struct Batch {
    pub(crate) header: BatchHeader,
    pub(crate) probes: Probes,
    /// Positions of the tree's root, where they are others.
    above: Option<Probes>,
    pub(crate) flights: Vec<Flight>,
    /// The verdicts, which leave with the reply.
    pub(crate) decisions: Vec<Decision>,
    /// Where events were found, in trees; these leave with the reply too.
    pub(crate) seen: Vec<Seen>,
    /// Who holds the events, where they are claimed; these leave with the reply too.
    pub(crate) holds: Vec<Hold>,
    /// When nodes were asked about the events, where these are claimed.
    pub(crate) asked_ms: Vec<MonotonicMs>,
    /// Events without a verdict so far.
    pub(crate) pending: usize,
    /// Events that are not over.
    pub(crate) open: usize,
    pub(crate) replied: bool,
    /// Some of its events had a reply before.
    pub(crate) has_repeats: bool,
    /// Early duplicates were sent, ahead of the reply.
    pub(crate) has_sent_early: bool,
    /// The guard has learnt all decisions.
    pub(crate) is_learnt: bool,
    pub(crate) degraded: bool,
    /// Events of which not all positions were asked, and the sum of the chances that a new one is called a duplicate.
    partial_events: u32,
    partial_rates: f64,
}

impl Batch {
    /// Not all positions of an event are asked; a new event is called a duplicate by this chance.
    pub(crate) fn degrade(&mut self, rate: f64) {
        self.degraded = true;
        self.partial_events += 1;
        self.partial_rates += rate;
    }

    /// The mean chance that a new event of the batch is called a duplicate, where the chance is `rate` for events of
    /// which all positions were asked; none where that is all events.
    pub(crate) fn expected_rate(&self, rate: impl FnOnce() -> f64) -> Option<f64> {
        let events = self.flights.len() as f64;
        let partial_events = f64::from(self.partial_events);
        (self.partial_events > 0).then(|| (self.partial_rates + (events - partial_events).max(0.0) * rate()) / events)
    }

    /// Whether an event of the batch is in flight.
    pub(crate) fn is_open(&self) -> bool {
        self.flights.iter().any(|flight| !matches!(flight.phase, Phase::Over | Phase::Abandoned))
    }

    /// Takes down the verdict on an event.
    pub(crate) fn note_decision(&mut self, index: usize, outcome: Decision, seen: Option<Seen>) {
        self.decisions[index] = outcome;
        self.pending = self.pending.saturating_sub(1);
        if let Some(seen) = seen {
            self.seen.resize(self.decisions.len(), Seen::default());
            self.seen[index] = seen;
        }
    }
}

/// All batches with events in flight, and the events by their positions.
#[derive(Default)]
pub(crate) struct Flights {
    /// With their first tickets; by number, modulo the count of slots, which is a power of two.
    slots: Vec<Option<(Ticket, Batch)>>,
    batches: usize,
    /// The first ticket of the next batch.
    first_free: Ticket,
    /// Tickets of events that others of the same positions wait for.
    leaders: HashTable<Ticket>,
    open_events: usize,
    spares: Vec<(Probes, Vec<Flight>)>,
    /// How often a batch had to be there and was not.
    astray: Cell<u64>,
}

/// A batch has to be there, and is not.
#[cold]
fn go_astray<T>(astray: &Cell<u64>, ticket: Ticket) -> Option<T> {
    debug_assert!(false, "there is no batch of ticket {:#x}", ticket.sent());
    astray.set(astray.get() + 1);
    None
}

/// Positions are uniform already; what matters is that their order counts and all bits reach the table.
fn hash(positions: &[u64]) -> u64 {
    positions.iter().fold(0x9E37_79B9_7F4A_7C15, |hash: u64, position| {
        let product = u128::from(hash ^ position) * 0xD6E8_FEB8_6659_FD93_u128;
        (product as u64 ^ (product >> 64) as u64).wrapping_add(*position)
    })
}

impl Flights {
    /// Whether there has been a batch.
    pub(crate) fn has_begun(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Numbers start here, apart from those that this group's owner has given in another process.
    pub(crate) fn number_from(&mut self, first_number: u64) {
        self.first_free = Ticket::first_of(first_number);
    }

    /// No caller waits for any of the batches.
    pub(crate) fn clear(&mut self) {
        *self = Self { astray: self.astray.take().into(), ..Self::default() };
    }

    /// How often a batch had to be there and was not.
    pub(crate) fn astray(&self) -> u64 {
        self.astray.get()
    }

    /// Takes a batch, none of whose events is in flight yet, and gives the ticket of its first event; the others follow.
    pub(crate) fn push(
        &mut self,
        header: BatchHeader,
        probes: Probes,
        above: Option<Probes>,
        degraded: bool,
    ) -> Ticket {
        if self.batches * 2 >= self.slots.len() {
            self.grow();
        }
        while self.slots[self.slot(self.first_free)].is_some() {
            self.first_free = self.first_free.next_batch();
        }
        let (first, events) = (self.first_free, probes.len());
        self.first_free = first.next_batch();
        let mut flights = self.spares.pop().map(|(_, flights)| flights).unwrap_or_default();
        flights.clear();
        flights.resize(events, Flight::IDLE);
        let decisions = vec![Decision::Undecided(Reason::Unknown); events];
        let batch = Batch {
            header,
            probes,
            above,
            flights,
            decisions,
            seen: Vec::new(),
            holds: Vec::new(),
            asked_ms: Vec::new(),
            pending: events,
            open: events,
            replied: false,
            has_repeats: false,
            has_sent_early: false,
            is_learnt: false,
            degraded,
            partial_events: 0,
            partial_rates: 0.0,
        };
        self.open_events += events;
        self.batches += 1;
        let slot = self.slot(first);
        self.slots[slot] = Some((first, batch));
        first
    }

    fn slot(&self, ticket: Ticket) -> usize {
        ticket.slot(self.slots.len())
    }

    fn grow(&mut self) {
        let slots = (0..SLOTS_MIN.max(self.slots.len() * 2)).map(|_| None).collect();
        for (first, batch) in std::mem::replace(&mut self.slots, slots).into_iter().flatten() {
            let slot = self.slot(first);
            self.slots[slot] = Some((first, batch));
        }
    }

    /// The batch of a ticket that may come back late: none where it is over by now.
    pub(crate) fn unless_over(&self, ticket: Ticket) -> Option<&Batch> {
        let (first, batch) = self.slots.get(self.slot(ticket))?.as_ref()?;
        first.is_of_batch_of(ticket).then_some(batch)
    }

    /// The same, and the event's index there.
    pub(crate) fn event_unless_over(&mut self, ticket: Ticket) -> Option<(&mut Batch, usize)> {
        let (slot, index) = (self.slot(ticket), ticket.index());
        let (first, batch) = self.slots.get_mut(slot)?.as_mut()?;
        (first.is_of_batch_of(ticket) && index < batch.flights.len()).then_some((batch, index))
    }

    pub(crate) fn batch(&self, ticket: Ticket) -> Option<&Batch> {
        self.unless_over(ticket).or_else(|| go_astray(&self.astray, ticket))
    }

    pub(crate) fn batch_mut(&mut self, ticket: Ticket) -> Option<&mut Batch> {
        let slot = self.slot(ticket);
        let found = self.slots.get_mut(slot).and_then(Option::as_mut).filter(|(first, _)| first.is_of_batch_of(ticket));
        found.map(|(_, batch)| batch).or_else(|| go_astray(&self.astray, ticket))
    }

    /// The batch of an event, and the event's index there.
    pub(crate) fn event_mut(&mut self, ticket: Ticket) -> Option<(&mut Batch, usize)> {
        let index = ticket.index();
        self.batch_mut(ticket).filter(|batch| index < batch.flights.len()).map(|batch| (batch, index))
    }

    pub(crate) fn flight(&self, ticket: Ticket) -> Option<&Flight> {
        self.batch(ticket)?.flights.get(ticket.index())
    }

    pub(crate) fn flight_mut(&mut self, ticket: Ticket) -> Option<&mut Flight> {
        self.batch_mut(ticket)?.flights.get_mut(ticket.index())
    }

    pub(crate) fn positions(&self, ticket: Ticket) -> &[u64] {
        self.batch(ticket).map_or(&[], |batch| batch.probes.positions(ticket.index()))
    }

    /// The positions by which an event is told from others: in a tree those of the root, which other events seldom share.
    pub(crate) fn identity(&self, ticket: Ticket) -> &[u64] {
        let Some(batch) = self.batch(ticket) else { return &[] };
        batch.above.as_ref().unwrap_or(&batch.probes).positions(ticket.index())
    }

    /// The event in flight that has the same positions.
    pub(crate) fn leader_of(&self, ticket: Ticket) -> Option<Ticket> {
        let positions = self.identity(ticket);
        self.leaders.find(hash(positions), |leader| self.identity(*leader) == positions).copied()
    }

    /// Lets others wait for this event.
    pub(crate) fn lead(&mut self, ticket: Ticket) {
        let mut leaders = std::mem::take(&mut self.leaders);
        leaders.insert_unique(hash(self.identity(ticket)), ticket, |leader| hash(self.identity(*leader)));
        self.leaders = leaders;
    }

    /// From now on no event waits for this one, if others did.
    pub(crate) fn unlead(&mut self, ticket: Ticket) {
        let hash = hash(self.identity(ticket));
        if let Ok(leader) = self.leaders.find_entry(hash, |leader| *leader == ticket) {
            leader.remove();
        }
    }

    /// Puts an event at the end of a queue that `queue` picks of `owner`.
    pub(crate) fn enqueue(&mut self, owner: Ticket, ticket: Ticket, queue: impl Fn(&mut Flight) -> &mut Queue) {
        let Some(last) = self.flight_mut(owner).map(|owner| {
            let queue = queue(owner);
            queue.len += 1;
            queue.first = queue.first.or(Some(ticket));
            queue.last.replace(ticket)
        }) else {
            return;
        };
        if let Some(last) = last
            && let Some(last) = self.flight_mut(last)
        {
            last.next = Some(ticket);
        }
        if let Some(flight) = self.flight_mut(ticket) {
            flight.next = None;
        }
    }

    /// Takes the first event of a queue that was taken out of its owner.
    pub(crate) fn dequeue(&self, queue: &mut Queue) -> Option<Ticket> {
        let first = queue.first?;
        queue.first = self.flight(first)?.next;
        queue.len = queue.len.saturating_sub(1);
        if queue.first.is_none() {
            queue.last = None;
        }
        Some(first)
    }

    /// An event is over; its batch goes when all are and it has its reply. Returns whether all have their verdicts.
    pub(crate) fn end(&mut self, ticket: Ticket) -> bool {
        let Some((batch, index)) = self.event_mut(ticket) else { return false };
        batch.flights[index].phase = Phase::Over;
        batch.open = batch.open.saturating_sub(1);
        let are_decided = batch.pending == 0;
        self.open_events = self.open_events.saturating_sub(1);
        are_decided
    }

    /// Drops the batch of this event if nothing of it is in flight and it has its reply.
    pub(crate) fn retire(&mut self, ticket: Ticket) {
        if self.batch(ticket).is_some_and(|batch| batch.open == 0 && batch.replied) {
            let slot = self.slot(ticket);
            if let Some((_, batch)) = self.slots[slot].take() {
                self.batches -= 1;
                if self.spares.len() < SPARES_MAX {
                    self.spares.push((batch.above.unwrap_or(batch.probes), batch.flights));
                }
            }
        }
    }

    /// Memory for a producer's next batch, if some is to spare.
    pub(crate) fn spare_probes(&mut self) -> Option<Probes> {
        self.spares.pop().map(|(probes, _)| probes)
    }

    /// The first ticket that is not given yet.
    pub(crate) fn first_free(&self) -> Ticket {
        self.first_free
    }

    /// First tickets of all batches, oldest first.
    pub(crate) fn batches(&self) -> Vec<Ticket> {
        let mut first_tickets: Vec<Ticket> = self.slots.iter().flatten().map(|(first, _)| *first).collect();
        first_tickets.sort_unstable();
        first_tickets
    }

    /// Events in phases that `is_one` picks, oldest first.
    pub(crate) fn in_phases(&self, is_one: impl Fn(Phase) -> bool) -> Vec<Ticket> {
        let flights = |first: Ticket| self.batch(first).map_or(&[][..], |batch| &batch.flights);
        let events = |first: Ticket| first.events(flights(first).len()).zip(flights(first));
        let picked = |first| events(first).filter(|(_, flight)| is_one(flight.phase)).map(|(ticket, _)| ticket);
        self.batches().into_iter().flat_map(picked).collect()
    }

    /// The first deadline of a batch that has no reply.
    pub(crate) fn next_deadline_ms(&self) -> Option<MonotonicMs> {
        let waiting = self.slots.iter().flatten().filter(|(_, batch)| !batch.replied);
        waiting.map(|(_, batch)| batch.header.deadline_ms).min()
    }

    /// Events that are not over.
    pub(crate) fn open_events(&self) -> usize {
        self.open_events
    }
}
