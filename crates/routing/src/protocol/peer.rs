//! Messages about in-flight events, which the nodes of a slice group send to each other. The types are plain data. Most
//! messages contain several lists about the same events. Unless the documentation of a list says otherwise, the list
//! has one entry for each event.

use std::sync::Arc;

use firstseen_filter::{CellRun, GenerationNumber, ProbeShape, Probes, SliceOutline, Stamp, TestResult, UnitNumber};

use super::cells::{CellPlace, PositionLists};
use super::entry::{ClockReading, Entry};
use super::names::{BatchName, NamedEvent};
use crate::ids::{Epoch, FilterId, NodeId};
use crate::verdict::{Decision, Reason};

/// Message about one slice group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMessage {
    /// Filter that the group belongs to.
    pub filter: FilterId,
    /// Epoch of the filter, as the sender knows it.
    pub epoch: Epoch,
    /// Number of the group.
    pub group: u32,
    /// Content of the message.
    pub body: PeerBody,
}

impl PeerMessage {
    /// Returns the number of events, or of acknowledged sets, in the message. Messages without events count as 1.
    pub fn events(&self) -> u64 {
        let events = match &self.body {
            PeerBody::Test(test) => test.tickets.len(),
            PeerBody::ClaimTests(tests) => tests.test.tickets.len(),
            PeerBody::Resolved(resolved) => resolved.tickets.len(),
            PeerBody::Set(set) => set.stamps.len(),
            PeerBody::SetAcks(acks) => acks.set_numbers.len() + acks.refused_numbers.len(),
            PeerBody::Mirror(_, mirrored) => mirrored.decisions.len(),
            PeerBody::AskPast | PeerBody::Past(_) | PeerBody::AskCells(_) => 1,
            PeerBody::Cells(_) | PeerBody::HandedOver(_) => 1,
        };
        events.max(1) as u64
    }

    /// Notes that the message has waited for `waited_ms` milliseconds, which shortens the deadlines of its tests.
    pub fn pass_time(&mut self, waited_ms: u64) {
        if let Some(test) = self.body.tests_mut() {
            let waited_ms = u32::try_from(waited_ms).unwrap_or(u32::MAX);
            test.runs.iter_mut().for_each(|run| run.deadline_in_ms = run.deadline_in_ms.saturating_sub(waited_ms));
        }
    }

    /// Returns the message without the tests whose head nodes no longer wait for a result. Returns `None` if no tests
    /// are left.
    pub fn without_given_up(mut self) -> Option<Self> {
        if let PeerBody::Test(test) = &mut self.body {
            test.leave_out_given_up();
            return (!test.runs.is_empty()).then_some(self);
        }
        Some(self)
    }
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerBody {
    /// Tests of events. The head node sends them to the next node of the pipeline, or to all nodes of an event in
    /// parallel.
    Test(TestBatch),
    /// Request of a head node to test events that a consumer wants to claim. It is sent to all nodes that would record
    /// the events. Each of these nodes replies with the result of the test. A node that was the head node earlier may
    /// have granted a claim on an event itself, and also reports such claims.
    ///
    /// A message without events only asks the receiver for the version of the cluster map that it uses.
    ClaimTests(Box<ClaimTests>),
    /// Results of tests, sent to the head node.
    Resolved(Resolved),
    /// Cells to set, sent by the head node.
    Set(SetBatch),
    /// Acknowledgements of sets, sent to the head node.
    SetAcks(SetAcks),
    /// Question of a node that was down and has returned. The node sends it to all nodes of its slice group, because it
    /// needs to know what happened while it was down.
    ///
    /// The answer depends on the slicing. If the positions of an event are spread over several slices, the answer
    /// contains the latest unit of the window in which events were recorded while the node was down. If one slice holds
    /// all positions of an event, the answering copy of that slice sends the replies that it has given to clients.
    AskPast,
    /// Answer to `AskPast`. From now on, the sender also sends its events to the node that asked.
    Past(Past),
    /// Request for cells. A node whose copy of a slice is incomplete sends it to a node with a complete copy.
    AskCells(AskCells),
    /// Answer to `AskCells`.
    Cells(CellParts),
    /// Recorded events and replies, which one node forwards to another node. Most of these messages replicate a slice
    /// that holds all positions of its events. The copy of the slice that answers clients sends its records to the
    /// other copies, and each of these copies acknowledges the message number.
    ///
    /// A message without a number contains only replies, and the receiver does not acknowledge it. Its purpose depends
    /// on the slicing:
    ///
    /// - If one slice holds all positions of an event, the message brings missing replies to a copy whose node was down
    ///   and has returned.
    /// - If the positions are spread over several slices, the message brings the replies of a head node to the node
    ///   that will take over its events.
    Mirror(Option<MirrorNumber>, Arc<Mirrored>),
    /// States that the previous head node of a slice has finished all events of that slice. The previous head node
    /// sends this message to the node that has taken over the slice.
    ///
    /// This type of message has a second use. When a node that was down has returned, another copy sends its copy of
    /// the slice the replies that it has missed. One `HandedOver` message marks the beginning of these replies, and
    /// another one marks their end.
    HandedOver(HandedOver),
}

impl PeerBody {
    /// Returns whether the receiver must use the same epoch as the sender. Answers are accepted with any epoch.
    pub(crate) fn is_fenced(&self) -> bool {
        match self {
            Self::Test(_) | Self::ClaimTests(_) | Self::Set(_) => true,
            Self::Resolved(_) | Self::SetAcks(_) | Self::AskPast | Self::Past(_) | Self::AskCells(_) => false,
            Self::Cells(_) | Self::Mirror(..) | Self::HandedOver(_) => false,
        }
    }

