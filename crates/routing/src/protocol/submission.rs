//! Submissions, which an owner is asked to record, and commands, which it gives in return.
//!
//! Promises: plain data. Must not know: how submissions travel, who carries commands out.

use std::sync::Arc;

use firstseen_filter::{GenerationNumber, Probes, UnitNumber};

use super::answers::Answers;
use super::entry::Record;
use super::fence::Fence;
use super::moment::MonotonicMs;
use super::names::{BatchName, NamedEvent, SubmissionName};
use super::peer::PeerMessage;
use super::tag::EventTag;
use crate::ids::{Epoch, FilterId, Incarnation, NodeId};
use crate::verdict::{Decision, Reason, Seen};

/// What is done with the events of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Test, and record an event that is not there.
    Observe,
    /// Test only.
    Lookup,
    /// Count, and estimate the frequency: the verdict is first-seen unless undecided, and the estimate says the rest.
    Count,
    /// Estimate the frequency only, with the same verdicts.
    Estimate,
    /// Test only, for the level above in a tree: an event in flight here counts as known, and nothing climbs.
    Verify,
    /// Record events that a level of a tree has decided by itself, here and above, whether they are known or not; the
    /// verdicts are those of an observation.
    BringUp,
    /// Test at all nodes, and hold the events that are not there for this time at most; nothing is recorded. The reply has
    /// a [`Hold`](super::Hold) for each event.
    Claim {
        /// The claim's lease: milliseconds from the asking on.
        lease_ms: u32,
    },
    /// Record events as their holder. First-seen stands for confirmed, duplicate for an event that was recorded before, and
    /// undecided as it is claimed for one that another one holds.
    Confirm,
    /// Let events go as their holder. First-seen stands for released, and undecided as it is claimed for a claim that is over.
    Release,
}

impl Operation {
    /// Events are recorded, not only looked up.
    pub fn records(self) -> bool {
        match self {
            Self::Observe | Self::Count | Self::BringUp | Self::Confirm => true,
            Self::Lookup | Self::Estimate | Self::Verify | Self::Claim { .. } | Self::Release => false,
        }
    }

    /// Events are only asked about: the replies bind nobody.
    pub fn is_lookup(self) -> bool {
        match self {
            Self::Lookup | Self::Estimate | Self::Verify => true,
            Self::Observe | Self::Count | Self::BringUp | Self::Claim { .. } | Self::Confirm | Self::Release => false,
        }
    }

    /// Others of the same positions wait for such an event, where slices share events.
    pub fn leads(self) -> bool {
        self.moves_clock()
    }

    /// Events show how late it is: those that are recorded, or are about to be.
    pub fn moves_clock(self) -> bool {
        self.records() || self.is_claim()
    }

    /// The replies say which events were recorded before.
    pub fn is_of_verdicts(self) -> bool {
        match self {
            Self::Observe | Self::Lookup | Self::Count | Self::Estimate => true,
            Self::Verify | Self::BringUp | Self::Confirm => true,
            Self::Claim { .. } | Self::Release => false,
        }
    }

    /// Frequencies are asked for, which one kind of filter alone has.
    pub fn is_of_frequencies(self) -> bool {
        match self {
            Self::Count | Self::Estimate => true,
            Self::Observe | Self::Lookup | Self::Verify | Self::BringUp => false,
            Self::Claim { .. } | Self::Confirm | Self::Release => false,
        }
    }

    /// A level below has replied to the events already, without this one.
    pub fn is_brought_up(self) -> bool {
        self == Self::BringUp
    }

    /// Events are claimed, or their claims end.
    pub fn is_of_claims(self) -> bool {
        self.is_claim() || self.ends_claims()
    }

    /// Events are to be held.
    pub fn is_claim(self) -> bool {
        match self {
            Self::Claim { .. } => true,
            Self::Observe | Self::Lookup | Self::Count | Self::Estimate => false,
            Self::Verify | Self::BringUp | Self::Confirm | Self::Release => false,
        }
    }

    /// Each event comes with the fence of a grant, whose claim ends.
    pub fn ends_claims(self) -> bool {
        match self {
            Self::Confirm | Self::Release => true,
            Self::Observe | Self::Lookup | Self::Count | Self::Estimate => false,
            Self::Verify | Self::BringUp | Self::Claim { .. } => false,
        }
    }
}

/// The time of one event in units of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// What the producer's clock shows at the event: the greatest unit up to it.
    pub clock_unit: UnitNumber,
    /// The unit in which the event occurred; above `clock_unit` only where it is looked up, which moves no clock.
    pub unit: UnitNumber,
}

/// The times of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// What the producer's clock shows before the first event.
    pub base_unit: UnitNumber,
    /// One an event, or none where all occurred in `base_unit`.
    pub ticks: Vec<Tick>,
    /// What the producer's clock shows after the last event, in milliseconds since 1970; none where it has none.
    pub clock_ms: Option<u64>,
    /// Time to live in milliseconds of all events that are recorded. `None` means the window.
    pub ttl_ms: Option<u64>,
}

