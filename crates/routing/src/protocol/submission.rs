//! Requests to the owner of a slice group, for example to record events, and the commands that the owner gives to its
//! node in return. The types are plain data. The node decides how it sends requests and executes the commands.

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

/// Operation on the events of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Tests each event, and records it if it is new.
    Observe,
    /// Tests each event without recording it.
    Lookup,
    /// Counts each event and estimates the event's frequency. The reply contains the estimates. The verdict is always
    /// first-seen, unless the event is undecided, so clients can ignore it.
    Count,
    /// Estimates the frequency of each event without counting it. The verdicts are the same as for `Count`.
    Estimate,
    /// Tests each event in order to verify a duplicate that a higher level of a filter tree has found. The higher level
    /// asks this level whether it knows the event too. An event that is in flight at this level counts as known. This
    /// level does not ask any other level.
    Verify,
    /// Records events that a lower level of a tree has already decided on its own, for example while it could not reach
    /// its parent. The events are recorded at this level and at all levels above, even if they are already known. The
    /// verdicts are the same as for `Observe`.
    BringUp,
    /// Claims each event for the sender. All nodes that would record the event test it, and the claim is granted if the
    /// event is new. The event is recorded only when the claim is confirmed. The reply contains a [`Hold`](super::Hold)
    /// for each event, which tells who holds the event.
    Claim {
        /// Maximum duration of the claim in milliseconds, counted from the request.
        lease_ms: u32,
    },
    /// Confirms claims, which records the claimed events. The verdicts in the reply have a special meaning:
    ///
    /// - First-seen means that the claim was confirmed and the event is recorded.
    /// - Duplicate means that the event was already recorded before.
    /// - Undecided with the reason claimed means that another consumer holds the event.
    Confirm,
    /// Releases claims without recording the events, so that another consumer can claim them. The verdicts in the reply
    /// have a special meaning:
    ///
    /// - First-seen means that the claim was released.
    /// - Undecided with the reason claimed means that the sender no longer held the event, for example because its
    ///   claim had ended.
    Release,
}

impl Operation {
    /// Returns whether the operation records events, instead of only looking them up.
    pub fn records(self) -> bool {
        match self {
            Self::Observe | Self::Count | Self::BringUp | Self::Confirm => true,
            Self::Lookup | Self::Estimate | Self::Verify | Self::Claim { .. } | Self::Release => false,
        }
    }

    /// Returns whether the operation only asks about events, so that no later decision depends on the replies.
    pub fn is_lookup(self) -> bool {
        match self {
            Self::Lookup | Self::Estimate | Self::Verify => true,
            Self::Observe | Self::Count | Self::BringUp | Self::Claim { .. } | Self::Confirm | Self::Release => false,
        }
    }

    /// Returns whether later requests for the same positions wait for an event of this operation, in groups whose
    /// slices share events.
    pub fn leads(self) -> bool {
        self.moves_clock()
    }

    /// Returns whether the events move the clock of the window. This is the case for events that are recorded or will
    /// be recorded soon.
    pub fn moves_clock(self) -> bool {
        self.records() || self.is_claim()
    }

    /// Returns whether the replies tell which events were recorded before.
    pub fn is_of_verdicts(self) -> bool {
        match self {
            Self::Observe | Self::Lookup | Self::Count | Self::Estimate => true,
            Self::Verify | Self::BringUp | Self::Confirm => true,
            Self::Claim { .. } | Self::Release => false,
        }
    }

    /// Returns whether the operation asks for frequencies, which only one kind of filter supports.
    pub fn is_of_frequencies(self) -> bool {
        match self {
            Self::Count | Self::Estimate => true,
            Self::Observe | Self::Lookup | Self::Verify | Self::BringUp => false,
            Self::Claim { .. } | Self::Confirm | Self::Release => false,
        }
    }

    /// Returns whether a child level has already replied to the events, without asking this level.
    pub fn is_brought_up(self) -> bool {
        self == Self::BringUp
    }

    /// Returns whether the operation claims events, or ends claims.
    pub fn is_of_claims(self) -> bool {
        self.is_claim() || self.ends_claims()
    }

    /// Returns whether the operation claims events.
    pub fn is_claim(self) -> bool {
        match self {
            Self::Claim { .. } => true,
            Self::Observe | Self::Lookup | Self::Count | Self::Estimate => false,
            Self::Verify | Self::BringUp | Self::Confirm | Self::Release => false,
        }
    }