    /// Returns whether the receiver may reply that it has no time for an answer.
    pub fn is_question(&self) -> bool {
        match self {
            Self::Test(_) | Self::ClaimTests(_) | Self::AskCells(_) => true,
            // The answer contains information that must not be lost.
            Self::AskPast => false,
            Self::Resolved(_) | Self::Set(_) | Self::SetAcks(_) | Self::Past(_) => false,
            Self::Cells(_) | Self::Mirror(..) | Self::HandedOver(_) => false,
        }
    }

    /// Returns whether no node would send the message again, so that the message must not be lost.
    pub fn is_sent_once(&self) -> bool {
        match self {
            Self::Set(_) | Self::SetAcks(_) | Self::Mirror(..) | Self::HandedOver(_) => true,
            Self::Test(_) | Self::ClaimTests(_) | Self::Resolved(_) | Self::AskPast | Self::Past(_) => false,
            Self::AskCells(_) | Self::Cells(_) => false,
        }
    }

    /// Returns the tests of the message, whose results are awaited by head nodes.
    fn tests_mut(&mut self) -> Option<&mut TestBatch> {
        match self {
            Self::Test(test) => Some(test),
            Self::ClaimTests(tests) => Some(&mut tests.test),
            Self::Resolved(_) | Self::Set(_) | Self::SetAcks(_) | Self::AskPast | Self::Past(_) => None,
            Self::AskCells(_) | Self::Cells(_) | Self::Mirror(..) | Self::HandedOver(_) => None,
        }
    }
}

/// Statement of a former head node that it has finished all events that the receiver has taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// Epoch of the takeover. The receiver has taken over at this epoch or at an earlier one.
    pub epoch: Epoch,
    /// Period before this message, in milliseconds, for which the receiver knows all replies of the sender. If a client
    /// retries a request that the sender answered within this period, the receiver recognizes the retry by its
    /// idempotency key and sends the same reply again.
    pub told_for_ms: u64,
}

/// Number of a message from the answering copy of a slice to the other copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorNumber {
    /// Number that the receiver acknowledges.
    pub number: u64,
    /// Lower bound of the messages in progress. All messages with smaller numbers have reached all copies.
    pub acknowledged_below: u64,
}