/// A level of a tree that asks another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromLevel {
    /// Its filter.
    pub filter: FilterId,
    /// The level is complete, so that an event that it does not know was not recorded there.
    pub complete: bool,
}

/// Events of one group on their way to its owner: a batch, or a run of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The number of the place where the reply is awaited.
    pub reply_to: u64,
    /// What is done with the events.
    pub operation: Operation,
    /// The incarnation of the producer.
    pub producer: u128,
    /// Names the batch among those of its producer; a retry has the same.
    pub sequence: u64,
    /// One an event where the caller named its submissions; otherwise none, and producer, sequence and index name them.
    pub names: Vec<SubmissionName>,
    /// One an event where it is confirmed or released; otherwise none.
    pub fences: Vec<Fence>,
    /// The level of the tree that the batch came from; none where it came from a producer.
    pub from: Option<FromLevel>,
    /// The events.
    pub probes: Probes,
    /// Their times.
    pub times: Times,
    /// The owner's time after which nobody waits for the reply.
    pub deadline_ms: MonotonicMs,
    /// The batch was sent before, and may have been recorded.
    pub again: bool,
    /// W3C trace context, if the producer traces; it is sent on to other nodes.
    pub traceparent: Option<Arc<str>>,
}

impl Submission {
    /// Names the batch.
    pub fn name(&self) -> BatchName {
        BatchName { producer: self.producer, sequence: self.sequence }
    }

    /// Whether its operation records events that can be remembered for less than the window, where it asks for that.
    pub fn takes_its_ttl(&self) -> bool {
        self.times.ttl_ms.is_none() || matches!(self.operation, Operation::Observe | Operation::Confirm)
    }

    /// The events that the caller has named.
    pub fn named_events(&self) -> impl ExactSizeIterator<Item = NamedEvent> {
        let names = self.names.iter().enumerate();
        names.map(|(index, name)| NamedEvent { name: *name, tag: EventTag::of(&self.probes, index) })
    }
}

/// A command of an owner to its node.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Persist this record. Where the filter is durable, no command that follows may leave before the record is on
    /// disk.
    Persist(Record),
    /// Reply to a producer.
    Reply(GroupReply),
    /// Send a producer the events that are duplicates for certain, ahead of the reply.
    EarlyDuplicates(EarlyDuplicates),
    /// Send to another node, behind everything that was sent there before.
    Send {
        /// The node.
        to: NodeId,
        /// The message.
        message: PeerMessage,
    },
    /// Ask the level above.
    Climb(Climb),
    /// Propose a change of the map to the agreement.
    Propose(Proposal),
}

/// A change of the map that a group wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// A generation opens, unless it is open already.
    OpenGeneration {
        /// The filter.
        filter: FilterId,
        /// The group of slices that open it together.
        group: u32,
        /// The generation: one above the newest that the asker knows.
        number: GenerationNumber,
    },
    /// Slices of this node are complete.
    SlicesComplete {
        /// The filter.
        filter: FilterId,
        /// Their group.
        group: u32,
        /// Their numbers in the group.
        slices: Vec<u32>,
        /// The filter's epoch as the node knows it: slices that were given to the node since then are not meant.
        epoch: Epoch,
        /// The start of the node that proposes: the proposal is not true of the next start.
        incarnation: Incarnation,
    },
}

/// Events whose verdict needs another level of the tree. Answered with [`Climbed`], by its deadline.
#[derive(Clone, Debug, PartialEq)]
pub struct Climb {
    /// The number of the climb among those of its group.
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
    /// The owner's time after which nobody waits for the answer.
    pub deadline_ms: MonotonicMs,
    /// Some of them were sent before, and may have been recorded.
    pub again: bool,
    /// W3C trace context of the first of these events whose producer traces.
    pub traceparent: Option<Arc<str>>,
}

impl Climb {
    /// The answer to a climb that was not made, for this reason.
    pub fn undecided(&self, reason: Reason) -> Climbed {
        let decisions = vec![Decision::Undecided(reason); self.probes.len()];
        Climbed { number: self.number, decisions, ..Climbed::default() }
    }
}

/// The answer of another level to a [`Climb`].
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
pub struct EarlyDuplicates {
    /// The place that the submission named.
    pub reply_to: u64,
    /// The duplicates, by their index among the events, in order.
    pub events: Vec<u32>,
    /// As in the reply.
    pub clock_ms: Option<u64>,
}

/// The answer to a [`Submission`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupReply {
    /// The place that the submission named.
    pub reply_to: u64,
    /// The answers to its events.
    pub answers: Answers,
    /// The events, given back for their memory.
    pub spent: Option<Probes>,
}

impl GroupReply {
    /// A reply with the same reason for all events.
    pub fn undecided(events: usize, reason: Reason) -> Self {
        Self { answers: Answers::undecided(events, reason), ..Self::default() }
    }
}