    /// Returns whether the operation ends claims. In that case each event comes with the fence of its grant.
    pub fn ends_claims(self) -> bool {
        match self {
            Self::Confirm | Self::Release => true,
            Self::Observe | Self::Lookup | Self::Count | Self::Estimate => false,
            Self::Verify | Self::BringUp | Self::Claim { .. } => false,
        }
    }
}

/// Time of one event in units of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// Greatest unit that the producer has seen, including this event. It is the time of the producer's clock at the
    /// event.
    pub clock_unit: UnitNumber,
    /// Unit in which the event occurred. It exceeds `clock_unit` only for a lookup, which moves no clock.
    pub unit: UnitNumber,
}

/// Times of the events in a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Unit of the producer's clock before the first event.
    pub base_unit: UnitNumber,
    /// Times of the events, one for each event. The list is empty if all events occurred in `base_unit`.
    pub ticks: Vec<Tick>,
    /// Producer's clock after the last event, in milliseconds since 1970. `None` means that the producer has no clock.
    pub clock_ms: Option<u64>,
    /// Time to live of all recorded events, in milliseconds. `None` means the length of the window.
    pub ttl_ms: Option<u64>,
}

/// Level of a tree of filters that asks another level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromLevel {
    /// Filter of the level.
    pub filter: FilterId,
    /// Whether the level is complete. An event that a complete level does not know was not recorded there.
    pub complete: bool,
}

/// Request to perform an operation on events of one slice group. It contains a batch, or the part of a batch that
/// belongs to the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Number that identifies where the reply is awaited.
    pub reply_to: u64,
    /// Operation on the events.
    pub operation: Operation,
    /// Incarnation of the producer.
    pub producer: u128,
    /// Number of the batch within its producer. A retry has the same number.
    pub sequence: u64,
    /// Idempotency keys of the events, one for each event. If the list is empty, producer, sequence number and index
    /// identify an event.
    pub names: Vec<SubmissionName>,
    /// Fences of the claims, one for each event, if the operation confirms or releases claims. Otherwise the list is
    /// empty.
    pub fences: Vec<Fence>,
    /// Level of the tree that has sent the batch. `None` means that a producer has sent it.
    pub from: Option<FromLevel>,
    /// The events.
    pub probes: Probes,
    /// Times of the events.
    pub times: Times,
    /// Time of the owner's clock after which the client no longer waits for the reply.
    pub deadline_ms: MonotonicMs,
    /// Whether the batch was sent before, so that it may have been recorded.
    pub again: bool,
    /// W3C trace context, if the producer sends one. The node forwards it to other nodes.
    pub traceparent: Option<Arc<str>>,
}

impl Submission {
    /// Returns the name of the batch.
    pub fn name(&self) -> BatchName {
        BatchName { producer: self.producer, sequence: self.sequence }
    }

    /// Returns `false` if the request contains a time to live that its operation does not support. A time to live
    /// limits how long an event is remembered, so only the operations `Observe` and `Confirm`, which record events,
    /// support it.
    pub fn takes_its_ttl(&self) -> bool {
        self.times.ttl_ms.is_none() || matches!(self.operation, Operation::Observe | Operation::Confirm)
    }

    /// Returns the events that have an idempotency key, with their keys.
    pub fn named_events(&self) -> impl ExactSizeIterator<Item = NamedEvent> {
        let names = self.names.iter().enumerate();
        names.map(|(index, name)| NamedEvent { name: *name, tag: EventTag::of(&self.probes, index) })
    }
}

/// Command of an owner to its node.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Persist this record. If the filter is durable, the node must not execute any later command before the record is
    /// on disk.
    Persist(Record),
    /// Reply to a producer.
    Reply(GroupReply),
    /// Send a producer those events that are certainly duplicates, ahead of the complete reply.
    EarlyDuplicates(EarlyDuplicates),
    /// Send a message to another node, after all messages that were sent to that node before.
    Send {
        /// Receiver of the message.
        to: NodeId,
        /// The message.
        message: PeerMessage,
    },
    /// Ask another level of the tree.
    LevelQuery(LevelQuery),
    /// Propose a change of the cluster map to the consensus group.
    Propose(Proposal),
}

/// Change of the cluster map that a slice group proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// Open a generation, unless it is already open.
    OpenGeneration {
        /// Filter whose generation opens.
        filter: FilterId,
        /// Group of slices that open the generation together.
        group: u32,
        /// Number of the generation, which is one above the newest generation that the proposer knows.
        number: GenerationNumber,
    },
    /// Mark slices of this node as complete.
    SlicesComplete {
        /// Filter that the slices belong to.
        filter: FilterId,
        /// Group of the slices.
        group: u32,
        /// Numbers of the slices in the group.
        slices: Vec<u32>,
        /// Epoch of the filter, as the node knows it. The proposal does not apply to slices that the node received in a
        /// later epoch.
        epoch: Epoch,
        /// Incarnation of the proposing node. The proposal is invalid after the node has restarted.
        incarnation: Incarnation,
    },
}

