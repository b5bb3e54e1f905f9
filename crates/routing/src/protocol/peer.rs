//! Messages between the nodes of a group about events in flight.
//!
//! Promises: plain data; lists of one message have one entry for each event, unless they say otherwise. Must not know:
//! how messages travel.

use std::sync::Arc;

use firstseen_filter::{CellRun, GenerationNumber, ProbeShape, Probes, Sighting, SliceOutline, Stamp, UnitNumber};

use super::cells::{CellPlace, PositionLists};
use super::entry::{ClockReading, Entry};
use super::names::{BatchName, NamedEvent};
use crate::ids::{Epoch, FilterId, NodeId};
use crate::verdict::{Decision, Reason};

/// A message about one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMessage {
    /// The filter.
    pub filter: FilterId,
    /// Its epoch as the sender knows it.
    pub epoch: Epoch,
    /// The group.
    pub group: u32,
    /// The content.
    pub body: PeerBody,
}

impl PeerMessage {
    /// How many events, or acknowledgements of sets, the message has; 1 where it has neither.
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

    /// The message has waited for so long.
    pub fn pass_time(&mut self, waited_ms: u64) {
        if let Some(test) = self.body.tests_mut() {
            let waited_ms = u32::try_from(waited_ms).unwrap_or(u32::MAX);
            test.runs.iter_mut().for_each(|run| run.deadline_in_ms = run.deadline_in_ms.saturating_sub(waited_ms));
        }
    }

    /// The message without tests for which no head waits any more; none where nothing is left.
    pub fn without_given_up(mut self) -> Option<Self> {
        if let PeerBody::Test(test) = &mut self.body {
            test.leave_out_given_up();
            return (!test.runs.is_empty()).then_some(self);
        }
        Some(self)
    }
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerBody {
    /// To the next node of the pipeline, or from the head to all nodes of an event.
    Test(TestBatch),
    /// From the head of events that are claimed to all nodes that would record them, each of which answers: also whether
    /// it holds a claim of them itself. With no events it asks only by which map the receiver acts.
    ClaimTests(Box<ClaimTests>),
    /// To the head.
    Resolved(Resolved),
    /// From the head.
    Set(SetBatch),
    /// To the head.
    SetAcks(SetAcks),
    /// To every node of the group, by one that was away: up to which unit were events recorded without it? Where one slice has all
    /// positions of an event, to the copy that answers: which replies has it given?
    AskPast,
    /// The answer to `AskPast`, by a node that sets its events at the asking one from now on.
    Past(Past),
    /// To a node with a complete copy of a slice, by one whose copy lacks something.
    AskCells(AskCells),
    /// The answer to `AskCells`.
    Cells(CellParts),
    /// Where one slice has all positions of an event: what the copy that answers has recorded, to the other copies, which
    /// acknowledge the number. Without a number, as nobody acknowledges them, replies alone: there, those that a copy which comes back
    /// does not know; where positions are divided, those of a head, to the node that is to head its events.
    Mirror(Option<MirrorNumber>, Arc<Mirrored>),
    /// To a node that has taken over a slice; or around the replies that a copy which comes back does not know.
    HandedOver(HandedOver),
}

impl PeerBody {
    /// Whether the receiver must act by the same epoch as the sender. Answers need no fence.
    pub(crate) fn is_fenced(&self) -> bool {
        match self {
            Self::Test(_) | Self::ClaimTests(_) | Self::Set(_) => true,
            Self::Resolved(_) | Self::SetAcks(_) | Self::AskPast | Self::Past(_) | Self::AskCells(_) => false,
            Self::Cells(_) | Self::Mirror(..) | Self::HandedOver(_) => false,
        }
    }

    /// Whether the sender can be told that the receiver has no time for an answer.
    pub fn is_question(&self) -> bool {
        match self {
            Self::Test(_) | Self::ClaimTests(_) | Self::AskCells(_) => true,
            // The answer says what must not be missed.
            Self::AskPast => false,
            Self::Resolved(_) | Self::Set(_) | Self::SetAcks(_) | Self::Past(_) => false,
            Self::Cells(_) | Self::Mirror(..) | Self::HandedOver(_) => false,
        }
    }

    /// Whether no node would send the message again, so that it must not be lost.
    pub fn is_sent_once(&self) -> bool {
        match self {
            Self::Set(_) | Self::SetAcks(_) | Self::Mirror(..) | Self::HandedOver(_) => true,
            Self::Test(_) | Self::ClaimTests(_) | Self::Resolved(_) | Self::AskPast | Self::Past(_) => false,
            Self::AskCells(_) | Self::Cells(_) => false,
        }
    }