/// Recorded events and replies of a slice that holds all positions of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// Name of the batch.
    pub name: BatchName,
    /// Idempotency keys, one for each event. The list is empty if the caller did not set any.
    pub names: Vec<NamedEvent>,
    /// Verdicts, one for each event.
    pub decisions: Vec<Decision>,
    /// Reading of the clock after the batch.
    pub clock: ClockReading,
    /// Number of the generation in which the events were recorded.
    pub generation: GenerationNumber,
    /// Events that were recorded.
    pub probes: Probes,
    /// Stamps, one for each recorded event.
    pub stamps: Vec<Stamp>,
}

impl Mirrored {
    /// Creates a record without events and replies.
    pub(crate) fn without_events(
        name: BatchName,
        clock: ClockReading,
        generation: GenerationNumber,
        shape: ProbeShape,
    ) -> Self {
        let probes = Probes::new(shape);
        Self { name, names: Vec::new(), decisions: Vec::new(), clock, generation, probes, stamps: Vec::new() }
    }

    /// Returns the number of events in the record. The number counts towards the limit on records that wait for
    /// acknowledgement. A record without events only requests an acknowledgement, and counts as one event.
    pub fn weight(&self) -> usize {
        self.decisions.len().max(1)
    }

    /// Converts the record to entries that can be persisted.
    pub fn into_entries(self) -> Vec<Entry> {
        let Self { name, names, decisions, clock, generation, probes, stamps } = self;
        let mut entries = Vec::new();
        // A record that only requests an acknowledgement has nothing to persist.
        if !decisions.is_empty() {
            entries.push(Entry::Replied { name, names, decisions, clock });
        }
        if !stamps.is_empty() {
            entries.push(Entry::Events { generation, probes, stamps });
        }
        entries
    }
}

/// Request for cells of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskCells {
    /// Number of the slice in the group.
    pub slice: u32,
    /// Greatest unit that the sender has seen.
    pub unit: UnitNumber,
    /// Place at which the cells begin. `None` requests the first cells.
    pub from: Option<CellPlace>,
}

/// Part of the cells of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellParts {
    /// Number of the slice in the group.
    pub slice: u32,
    /// Place that was requested.
    pub asked: Option<CellPlace>,
    /// State of the slice without its cells. Only the message with the first cells contains it.
    pub outline: Option<SliceOutline>,
    /// The cells. Runs of empty cells are left out.
    pub runs: Vec<CellRun>,
    /// Place at which the next cells begin. `None` means that no cells are left.
    pub next: Option<CellPlace>,
    /// Reading of the clock at the sender.
    pub clock: ClockReading,
}

impl CellParts {
    /// Converts the message to checkpoint entries, in the order in which the receiver must apply them.
    pub fn into_entries(self) -> impl Iterator<Item = Entry> {
        let slice = self.slice;
        let outline = self.outline.map(|outline| Entry::Slice { slice, outline });
        outline.into_iter().chain(self.runs.into_iter().map(move |run| Entry::Cells { slice, run }))
    }
}

/// Cells of a slice that belong to a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupCells {
    /// The cells, in the form in which another copy would receive them.
    pub parts: CellParts,
    /// Whether the slice has everything that was ever recorded in it.
    pub is_complete: bool,
}

/// Knowledge of a node about the events of a group before a certain moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// Latest unit of all events that the node may have recorded, or knows to be recorded.
    pub newest_unit: UnitNumber,
    /// Whether the node has already sent all events that it recorded while the receiver was down.
    pub has_handed_over: bool,
}

/// Events with the progress of their tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestBatch {
    /// Runs of events that have the same head node. The first events of the batch belong to the first run, and so on.
    pub runs: Vec<TestRun>,
    /// Numbers that the head nodes have assigned to the events.
    pub tickets: Vec<u64>,
    /// Positions that are not tested yet.
    pub left: PositionLists,
    /// Stamps of the events: the units in which they occurred and in which they are judged.
    pub stamps: Vec<Stamp>,
    /// Generations that may still contain each event. The list is empty if all generations may.
    pub generations: Vec<u16>,
    /// Whether the receiver sends its result to the head node. Otherwise it sends the events on to the next node.
    pub parallel: bool,
    /// W3C trace context of the first of these events whose producer sends one.
    pub traceparent: Option<Arc<str>>,
    /// Earliest expiry of the cells that were found for each event so far. The list is empty outside of trees.
    pub expiries: Vec<UnitNumber>,
}

