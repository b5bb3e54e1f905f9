//! Events in flight: those that are tested, whose cells are being set, or that wait for another of the same positions.
//!
//! Promises: of the events of the same positions one is in flight and the others wait for it, in order; nothing is
//! allocated for an event. Must not know: cells, nodes, replies.
//!
//! A [`Ticket`] names an event: the number of its batch, and its index there. Numbers are not used again, so a late answer
//! for an event that is over finds no flight ([`Flights::unless_over`]). All other tickets are of events that are there:
//! where one is not (the ticket has gone *astray*), the program is wrong. Tests end there, and a node counts that.

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
pub(crate) use flight::{Flight, Queue};
pub(crate) use phase::Phase;
pub(crate) use ticket::{BATCH_EVENTS_MAX, Ticket};

const SLOTS_MIN: usize = 64;
/// Batches whose memory is kept.
const SPARES_MAX: usize = 16;

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
        is_degraded: bool,
    ) -> Ticket {
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
        let batch = Batch::new(header, probes, above, flights, is_degraded);
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

    /// The event of a ticket that may come back late. `None` if its batch is over by now.
    pub(crate) fn event_if_open(&self, ticket: Ticket) -> Option<Event<'_>> {
        Event::of(self.unless_over(ticket)?, ticket)
    }

    /// The batch of a ticket that may come back late, and the event's index there. `None` if the batch is over by now.
    pub(crate) fn event_unless_over(&mut self, ticket: Ticket) -> Option<(&mut Batch, usize)> {
        let slot = self.slot(ticket);
        let index = ticket.index();
        let (first, batch) = self.slots.get_mut(slot)?.as_mut()?;
        (first.is_of_batch_of(ticket) && index < batch.flights().len()).then_some((batch, index))
    }

    pub(crate) fn batch(&self, ticket: Ticket) -> Option<&Batch> {
        self.unless_over(ticket).or_else(|| go_astray(&self.astray, ticket))
    }

    pub(crate) fn batch_mut(&mut self, ticket: Ticket) -> Option<&mut Batch> {
        let slot = self.slot(ticket);
        let found = self.slots.get_mut(slot).and_then(Option::as_mut).filter(|(first, _)| first.is_of_batch_of(ticket));
        found.map(|(_, batch)| batch).or_else(|| go_astray(&self.astray, ticket))
    }

    /// An event with its batch, to be read.
    #[inline]
    pub(crate) fn event(&self, ticket: Ticket) -> Option<Event<'_>> {
        Event::of(self.batch(ticket)?, ticket)
    }

    /// The batch of an event, and the event's index there.
    pub(crate) fn event_mut(&mut self, ticket: Ticket) -> Option<(&mut Batch, usize)> {
        let index = ticket.index();
        self.batch_mut(ticket).filter(|batch| index < batch.flights().len()).map(|batch| (batch, index))
    }

    pub(crate) fn flight(&self, ticket: Ticket) -> Option<&Flight> {
        self.batch(ticket)?.flights().get(ticket.index())
    }

    pub(crate) fn flight_mut(&mut self, ticket: Ticket) -> Option<&mut Flight> {
        self.event_mut(ticket).map(|(batch, index)| batch.flight_mut(index))
    }

    pub(crate) fn positions(&self, ticket: Ticket) -> &[u64] {
        self.batch(ticket).map_or(&[], |batch| batch.positions(ticket.index()))
    }

    /// The positions by which an event is told from others: in a tree those of the root, which other events seldom share.
    pub(crate) fn identity(&self, ticket: Ticket) -> &[u64] {
        self.batch(ticket).map_or(&[], |batch| batch.identity(ticket.index()))
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

    /// Lets an event wait for another of the same positions.
    pub(crate) fn join(&mut self, leader: Ticket, ticket: Ticket) {
        let last = self.flight_mut(leader).map(|leader| leader.join(ticket));
        self.thread(last, ticket);
    }

    /// Lets a retry wait for the event that it repeats.
    pub(crate) fn echo(&mut self, original: Ticket, ticket: Ticket) {
        let last = self.flight_mut(original).map(|original| original.echo(ticket));
        self.thread(last, ticket);
    }

    /// An event has joined a queue, behind the one that was its last.
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

    /// Takes the first event of a queue that was taken out of its owner.
    pub(crate) fn dequeue(&self, queue: &mut Queue) -> Option<Ticket> {
        let first = queue.first()?;
        queue.shift(self.flight(first)?.next);
        Some(first)
    }

    /// An event is over; its batch goes when all are and it has its reply. Returns whether all have their verdicts.
    pub(crate) fn end(&mut self, ticket: Ticket) -> bool {
        let Some((batch, index)) = self.event_mut(ticket) else { return false };
        let are_decided = batch.end(index);
        self.open_events = self.open_events.saturating_sub(1);
        are_decided
    }

    /// Drops the batch of this event if nothing of it is in flight and it has its reply.
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

    /// Whether all events are over that came before `ticket`.
    pub(crate) fn have_ended_before(&self, ticket: Ticket) -> bool {
        let mut before = self.batches().into_iter().take_while(|first| *first < ticket);
        !before.any(|first| self.batch(first).is_some_and(Batch::is_open))
    }

    /// All events of the batches that are there, oldest first.
    fn all(&self) -> impl Iterator<Item = (Ticket, &Flight)> {
        let batches = self.batches().into_iter().filter_map(|first| Some((first, self.batch(first)?)));
        batches.flat_map(|(first, batch)| first.events(batch.flights().len()).zip(batch.flights()))
    }

    /// Events in phases that `is_one` picks, oldest first.
    pub(crate) fn in_phases(&self, is_one: impl Fn(Phase) -> bool) -> Vec<Ticket> {
        self.all().filter(|(_, flight)| is_one(flight.phase())).map(|(ticket, _)| ticket).collect()
    }

    /// Events that nodes are asked about and that `is_one` picks, oldest first.
    pub(crate) fn tested(&self, is_one: impl Fn(Event<'_>) -> bool) -> Vec<Ticket> {
        let testing = self.in_phases(|phase| phase == Phase::Testing).into_iter();
        testing.filter(|ticket| self.event(*ticket).is_some_and(&is_one)).collect()
    }

    /// The first deadline of a batch that has no reply.
    pub(crate) fn next_deadline_ms(&self) -> Option<MonotonicMs> {
        let waiting = self.slots.iter().flatten().filter(|(_, batch)| !batch.is_replied());
        waiting.map(|(_, batch)| batch.header().deadline_ms).min()
    }

    /// Events that are not over.
    pub(crate) fn open_events(&self) -> usize {
        self.open_events
    }
}