    /// The tests of the message, for whose results heads wait.
    fn tests_mut(&mut self) -> Option<&mut TestBatch> {
        match self {
            Self::Test(test) => Some(test),
            Self::ClaimTests(tests) => Some(&mut tests.test),
            Self::Resolved(_) | Self::Set(_) | Self::SetAcks(_) | Self::AskPast | Self::Past(_) => None,
            Self::AskCells(_) | Self::Cells(_) | Self::Mirror(..) | Self::HandedOver(_) => None,
        }
    }
}

/// The sender has ended all events that the receiver has taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// The receiver has taken over at this epoch or earlier.
    pub epoch: Epoch,
    /// For so long the receiver has been sent every reply that the sender gave under a name.
    pub told_for_ms: u64,
}

/// The number of a message from a copy to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorNumber {
    /// Acknowledged by this number.
    pub number: u64,
    /// Messages of smaller numbers are on all copies.
    pub acknowledged_below: u64,
}

/// The records and replies of a slice that has all positions of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// Names the batch.
    pub name: BatchName,
    /// One an event where the caller named its submissions.
    pub names: Vec<NamedEvent>,
    /// One an event.
    pub decisions: Vec<Decision>,
    /// What the clock shows after it.
    pub clock: ClockReading,
    /// The number of the generation.
    pub generation: GenerationNumber,
    /// Events that were recorded.
    pub probes: Probes,
    /// One a recorded event.
    pub stamps: Vec<Stamp>,
}

impl Mirrored {
    /// A record of no events, and no replies yet.
    pub(crate) fn without_events(
        name: BatchName,
        clock: ClockReading,
        generation: GenerationNumber,
        shape: ProbeShape,
    ) -> Self {
        let probes = Probes::new(shape);
        Self { name, names: Vec::new(), decisions: Vec::new(), clock, generation, probes, stamps: Vec::new() }
    }

    /// What it counts for where records that wait are bounded: its events, and one where it only asks for an acknowledgement.
    pub fn weight(&self) -> usize {
        self.decisions.len().max(1)
    }

    /// The same as entries to persist.
    pub fn into_entries(self) -> Vec<Entry> {
        let Self { name, names, decisions, clock, generation, probes, stamps } = self;
        let mut entries = Vec::new();
        // One that only asks for an acknowledgement says nothing.
        if !decisions.is_empty() {
            entries.push(Entry::Replied { name, names, decisions, clock });
        }
        if !stamps.is_empty() {
            entries.push(Entry::Events { generation, probes, stamps });
        }
        entries
    }
}

/// Asks for cells of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskCells {
    /// The number of the slice in the group.
    pub slice: u32,
    /// The greatest unit that has been seen there.
    pub unit: UnitNumber,
    /// Where the cells begin; none for the first.
    pub from: Option<CellPlace>,
}

/// Some cells of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellParts {
    /// The number of the slice in the group.
    pub slice: u32,
    /// The place that was asked for.
    pub asked: Option<CellPlace>,
    /// The slice's state beside its cells; with the first cells only.
    pub outline: Option<SliceOutline>,
    /// Cells; empty ones are left out.
    pub runs: Vec<CellRun>,
    /// Where the next cells begin; none where there are no more.
    pub next: Option<CellPlace>,
    /// The clock's reading at the sender.
    pub clock: ClockReading,
}

impl CellParts {
    /// The same as parts of a checkpoint, in the order in which they are put in.
    pub fn into_entries(self) -> impl Iterator<Item = Entry> {
        let slice = self.slice;
        let outline = self.outline.map(|outline| Entry::Slice { slice, outline });
        outline.into_iter().chain(self.runs.into_iter().map(move |run| Entry::Cells { slice, run }))
    }
}

/// Cells of a slice for a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupCells {
    /// The cells, as another copy would get them.
    pub parts: CellParts,
    /// The slice has all that was ever recorded in it.
    pub is_complete: bool,
}

/// What a node knows of the past of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// No event that the node may have recorded, or knows to be recorded, is of a later unit.
    pub newest_unit: UnitNumber,
    /// Before this message, the node has sent all events that it has recorded while the other was away.
    pub has_handed_over: bool,
}