impl TestBatch {
    /// Returns the run of each event.
    pub fn run_of_each(&self) -> impl Iterator<Item = &TestRun> + Clone {
        self.runs.iter().flat_map(|run| std::iter::repeat_n(run, run.events as usize))
    }

    /// Adds `event`, which is a run of one event, to the last run if both have the same properties. Otherwise the
    /// method appends a new run.
    pub(crate) fn add_to_runs(&mut self, event: TestRun) {
        match self.runs.last_mut() {
            Some(run) if (run.head, run.asks_all, run.degraded) == (event.head, event.asks_all, event.degraded) => {
                run.events += event.events;
                run.deadline_in_ms = run.deadline_in_ms.max(event.deadline_in_ms);
            }
            _ => self.runs.push(event),
        }
    }

    fn leave_out_given_up(&mut self) {
        if self.runs.iter().all(TestRun::is_awaited) {
            return;
        }
        let are_kept: Vec<bool> = self.run_of_each().map(TestRun::is_awaited).collect();
        let mut left = PositionLists::default();
        let lists = self.left.iter().zip(&are_kept).filter(|(_, is_kept)| **is_kept);
        lists.for_each(|(positions, _)| left.push(positions.iter().copied()));
        self.left = left;
        keep(&mut self.tickets, &are_kept);
        keep(&mut self.stamps, &are_kept);
        keep(&mut self.generations, &are_kept);
        keep(&mut self.expiries, &are_kept);
        self.runs.retain(TestRun::is_awaited);
    }
}

/// Removes the entries of events that are not kept. The list has one entry for each event, or none at all.
fn keep<T>(list: &mut Vec<T>, are_kept: &[bool]) {
    let mut are_kept = are_kept.iter();
    list.retain(|_| are_kept.next().is_none_or(|is_kept| *is_kept));
}

/// Tests of events that are claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimTests {
    /// The events, with those of their positions of which the receiver has a copy.
    pub test: TestBatch,
    /// Hash of each event, by which tables of claims identify it.
    pub events: Vec<u128>,
}

/// Consecutive events in a message that have the same head node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestRun {
    /// Head node that has the events in flight.
    pub head: NodeId,
    /// Number of events in the run.
    pub events: u32,
    /// Whether incomplete slices are tested too. This is necessary if too few complete slices are left.
    pub asks_all: bool,
    /// Whether a slice that was tested is incomplete.
    pub degraded: bool,
    /// Milliseconds for which the head node still waits for the answer.
    pub deadline_in_ms: u32,
}

impl TestRun {
    /// Returns whether the head node still waits for the results.
    fn is_awaited(&self) -> bool {
        self.deadline_in_ms > 0
    }
}

/// Results of tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Numbers that the head node has assigned to the events.
    pub tickets: Vec<u64>,
    /// Whether all tested cells of the event are set, for each event.
    pub hits: Vec<bool>,
    /// Generations that contain an event, as a bit mask, for each event whose cells are all set. The list is empty if
    /// the head node does not need to know the generations.
    pub generations: Vec<u16>,
    /// Events that could not be tested, as pairs of an index and a reason.
    pub undecided: Vec<(u32, Reason)>,
    /// Number of slices that were visited after the head node.
    pub slice_visits: u64,
    /// Number of nodes that were visited after the head node, including the sender.
    pub node_visits: u64,
    /// Whether a slice that was tested is incomplete.
    pub degraded: bool,
    /// Earliest expiry of the cells of each event whose cells are all set. The list is empty outside of trees.
    pub expiries: Vec<UnitNumber>,
    /// Claims that prevent the requested claim, because the sender of this message has already granted them to another
    /// consumer. Each entry is a pair of the event's index and the remaining duration of the existing claim in
    /// milliseconds.
    pub vetoes: Vec<(u32, u32)>,
}

