//! An event in flight with its batch, to be read.
//!
//! Promises: changes nothing. Must not know: cells, nodes, other events.

use firstseen_filter::Stamp;

use super::{Batch, BatchHeader, Flight, Ticket};
use crate::protocol::{Fence, MonotonicMs, Operation, SubmissionName};

/// An event in flight, and its batch.
#[derive(Clone, Copy)]
pub(crate) struct Event<'a> {
    batch: &'a Batch,
    flight: &'a Flight,
    index: usize,
}

impl<'a> Event<'a> {
    /// The event of `ticket`, whose batch this is; `None` if the batch has fewer events.
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
    pub(crate) fn flight(self) -> &'a Flight {
        self.flight
    }

    #[inline]
    pub(crate) fn stamp(self) -> Stamp {
        self.flight.stamp()
    }

    /// The positions of the event at this level of a tree.
    #[inline]
    pub(crate) fn positions(self) -> &'a [u64] {
        self.batch.positions(self.index)
    }

    /// The place of the event in its batch.
    pub(crate) fn index(self) -> usize {
        self.index
    }

    /// The name that the caller gave the event, if any.
    pub(crate) fn name(self) -> Option<SubmissionName> {
        self.header().names.get(self.index).map(|event| event.name)
    }

    /// The fence under which the event is confirmed or released.
    pub(crate) fn fence(self) -> Option<Fence> {
        self.header().fences.get(self.index).copied()
    }

    /// When nodes were asked about the event, where it is claimed.
    pub(crate) fn asked_ms(self) -> Option<MonotonicMs> {
        self.batch.asked_ms(self.index)
    }
}