/// Events as far as they have been tested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestBatch {
    /// Whose events they are: the first events are those of the first run, and so on.
    pub runs: Vec<TestRun>,
    /// The heads' numbers for them.
    pub tickets: Vec<u64>,
    /// Positions that are not tested yet.
    pub left: PositionLists,
    /// When the events occurred and are judged.
    pub stamps: Vec<Stamp>,
    /// Generations still possible; empty where all are.
    pub generations: Vec<u16>,
    /// The node sends its result to the head, instead of sending the events on.
    pub parallel: bool,
    /// W3C trace context of the first of these events whose producer traces.
    pub traceparent: Option<Arc<str>>,
    /// The least expiry that each event was found with so far; empty outside of trees.
    pub expiries: Vec<UnitNumber>,
}

impl TestBatch {
    /// The run of each event.
    pub fn run_of_each(&self) -> impl Iterator<Item = &TestRun> + Clone {
        self.runs.iter().flat_map(|run| std::iter::repeat_n(run, run.events as usize))
    }

    /// Adds `event`, a run of one event, to the last run where that is like it.
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

/// Keeps the entries of a list that has one for each event, or none at all.
fn keep<T>(list: &mut Vec<T>, are_kept: &[bool]) {
    let mut are_kept = are_kept.iter();
    list.retain(|_| are_kept.next().is_none_or(|is_kept| *is_kept));
}

/// Events that are claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimTests {
    /// The events, with those of their positions of which the receiver has a copy.
    pub test: TestBatch,
    /// By which each is known in tables of claims.
    pub events: Vec<u128>,
}

/// Events of one head that follow each other in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestRun {
    /// The node that has the events in flight.
    pub head: NodeId,
    /// How many they are.
    pub events: u32,
    /// Slices that have lost something are asked too: too few are left without them.
    pub asks_all: bool,
    /// A slice that was asked is incomplete.
    pub degraded: bool,
    /// Milliseconds for which the head still waits for the answer.
    pub deadline_in_ms: u32,
}

impl TestRun {
    /// Whether the head waits for the results.
    fn is_awaited(&self) -> bool {
        self.deadline_in_ms > 0
    }
}

/// Results of tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The head's numbers.
    pub tickets: Vec<u64>,
    /// Whether no position was a zero.
    pub hits: Vec<bool>,
    /// Generations that hold the event: one a hit, or empty where the head need not know.
    pub generations: Vec<u16>,
    /// Events that could not be tested, by index, with the reason.
    pub undecided: Vec<(u32, Reason)>,
    /// Slices that were visited since the head.
    pub slice_visits: u64,
    /// Nodes that were visited since the head, the sender included.
    pub node_visits: u64,
    /// A slice that was asked is incomplete.
    pub degraded: bool,
    /// The least expiry of each hit; empty outside of trees.
    pub expiries: Vec<UnitNumber>,
    /// Events that are claimed and that the sender holds itself for another one, by index, with the milliseconds that are
    /// left of that.
    pub vetoes: Vec<(u32, u32)>,
}

/// The result of one event's test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestAnswer {
    /// The head's number.
    pub(crate) ticket: u64,
    /// The generations that hold the event, none where a position is a zero, and the least expiry.
    pub(crate) found: Sighting,
    /// Why the event could not be tested.
    pub(crate) undecided: Option<Reason>,
    /// For how long the sender holds the event itself for another claim.
    pub(crate) veto_ms: Option<u32>,
}

impl Resolved {
    /// The results, one an event.
    pub(crate) fn answers(&self) -> impl Iterator<Item = TestAnswer> {
        let mut generations = self.generations.iter();
        let mut expiries = self.expiries.iter();
        let mut undecided = self.undecided.iter().peekable();
        let mut vetoes = self.vetoes.iter().peekable();
        self.tickets.iter().enumerate().map(move |(index, ticket)| {
            let mut found = Sighting { generations: 0, expiry: UnitNumber::NEVER };
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

/// Cells to be set, also where they are set already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetBatch {
    /// Acknowledged by this number.
    pub set_number: u64,
    /// The committed number of the generation to set in.
    pub generation: GenerationNumber,
    /// Positions of the receiver's slices.
    pub cells: PositionLists,
    /// When the events occurred and are judged.
    pub stamps: Vec<Stamp>,
}

/// Sets that are done, or were refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAcks {
    /// Done.
    pub set_numbers: Vec<u64>,
    /// Refused: they have recorded nothing.
    pub refused_numbers: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: PeerBody) -> PeerMessage {
        PeerMessage { filter: FilterId(1), epoch: Epoch(1), group: 0, body }
    }

    /// Two events of each head, which waits for so long; the number of an event is its ticket and all that is known of
    /// it.
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