/// Request to another level of a filter tree about events that this level cannot decide alone. The other level answers
/// with a [`LevelReply`] before the deadline of the request.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelQuery {
    /// Number of the request within its group.
    pub number: u64,
    /// Level that asks.
    pub from: FromLevel,
    /// Number of the group, which is the same at both levels.
    pub group: u32,
    /// Filter that is asked. This is the parent level, or a child level for a verification.
    pub to: FilterId,
    /// Operation on the events.
    pub operation: Operation,
    /// The events, with their positions at the root of the tree.
    pub probes: Probes,
    /// Times of the events.
    pub times: Times,
    /// Time of the owner's clock after which the level no longer waits for the answer.
    pub deadline_ms: MonotonicMs,
    /// Whether some of the events were sent before, so that they may have been recorded.
    pub again: bool,
    /// W3C trace context of the first of these events whose producer sends one.
    pub traceparent: Option<Arc<str>>,
}

impl LevelQuery {
    /// Returns the answer to a request that was not sent, for this reason.
    pub fn undecided(&self, reason: Reason) -> LevelReply {
        let decisions = vec![Decision::Undecided(reason); self.probes.len()];
        LevelReply { number: self.number, decisions, ..LevelReply::default() }
    }

    /// Returns the answer to a request whose destination is unreachable. If the request was sent before that was known,
    /// `reason` must be [`Reason::Unknown`], because the other level may have recorded the events.
    pub fn unreachable(&self, reason: Reason) -> LevelReply {
        LevelReply { contact: LevelContact::Unreachable, ..self.undecided(reason) }
    }
}

/// What a node that asked another level of a tree could reach when its request ended. Undecided events mean different
/// things depending on the contact: either the other level cannot decide them, or nobody has asked it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LevelContact {
    /// The node could reach the other level, so undecided events are undecided there.
    #[default]
    Reached,
    /// The node could reach the other level, but not a majority of the cluster's voters. The other level can then be in
    /// the same situation, and may record nothing once its lease has ended.
    WithoutMajority,
    /// The node could not reach the other level.
    Unreachable,
}

/// Answer of another level to a [`LevelQuery`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LevelReply {
    /// Number of the request.
    pub number: u64,
    /// Verdicts, one for each event.
    pub decisions: Vec<Decision>,
    /// Where each event was found, or an empty list.
    pub seen: Vec<Seen>,
    /// Whether each verdict rests on incomplete slices, or was given by a level without the levels above it. The list
    /// is empty if that is true of no verdict.
    pub degraded: Vec<bool>,
    /// What the node that asked could reach when the request ended.
    pub contact: LevelContact,
}

impl LevelReply {
    /// Returns the answer about one event of the request.
    pub(crate) fn answer(&self, event: usize) -> LevelAnswer {
        LevelAnswer {
            decision: self.decisions.get(event).copied().unwrap_or(Decision::Undecided(Reason::Unknown)),
            seen: self.seen.get(event).copied().unwrap_or_default(),
            is_degraded: self.degraded.get(event).copied().unwrap_or(false),
            contact: self.contact,
        }
    }
}

/// Answer of another level of a tree about one event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelAnswer {
    pub(crate) decision: Decision,
    /// Where the event was found.
    pub(crate) seen: Seen,
    pub(crate) is_degraded: bool,
    pub(crate) contact: LevelContact,
}

/// Duplicates of a [`Submission`] that are known before the complete reply. The complete reply contains them too.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlyDuplicates {
    /// Number that identifies where the reply is awaited, as given in the request.
    pub reply_to: u64,
    /// Indexes of the duplicates among the events, in ascending order.
    pub events: Vec<u32>,
    /// Owner's clock in milliseconds since 1970, as in the complete reply.
    pub clock_ms: Option<u64>,
}

/// Reply to a [`Submission`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupReply {
    /// Number that identifies where the reply is awaited, as given in the request.
    pub reply_to: u64,
    /// Answers to the events.
    pub answers: Answers,
    /// Buffer of the events, returned so that its memory can be reused.
    pub spent: Option<Probes>,
}

impl GroupReply {
    /// Creates a reply with the same reason for all events.
    pub fn undecided(events: usize, reason: Reason) -> Self {
        Self { answers: Answers::undecided(events, reason), ..Self::default() }
    }
}
