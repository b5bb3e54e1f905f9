//! What an owner is asked, and what it commands.
//!
//! Promises: plain data. Must not know: how it travels, who carries commands out.

use std::sync::Arc;

use firstseen_filter::Probes;

use crate::{BatchName, Decision, FilterId, NodeId, PeerMessage};

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
}

/// The name that a caller gave to the submission of one event: of one source, numbers rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubmissionName {
    /// Where the event comes from: a partition, a file.
    pub source: u128,
    /// Its place there.
    pub number: u64,
}

/// The time of one event in units of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// What the producer's clock shows at the event: the greatest unit up to it.
    pub clock_unit: u64,
    /// The unit in which the event occurred; not above `clock_unit`.
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
    /// The events.
    pub probes: Probes,
    /// Their times.
    pub times: Times,
    /// The owner's monotonic time after which nobody waits for the reply.
    pub deadline_ms: u64,
    /// W3C trace context, if the producer traces; other nodes are told.
    pub traceparent: Option<Arc<str>>,
}

impl Submission {
    /// Names the batch.
    pub fn name(&self) -> BatchName {
        BatchName { producer: self.producer, sequence: self.sequence }
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
    /// Answer a producer.
    Reply(GroupReply),
    /// Send to another node, behind everything that was sent there before.
    Send {
        /// The node.
        to: NodeId,
        /// The message.
        message: PeerMessage,
    },
    /// Have the opening of a generation agreed on, unless it is open already.
    OpenGeneration {
        /// The filter.
        filter: FilterId,
        /// The group of slices that open it together.
        group: u32,
        /// The generation: one above the newest that the asker knows.
        number: u64,
    },
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
    /// Slices that the answers rest on have lost what came before their node started.
    pub degraded: bool,
    /// The events, given back for their memory.
    pub spent: Option<Probes>,
}