/// Result of the test of one event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestAnswer {
    /// Number that the head node has assigned to the event.
    pub(crate) ticket: u64,
    /// Generations that contain the event, and the earliest expiry of its cells. If a cell is empty, there are no
    /// generations.
    pub(crate) found: TestResult,
    /// Reason why the event could not be tested.
    pub(crate) undecided: Option<Reason>,
    /// Remaining milliseconds of another claim on the event that the sender itself has granted.
    pub(crate) veto_ms: Option<u32>,
}

impl Resolved {
    /// Returns the results, one for each event.
    pub(crate) fn answers(&self) -> impl Iterator<Item = TestAnswer> {
        let mut generations = self.generations.iter();
        let mut expiries = self.expiries.iter();
        let mut undecided = self.undecided.iter().peekable();
        let mut vetoes = self.vetoes.iter().peekable();
        self.tickets.iter().enumerate().map(move |(index, ticket)| {
            let mut found = TestResult { generations: 0, expiry: UnitNumber::NEVER };
            if self.hits.get(index).copied().unwrap_or(false) {
                found.generations = generations.next().copied().unwrap_or(u16::MAX);
                found.expiry = expiries.next().copied().unwrap_or(UnitNumber::NEVER);
            }
            TestAnswer {
                ticket: *ticket,
                found,
                undecided: undecided.next_if(|(at, _)| *at as usize == index).map(|(_, reason)| *reason),
                veto_ms: vetoes.next_if(|(at, _)| *at as usize == index).map(|(_, left_ms)| *left_ms),
            }
        })
    }
}

/// Cells to set. Cells that are already set are set again, because their expiry may be extended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetBatch {
    /// Number that the receiver acknowledges.
    pub set_number: u64,
    /// Number of the generation in which cells are set. The consensus group has committed this number.
    pub generation: GenerationNumber,
    /// Positions in the slices of the receiver.
    pub cells: PositionLists,
    /// Stamps of the events: the units in which they occurred and in which they are judged.
    pub stamps: Vec<Stamp>,
}

/// Acknowledgements and rejections of sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAcks {
    /// Numbers of the sets that were executed.
    pub set_numbers: Vec<u64>,
    /// Numbers of the sets that were rejected. They have recorded nothing.
    pub refused_numbers: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: PeerBody) -> PeerMessage {
        PeerMessage { filter: FilterId(1), epoch: Epoch(1), group: 0, body }
    }

    /// Creates a test message with two events for each pair in `heads`. A pair contains a head node and the number of
    /// milliseconds that the node waits for the results. The ticket, stamp and expiry of an event are all equal to the
    /// event's number, so that the tests can recognize the event.
    fn tests_for(heads: &[(u64, u32)]) -> PeerMessage {
        let mut test = TestBatch::default();
        for (head, deadline_in_ms) in heads {
            test.runs.push(TestRun {
                head: NodeId(*head),
                events: 2,
                deadline_in_ms: *deadline_in_ms,
                ..TestRun::default()
            });
            for number in [2 * head, 2 * head + 1] {
                test.tickets.push(number);
                test.left.push(0..=number % 3);
                test.stamps.push(Stamp::on_time(UnitNumber(number)));
                test.expiries.push(UnitNumber(number));
            }
        }
        message(PeerBody::Test(test))
    }

    #[test]
    fn tests_that_have_waited_too_long_are_left_out() {
        let mut waited = tests_for(&[(1, 50), (2, 20), (3, 70), (4, 21)]);
        waited.pass_time(20);
        assert_eq!(waited.without_given_up(), Some(tests_for(&[(1, 30), (3, 50), (4, 1)])));
        let mut waited = tests_for(&[(1, 50), (2, 20)]);
        waited.pass_time(50);
        assert_eq!(waited.without_given_up(), None);
    }

    #[test]
    fn what_is_no_test_leaves_however_long_it_has_waited() {
        let mut acks = message(PeerBody::SetAcks(SetAcks { set_numbers: vec![1], ..SetAcks::default() }));
        acks.pass_time(u64::MAX);
        assert_eq!(acks.clone().without_given_up(), Some(acks));
    }
}
