//! Events in flight, which are the events that this node has accepted and not finished. An event is in flight while its
//! cells are tested or set, or while it waits for another event with the same positions.
//!
//! Of several events with the same positions, one is processed and the others wait for it in order. Nothing is
//! allocated per event.
//!
//! A [`Ticket`] identifies an event in flight by the number of its batch and its index in the batch. Batch numbers are
//! never reused, so a ticket never refers to a different event. A late message may contain the ticket of an event that
//! has ended, in which case [`InFlightEvents::unless_over`] finds no event.
//!
//! All other uses of a ticket require that its event exists. If the event does not exist, the ticket is called
//! *astray*, and the program has a bug. In tests, the process then panics. In production, the node counts the astray
//! ticket and continues.

mod batch;
mod event;
mod flight;
mod phase;
mod ticket;

use std::cell::Cell;

use firstseen_filter::Probes;
use hashbrown::HashTable;

use crate::protocol::MonotonicMs;
pub(crate) use batch::{Batch, BatchHeader};
pub(crate) use event::Event;
pub(crate) use flight::{InFlightEvent, Queue};
pub(crate) use phase::Phase;
pub(crate) use ticket::{BATCH_EVENTS_MAX, Ticket};

const SLOTS_MIN: usize = 64;
/// Maximum number of finished batches whose memory is kept for reuse.
const SPARES_MAX: usize = 16;

/// All batches with events in flight, and an index of the events by their positions.
#[derive(Default)]
pub(crate) struct InFlightEvents {
    /// Batches with their first tickets. The slot of a batch is its number modulo the number of slots, which is a power
    /// of two.
    slots: Vec<Option<(Ticket, Batch)>>,
    batches: usize,
    /// The first ticket of the next batch.
    first_free: Ticket,
    /// Tickets of events that other events with the same positions wait for.
    leaders: HashTable<Ticket>,
    open_events: usize,
    spares: Vec<(Probes, Vec<InFlightEvent>)>,
    /// How often a batch was expected to exist and did not.
    astray: Cell<u64>,
}

/// Counts that a batch was expected to exist and did not, which is a bug.
#[cold]
fn count_missing<T>(astray: &Cell<u64>, ticket: Ticket) -> Option<T> {
    debug_assert!(false, "there is no batch of ticket {:#x}", ticket.sent());
    astray.set(astray.get() + 1);
    None
}

/// Positions are already uniformly distributed. The hash only has to depend on their order and use all of their bits.
fn hash(positions: &[u64]) -> u64 {
    positions.iter().fold(0x9E37_79B9_7F4A_7C15, |hash: u64, position| {
        let product = u128::from(hash ^ position) * 0xD6E8_FEB8_6659_FD93_u128;
        (product as u64 ^ (product >> 64) as u64).wrapping_add(*position)
    })
}

