//! The name of an event in flight.
//!
//! Promises: no ticket is zero, so one that may be missing takes as many bytes as a number. Must not know: what is in
//! flight.

use std::num::NonZeroU64;

/// Bits of a ticket for the event's index; those above are for the number of its batch.
const INDEX_BITS: u32 = 16;

/// By so much a ticket is above the number that messages have for it, so that no ticket is 0.
const FIRST: u64 = 1 << INDEX_BITS;

/// Events that a batch can have.
pub(crate) const BATCH_EVENTS_MAX: usize = 1 << INDEX_BITS;

/// An event in flight: the number of its batch, and its index there. Tickets are in the order in which events came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(NonZeroU64);

impl Ticket {
    /// The first ticket of the batch of this number.
    pub(crate) fn first_of(number: u64) -> Self {
        Self::received(number << INDEX_BITS)
    }

    /// The ticket that a message has this number for. Where no batch can have it, no event does.
    pub(crate) fn received(number: u64) -> Self {
        Self(NonZeroU64::new(number.wrapping_add(FIRST)).unwrap_or(NonZeroU64::MIN))
    }

    /// The number that messages have for this ticket.
    pub(crate) fn sent(self) -> u64 {
        self.0.get().wrapping_sub(FIRST)
    }

    /// The place of the batch among as many as a power of two.
    pub(super) fn slot(self, slots: usize) -> usize {
        (self.0.get() >> INDEX_BITS) as usize & slots.wrapping_sub(1)
    }

    /// The event's index in its batch.
    pub(crate) fn index(self) -> usize {
        (self.0.get() & (FIRST - 1)) as usize
    }

    /// Whether two events came together.
    pub(crate) fn is_of_batch_of(self, other: Self) -> bool {
        (self.0.get() ^ other.0.get()) < FIRST
    }

    /// The ticket of another event of the batch that this is the first ticket of.
    pub(crate) fn event(self, index: usize) -> Self {
        debug_assert!(self.index() == 0 && index < BATCH_EVENTS_MAX, "event {index} from {self:?} on");
        Self(self.0 | index as u64)
    }

    /// The tickets of so many events of the batch that this is the first ticket of.
    pub(crate) fn events(self, events: usize) -> impl Iterator<Item = Self> {
        (0..events).map(move |index| self.event(index))
    }

    /// The first ticket of the next batch, from the first one of this batch.
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
