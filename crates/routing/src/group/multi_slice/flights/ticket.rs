//! Identifier of an event in flight. A ticket is never zero, so an optional ticket takes no more bytes than a number.

use std::num::NonZeroU64;

/// Number of bits of a ticket for the event's index. The bits above them contain the number of its batch.
const INDEX_BITS: u32 = 16;

/// Offset between a ticket and the number that stands for it in messages, so that no ticket is 0.
const FIRST: u64 = 1 << INDEX_BITS;

/// Maximum number of events in a batch.
pub(crate) const BATCH_EVENTS_MAX: usize = 1 << INDEX_BITS;

/// Identifies an event in flight by the number of its batch and its index in the batch. Tickets are ordered by the
/// arrival of their events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(NonZeroU64);

impl Ticket {
    /// Returns the first ticket of the batch with this number.
    pub(crate) fn first_of(number: u64) -> Self {
        Self::received(number << INDEX_BITS)
    }

    /// Returns the ticket for a number in a message. If no batch can have this number, the ticket belongs to no event.
    pub(crate) fn received(number: u64) -> Self {
        Self(NonZeroU64::new(number.wrapping_add(FIRST)).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns the number that stands for this ticket in messages.
    pub(crate) fn sent(self) -> u64 {
        self.0.get().wrapping_sub(FIRST)
    }

    /// Returns the slot of the batch among `slots` slots, which must be a power of two.
    pub(super) fn slot(self, slots: usize) -> usize {
        (self.0.get() >> INDEX_BITS) as usize & slots.wrapping_sub(1)
    }

    /// Returns the event's index in its batch.
    pub(crate) fn index(self) -> usize {
        (self.0.get() & (FIRST - 1)) as usize
    }

    /// Returns whether two events belong to the same batch.
    pub(crate) fn is_of_batch_of(self, other: Self) -> bool {
        (self.0.get() ^ other.0.get()) < FIRST
    }

    /// Returns the ticket of another event of the batch. This ticket must be the batch's first.
    pub(crate) fn event(self, index: usize) -> Self {
        debug_assert!(self.index() == 0 && index < BATCH_EVENTS_MAX, "event {index} from {self:?} on");
        Self(self.0 | index as u64)
    }

    /// Returns the tickets of the first `events` events of the batch. This ticket must be the batch's first.
    pub(crate) fn events(self, events: usize) -> impl Iterator<Item = Self> {
        (0..events).map(move |index| self.event(index))
    }

    /// Returns the first ticket of the next batch. This ticket must be the first of its batch.
    pub(super) fn next_batch(self) -> Self {
        Self(self.0.saturating_add(FIRST))
    }
}

impl Default for Ticket {
    fn default() -> Self {
        Self::first_of(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_that_may_be_missing_is_no_longer_than_a_number() {
        assert_eq!(size_of::<Option<Ticket>>(), size_of::<u64>());
    }

    #[test]
    fn messages_have_the_number_of_the_batch_above_the_index() {
        for number in [0, 1, 7, 255 << 40, (1 << 48) - 2] {
            let first = Ticket::first_of(number);
            assert_eq!(first.sent(), number << 16);
            assert_eq!(first.event(0xFFFF).sent(), number << 16 | 0xFFFF);
            assert_eq!(Ticket::received(number << 16 | 3), first.event(3));
            assert_eq!(first.event(3).index(), 3);
        }
    }

    #[test]
    fn a_number_that_no_batch_can_have_is_no_event() {
        let last = Ticket::received(u64::MAX);
        assert!(last < Ticket::default() && last.sent() == u64::MAX);
        assert!(Ticket::received(u64::MAX << 16) < Ticket::default());
    }

    #[test]
    fn events_of_a_batch_stand_together_before_those_of_the_next() {
        let first = Ticket::first_of(4);
        let tickets: Vec<Ticket> = first.events(BATCH_EVENTS_MAX).chain([first.next_batch()]).collect();
        assert!(tickets.is_sorted_by(|one, other| one < other));
        assert!(tickets[..BATCH_EVENTS_MAX].iter().all(|ticket| ticket.is_of_batch_of(tickets[9])));
        assert!(!first.next_batch().is_of_batch_of(first.event(0xFFFF)));
        assert_eq!(first.next_batch(), Ticket::first_of(5));
    }

    #[test]
    fn batches_that_follow_each_other_have_slots_of_their_own() {
        let slots: std::collections::BTreeSet<usize> =
            (0..64).map(|number| Ticket::first_of(number).slot(64)).collect();
        assert_eq!(slots.len(), 64);
        assert_eq!(Ticket::first_of(3).slot(64), Ticket::first_of(67).event(5).slot(64));
    }
}
