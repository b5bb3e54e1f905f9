//! What an owner is asked, and what it commands.
//!
//! Promises: plain data. Must not know: how it travels, who carries commands out.

use std::sync::Arc;

use firstseen_filter::Probes;

use super::entry::Record;
use super::names::{BatchName, NamedEvent, SubmissionName};
use super::peer::PeerMessage;
use super::tag::EventTag;
use crate::ids::{FilterId, Incarnation, NodeId};
use crate::verdict::{Decision, Seen};

/// What is done with the events of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Test, and record what is not there.
    Observe,
    /// Test only.
    Lookup,
    /// Count, and estimate the frequency: what is not undecided is told to be first-seen, and its estimate says the rest.
    Count,
    /// Estimate the frequency only, told in the same way.
    Estimate,
    /// Test only, for the level above in a tree: what is in flight here is known here, and nothing climbs.
    Verify,
    /// Record what a level of a tree has told by itself, here and above, whatever is known of it; it is told what an
    /// observation would be.
    Record,
}

impl Operation {
    /// Events are recorded, not only looked up.
    pub fn records(self) -> bool {
        matches!(self, Self::Observe | Self::Count | Self::Record)
    }
}

/// The time of one event in units of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// What the producer's clock shows at the event: the greatest unit up to it.
    pub clock_unit: u64,
    /// The unit in which the event occurred; above `clock_unit` only where it is looked up, which moves no clock.
    pub unit: u64,
}

/// The times of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// What the producer's clock shows before the first event.
    pub base_unit: u64,
    /// One an event, or none where all occurred in `base_unit`.
    pub ticks: Vec<Tick>,
    /// What the producer's clock shows after the last event, in milliseconds since 1970; 0 where it has none.
    pub clock_ms: u64,
}

/// A level of a tree that asks another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromLevel {
    /// Its filter.
    pub filter: FilterId,
    /// It has had everything that was ever recorded there, so that what it does not know was not.
    pub complete: bool,
}

/// Events of one group on their way to its owner: a batch, or a run of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Names the place where the reply is awaited.
    pub reply_to: u64,
    /// What is done with the events.
    pub operation: Operation,
    /// The incarnation of the producer.
    pub producer: u128,
    /// Names the batch among those of its producer; a retry has the same.
    pub sequence: u64,
    /// One an event where the caller named its submissions; otherwise none, and producer, sequence and index name them.
    pub names: Vec<SubmissionName>,
    /// The level of the tree that it came from, where it was not a producer.
    pub from: Option<FromLevel>,
    /// The events.
    pub probes: Probes,
    /// Their times.
    pub times: Times,
    /// The owner's monotonic time after which nobody waits for the reply.
    pub deadline_ms: u64,
    /// It was sent before, and may have been recorded.
    pub again: bool,
    /// W3C trace context, if the producer traces; other nodes are told.
    pub traceparent: Option<Arc<str>>,
}

impl Submission {
    /// Names the batch.
    pub fn name(&self) -> BatchName {
        BatchName { producer: self.producer, sequence: self.sequence }
    }

    /// The events that the caller has named.
    pub fn named_events(&self) -> impl ExactSizeIterator<Item = NamedEvent> {
        let named = |(index, name): (usize, &SubmissionName)| {
            let tag = EventTag::of(&self.probes, index);
            NamedEvent { name: *name, tag }
        };
        self.names.iter().enumerate().map(named)
    }
}

/// The owner's clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since some start; never steps back.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970.
    pub wall_ms: u64,
}

/// What an owner wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Keep this. Where the filter is durable, nothing that follows may leave before it is on disk.
    Record(Record),
    /// Answer a producer.
    Reply(GroupReply),
    /// Tell a producer what is a duplicate for certain, ahead of the reply.
    Found(Found),
    /// Send to another node, behind everything that was sent there before.
    Send {
        /// The node.
        to: NodeId,
        /// The message.
        message: PeerMessage,
    },
    /// Ask the level above.
    Climb(Climb),
    /// Have the opening of a generation agreed on, unless it is open already.
    OpenGeneration {
        /// The filter.
        filter: FilterId,
        /// The group of slices that open it together.
        group: u32,
        /// The generation: one above the newest that the asker knows.
        number: u64,
    },
    /// Have it agreed on that slices of this node have all that counts.
    SlicesComplete {
        /// The filter.
        filter: FilterId,
        /// Their group.
        group: u32,
        /// Their numbers in the group.
        slices: Vec<u32>,
        /// The epoch of the filter that is known there: what has been given to the node since then is not meant.
        epoch: u64,
        /// The start of the node that says so.
        incarnation: Incarnation,
    },
}

/// Events whose verdict needs another level of the tree. Answered with [`Climbed`], by its deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct Climb {
    /// Names it among the climbs of its group.
    pub number: u64,
    /// The level that asks.
    pub from: FromLevel,
    /// The group of both.
    pub group: u32,
    /// The filter that is asked: the level above, or to verify, one below.
    pub to: FilterId,
    /// What is done with the events.
    pub operation: Operation,
    /// The events, by the positions of the root.
    pub probes: Probes,
    /// Their times.
    pub times: Times,
    /// The owner's monotonic time after which nobody waits for the answer.
    pub deadline_ms: u64,
    /// Some of them were sent before, and may have been recorded.
    pub again: bool,
    /// W3C trace context of the first of these events whose producer traces.
    pub traceparent: Option<Arc<str>>,
}

/// What another level says of the events of a [`Climb`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Climbed {
    /// The number of the climb.
    pub number: u64,
    /// One an event.
    pub decisions: Vec<Decision>,
    /// One an event, or none.
    pub seen: Vec<Seen>,
    /// Slices that the verdicts rest on are incomplete.
    pub degraded: bool,
}

/// Duplicates of a [`Submission`] that need not wait for its reply, which has them too.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The place that was named.
    pub reply_to: u64,
    /// Their places among the events, in order.
    pub events: Vec<u32>,
    /// As in the reply.
    pub clock_ms: u64,
}

/// The answer to a [`Submission`].
#[derive(Clone, Debug, PartialEq)]
pub struct GroupReply {
    /// The place that was named.
    pub reply_to: u64,
    /// One an event, in order.
    pub decisions: Vec<Decision>,
    /// One an event where frequencies were asked for; otherwise none.
    pub estimates: Vec<f32>,
    /// The owner's clock in milliseconds since 1970; 0 where it shows none.
    pub clock_ms: u64,
    /// Answers rest on fewer positions than usual, or on slices that have lost something.
    pub degraded: bool,
    /// The mean chance that a new event of the batch is called a duplicate, where answers rest on fewer positions; 0 where
    /// none does.
    pub expected_rate: f32,
    /// One an event where the filter is in a tree; otherwise none.
    pub seen: Vec<Seen>,
    /// The events, given back for their memory.
    pub spent: Option<Probes>,
}