impl InFlightEvents {
    /// Returns whether there has been any batch.
    pub(crate) fn has_begun(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Numbers batches from `first_number` on. These numbers differ from those of earlier processes of this group's
    /// owner.
    pub(crate) fn number_from(&mut self, first_number: u64) {
        self.first_free = Ticket::first_of(first_number);
    }

    /// Drops all batches, because no caller waits for them any more.
    pub(crate) fn clear(&mut self) {
        *self = Self { astray: self.astray.take().into(), ..Self::default() };
    }

    /// Returns how often a batch was expected to exist and did not.
    pub(crate) fn astray(&self) -> u64 {
        self.astray.get()
    }

    /// Adds a batch and returns the ticket of its first event. The tickets of the other events follow. None of the
    /// events may be in flight yet.
    pub(crate) fn push(&mut self, header: BatchHeader, probes: Probes, above: Option<Probes>) -> Ticket {
        if self.batches * 2 >= self.slots.len() {
            self.grow();
        }
        while self.slots[self.slot(self.first_free)].is_some() {
            self.first_free = self.first_free.next_batch();
        }
        let first = self.first_free;
        self.first_free = first.next_batch();
        let flights = self.spares.pop().map(|(_, flights)| flights).unwrap_or_default();
        self.open_events += probes.len();
        let batch = Batch::new(header, probes, above, flights);
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

    /// Returns the batch of a ticket that may arrive late, or `None` if the batch has ended.
    pub(crate) fn unless_over(&self, ticket: Ticket) -> Option<&Batch> {
        let (first, batch) = self.slots.get(self.slot(ticket))?.as_ref()?;
        first.is_of_batch_of(ticket).then_some(batch)
    }

    /// Returns the event of a ticket that may arrive late, or `None` if its batch has ended.
    pub(crate) fn event_if_open(&self, ticket: Ticket) -> Option<Event<'_>> {
        Event::of(self.unless_over(ticket)?, ticket)
    }

    /// Returns the batch of a ticket that may arrive late and the event's index in it, or `None` if the batch has
    /// ended.
    pub(crate) fn event_unless_over(&mut self, ticket: Ticket) -> Option<(&mut Batch, usize)> {
        let slot = self.slot(ticket);
        let index = ticket.index();
        let (first, batch) = self.slots.get_mut(slot)?.as_mut()?;
        (first.is_of_batch_of(ticket) && index < batch.flights().len()).then_some((batch, index))
    }

    pub(crate) fn batch(&self, ticket: Ticket) -> Option<&Batch> {
        self.unless_over(ticket).or_else(|| count_missing(&self.astray, ticket))
    }

    pub(crate) fn batch_mut(&mut self, ticket: Ticket) -> Option<&mut Batch> {
        let slot = self.slot(ticket);
        let found = self.slots.get_mut(slot).and_then(Option::as_mut).filter(|(first, _)| first.is_of_batch_of(ticket));
        found.map(|(_, batch)| batch).or_else(|| count_missing(&self.astray, ticket))
    }

    /// Returns an event together with its batch, for reading.
    #[inline]
    pub(crate) fn event(&self, ticket: Ticket) -> Option<Event<'_>> {
        Event::of(self.batch(ticket)?, ticket)
    }

    /// Returns the batch of an event and the event's index in it, for writing.
    pub(crate) fn event_mut(&mut self, ticket: Ticket) -> Option<(&mut Batch, usize)> {
        let index = ticket.index();
        self.batch_mut(ticket).filter(|batch| index < batch.flights().len()).map(|batch| (batch, index))
    }

    pub(crate) fn flight(&self, ticket: Ticket) -> Option<&InFlightEvent> {
        self.batch(ticket)?.flights().get(ticket.index())
    }

    pub(crate) fn flight_mut(&mut self, ticket: Ticket) -> Option<&mut InFlightEvent> {
        self.event_mut(ticket).map(|(batch, index)| batch.flight_mut(index))
    }

    pub(crate) fn positions(&self, ticket: Ticket) -> &[u64] {
        self.batch(ticket).map_or(&[], |batch| batch.positions(ticket.index()))
    }

    /// Returns the positions that identify an event. Two events with the same positions cannot be distinguished. In a
    /// filter tree, the positions of the root level are used, because different events rarely share all of them.
    pub(crate) fn identity(&self, ticket: Ticket) -> &[u64] {
        self.batch(ticket).map_or(&[], |batch| batch.identity(ticket.index()))
    }

    /// Returns the event in flight that has the same positions and leads the others.
    pub(crate) fn leader_of(&self, ticket: Ticket) -> Option<Ticket> {
        let positions = self.identity(ticket);
        self.leaders.find(hash(positions), |leader| self.identity(*leader) == positions).copied()
    }

    /// Makes this event a leader, so that other events with the same positions wait for it.
    pub(crate) fn lead(&mut self, ticket: Ticket) {
        let mut leaders = std::mem::take(&mut self.leaders);
        leaders.insert_unique(hash(self.identity(ticket)), ticket, |leader| hash(self.identity(*leader)));
        self.leaders = leaders;
    }

    /// Ends the leadership of this event, so that no further event waits for it.
    pub(crate) fn unlead(&mut self, ticket: Ticket) {
        let hash = hash(self.identity(ticket));
        if let Ok(leader) = self.leaders.find_entry(hash, |leader| *leader == ticket) {
            leader.remove();
        }
    }

    /// Lets an event wait for the leader of the same positions.
    pub(crate) fn join(&mut self, leader: Ticket, ticket: Ticket) {
        let last = self.flight_mut(leader).map(|leader| leader.join(ticket));
        self.thread(last, ticket);
    }

