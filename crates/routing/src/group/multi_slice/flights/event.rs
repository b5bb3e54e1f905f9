//! Read-only view of an event in flight together with its batch.

use firstseen_filter::Stamp;

use super::{Batch, BatchHeader, InFlightEvent, Ticket};
use crate::protocol::{Fence, MonotonicMs, Operation, SubmissionName};

/// An event in flight with its batch.
#[derive(Clone, Copy)]
pub(crate) struct Event<'a> {
    batch: &'a Batch,
    flight: &'a InFlightEvent,
    index: usize,
}

impl<'a> Event<'a> {
    /// Returns the event of `ticket` in this batch, or `None` if the batch has fewer events.
    #[inline]
    pub(super) fn of(batch: &'a Batch, ticket: Ticket) -> Option<Self> {
        let index = ticket.index();
        Some(Self { batch, flight: batch.flights().get(index)?, index })
    }

    #[inline]
    pub(crate) fn header(self) -> &'a BatchHeader {
        self.batch.header()
    }

    #[inline]
    pub(crate) fn operation(self) -> Operation {
        self.batch.header().operation
    }

    #[inline]
    pub(crate) fn flight(self) -> &'a InFlightEvent {
        self.flight
    }

    #[inline]
    pub(crate) fn stamp(self) -> Stamp {
        self.flight.stamp()
    }

    /// Returns the positions of the event at this level of a filter tree.
    #[inline]
    pub(crate) fn positions(self) -> &'a [u64] {
        self.batch.positions(self.index)
    }

    /// Returns the index of the event in its batch.
    pub(crate) fn index(self) -> usize {
        self.index
    }

    /// Returns the event's own idempotency key, if the caller gave it one.
    pub(crate) fn name(self) -> Option<SubmissionName> {
        self.header().names.get(self.index).map(|event| event.name)
    }

    /// Returns the fence under which the event is confirmed or released.
    pub(crate) fn fence(self) -> Option<Fence> {
        self.header().fences.get(self.index).copied()
    }

    /// Returns the time at which nodes were asked about the event, if it is claimed.
    pub(crate) fn asked_ms(self) -> Option<MonotonicMs> {
        self.batch.asked_ms(self.index)
    }
}