    /// Lets a retry wait for the event that it repeats.
    pub(crate) fn echo(&mut self, original: Ticket, ticket: Ticket) {
        let last = self.flight_mut(original).map(|original| original.echo(ticket));
        self.thread(last, ticket);
    }

    /// Links an event behind the last event of a queue.
    fn thread(&mut self, last: Option<Option<Ticket>>, ticket: Ticket) {
        let Some(last) = last else { return };
        if let Some(last) = last
            && let Some(last) = self.flight_mut(last)
        {
            last.next = Some(ticket);
        }
        if let Some(flight) = self.flight_mut(ticket) {
            flight.next = None;
        }
    }

    /// Removes and returns the first event of a queue that was taken from its owner.
    pub(crate) fn dequeue(&self, queue: &mut Queue) -> Option<Ticket> {
        let first = queue.first()?;
        queue.shift(self.flight(first)?.next);
        Some(first)
    }

    /// Ends an event, so that it is no longer in flight. Returns whether all events of its batch have verdicts now. The
    /// batch itself is dropped by [`Self::retire`], once all of its events have ended and its reply was sent.
    pub(crate) fn end(&mut self, ticket: Ticket) -> bool {
        let Some((batch, index)) = self.event_mut(ticket) else { return false };
        let are_decided = batch.end(index);
        self.open_events = self.open_events.saturating_sub(1);
        are_decided
    }

    /// Drops the batch of this event if none of its events is in flight and it has its reply.
    pub(crate) fn retire(&mut self, ticket: Ticket) {
        if self.batch(ticket).is_some_and(Batch::is_over) {
            let slot = self.slot(ticket);
            if let Some((_, batch)) = self.slots[slot].take() {
                self.batches -= 1;
                if self.spares.len() < SPARES_MAX {
                    self.spares.push(batch.into_memory());
                }
            }
        }
    }

    /// Returns memory for a producer's next batch, if some is available.
    pub(crate) fn spare_probes(&mut self) -> Option<Probes> {
        self.spares.pop().map(|(probes, _)| probes)
    }

    /// Returns the first ticket that is not used yet.
    pub(crate) fn first_free(&self) -> Ticket {
        self.first_free
    }

    /// Returns the first tickets of all batches, oldest first.
    pub(crate) fn batches(&self) -> Vec<Ticket> {
        let mut first_tickets: Vec<Ticket> = self.slots.iter().flatten().map(|(first, _)| *first).collect();
        first_tickets.sort_unstable();
        first_tickets
    }

    /// Returns whether all events before `ticket` have ended.
    pub(crate) fn have_ended_before(&self, ticket: Ticket) -> bool {
        let mut before = self.batches().into_iter().take_while(|first| *first < ticket);
        !before.any(|first| self.batch(first).is_some_and(Batch::is_open))
    }

    /// Returns all events of the current batches, oldest first.
    fn all(&self) -> impl Iterator<Item = (Ticket, &InFlightEvent)> {
        let batches = self.batches().into_iter().filter_map(|first| Some((first, self.batch(first)?)));
        batches.flat_map(|(first, batch)| first.events(batch.flights().len()).zip(batch.flights()))
    }

    /// Returns the events in the phases that `is_one` selects, oldest first.
    pub(crate) fn in_phases(&self, is_one: impl Fn(Phase) -> bool) -> Vec<Ticket> {
        self.all().filter(|(_, flight)| is_one(flight.phase())).map(|(ticket, _)| ticket).collect()
    }

    /// Returns the events under test that `is_one` selects, oldest first.
    pub(crate) fn tested(&self, is_one: impl Fn(Event<'_>) -> bool) -> Vec<Ticket> {
        let testing = self.in_phases(|phase| phase == Phase::Testing).into_iter();
        testing.filter(|ticket| self.event(*ticket).is_some_and(&is_one)).collect()
    }

    /// Returns the earliest deadline of a batch that has no reply yet.
    pub(crate) fn next_deadline_ms(&self) -> Option<MonotonicMs> {
        let waiting = self.slots.iter().flatten().filter(|(_, batch)| !batch.is_replied());
        waiting.map(|(_, batch)| batch.header().deadline_ms).min()
    }

    /// Returns the number of events that have not ended.
    pub(crate) fn open_events(&self) -> usize {
        self.open_events
    }
}
