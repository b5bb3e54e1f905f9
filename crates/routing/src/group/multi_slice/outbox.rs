//! Outgoing messages of a slice group to other nodes. The messages are collected until the node has processed all
//! inputs that arrived together. Messages to the same node can then be combined.
//!
//! # Guarantees
//!
//! - A node gets sets, tests, results and acknowledgements in the order in which they were added. Each kind of message
//!   keeps its own order, and as few messages are sent as the limits allow.
//! - A message of any other kind is sent after everything that was collected for its node before, and before everything
//!   that is added later.

use std::sync::Arc;

use firstseen_filter::{GenerationNumber, Stamp, TestResult};

use crate::group::rules::{Rule, Rules};
use crate::group::site::Sender;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{ClaimTests, Command, PeerBody, PositionLists, Resolved, SetAcks, SetBatch, TestBatch, TestRun};
use crate::verdict::Reason;

/// Maximum number of events in one message.
const MESSAGE_EVENTS_MAX: usize = 1 << 12;

/// Maximum number of acknowledgements in one message.
const MESSAGE_ACKS_MAX: usize = 1 << 12;

/// An event that another node must test.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) head: NodeId,
    /// Number under which the head knows the event.
    pub(crate) ticket: u64,
    pub(crate) stamp: Stamp,
    /// What the slices that were asked so far leave possible.
    pub(crate) found: TestResult,
    /// Whether the head must learn the expiry of the event's cells. Filter trees need it.
    pub(crate) in_tree: bool,
    pub(crate) parallel: bool,
    /// Whether slices that have lost cells are asked too.
    pub(crate) asks_all: bool,
    pub(crate) deadline_in_ms: u32,
    /// Whether an incomplete slice was asked.
    pub(crate) degraded: bool,
    pub(crate) traceparent: Option<&'a Arc<str>>,
}

/// An event that a client claims.
#[derive(Clone, Copy)]
pub(crate) struct ClaimedEvent {
    pub(crate) head: NodeId,
    /// Number under which the head knows the event.
    pub(crate) ticket: u64,
    /// Hash of the event's positions, which is the key of the claim table.
    pub(crate) event: u128,
    pub(crate) stamp: Stamp,
}

/// Selects the positions of a claimed event that a node must test. Independently of the selection, the node also checks
/// whether it has granted a claim of the event to another client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// The positions that vote on this node. The node must be able to test all of them.
    Voters,
    /// Positions of which the node has copies that do not vote. The node tests those that it can.
    Copies,
}

/// The result of testing an event.
#[derive(Clone, Copy)]
pub(crate) enum Finding {
    /// The event was tested. The first value contains the generations in which all tested cells are set, and the
    /// earliest expiry of these cells. An empty set of generations means that the event is new. The second value states
    /// whether the reply must contain the expiry, because the head of the event needs it.
    Found(TestResult, bool),
    /// The event could not be tested, for this reason.
    Undecided(Reason),
    /// A veto against a claim, because this node holds the event for another client for this many milliseconds.
    Veto(u64),
}

/// Collects messages by destination node.
pub(crate) struct Outbox {
    sender: Sender,
    letters: Vec<(NodeId, PendingMessages)>,
    /// Messages that are closed, and other commands.
    due: Vec<Command>,
    next_set_number: u64,
    rules: Rules,
}

#[derive(Default)]
struct PendingMessages {
    test: TestBatch,
    claims: ClaimTests,
    resolved: Resolved,
    set: SetBatch,
    acks: SetAcks,
}

impl PendingMessages {
    /// Closes everything that was collected for a node. Sets go first, because later messages may rely on the sets
    /// having been sent.
    fn close(&mut self, mut send: impl FnMut(PeerBody)) {
        if !self.set.stamps.is_empty() {
            send(self.close_set());
        }
        if !self.test.tickets.is_empty() {
            send(self.close_test());
        }
        if !self.claims.events.is_empty() {
            send(self.close_claims());
        }
        if !self.resolved.tickets.is_empty() {
            send(self.close_resolved());
        }
        if !self.acks.set_numbers.is_empty() || !self.acks.refused_numbers.is_empty() {
            send(PeerBody::SetAcks(std::mem::take(&mut self.acks)));
        }
    }

    fn close_claims(&mut self) -> PeerBody {
        PeerBody::ClaimTests(Box::new(std::mem::take(&mut self.claims)))
    }

    // The next message will have about the same length, so its memory is reserved at once.

    fn close_set(&mut self) -> PeerBody {
        let next = SetBatch {
            set_number: self.set.set_number,
            cells: like(&self.set.cells),
            stamps: Vec::with_capacity(self.set.stamps.len()),
            ..SetBatch::default()
        };
        PeerBody::Set(std::mem::replace(&mut self.set, next))
    }

    fn close_resolved(&mut self) -> PeerBody {
        let events = self.resolved.tickets.len();
        let next = Resolved {
            tickets: Vec::with_capacity(events),
            hits: Vec::with_capacity(events),
            generations: Vec::with_capacity(self.resolved.generations.len()),
            ..Resolved::default()
        };
        PeerBody::Resolved(std::mem::replace(&mut self.resolved, next))
    }

    fn close_test(&mut self) -> PeerBody {
        let events = self.test.tickets.len();
        let next = TestBatch {
            tickets: Vec::with_capacity(events),
            left: like(&self.test.left),
            stamps: Vec::with_capacity(events),
            generations: Vec::with_capacity(events),
            ..TestBatch::default()
        };
        let mut test = std::mem::replace(&mut self.test, next);
        if test.generations.iter().all(|generations| *generations == u16::MAX) {
            test.generations.clear();
        }
        PeerBody::Test(test)
    }
}

/// Returns empty lists with the capacity of `lists`.
fn like(lists: &PositionLists) -> PositionLists {
    PositionLists {
        counts: Vec::with_capacity(lists.counts.len()),
        positions: Vec::with_capacity(lists.positions.len()),
    }
}

impl Outbox {
    pub(crate) fn new(sender: Sender, rules: Rules) -> Self {
        Self { sender, letters: Vec::new(), due: Vec::new(), next_set_number: 0, rules }
    }

    /// Numbers sets from `number` on. These numbers differ from those of earlier processes of this group's owner.
    pub(crate) fn number_sets_from(&mut self, number: u64) {
        self.next_set_number = number;
    }

    /// Sets the epoch under which messages are sent from now on.
    pub(crate) fn set_epoch(&mut self, epoch: Epoch) {
        if epoch != self.sender.epoch {
            self.close_all();
            self.sender.epoch = epoch;
        }
    }

    fn letters(&mut self, to: NodeId) -> &mut PendingMessages {
        let index = match self.letters.iter().position(|(node, _)| *node == to) {
            Some(index) => index,
            None => {
                self.letters.push((to, PendingMessages::default()));
                self.letters.len() - 1
            }
        };
        &mut self.letters[index].1
    }

    /// Closes the message that `close` returns, and queues it.
    #[cold]
    fn close(&mut self, to: NodeId, close: impl FnOnce(&mut PendingMessages) -> PeerBody) {
        let body = close(self.letters(to));
        self.due.push(self.sender.send(to, body));
    }

    /// Asks node `to` about the positions of `left`.
    pub(crate) fn test(&mut self, to: NodeId, question: Question<'_>, left: impl IntoIterator<Item = u64>) {
        let test = &self.letters(to).test;
        let is_other = test.parallel != question.parallel && !test.tickets.is_empty();
        if test.tickets.len() >= MESSAGE_EVENTS_MAX || is_other {
            self.close(to, PendingMessages::close_test);
        }
        let test = &mut self.letters(to).test;
        test.parallel = question.parallel;
        let Question { head, asks_all, degraded, deadline_in_ms, .. } = question;
        test.add_to_runs(TestRun { head, events: 1, asks_all, degraded, deadline_in_ms });
        if test.traceparent.is_none() {
            test.traceparent = question.traceparent.cloned();
        }
        test.tickets.push(question.ticket);
        test.left.push(left);
        test.stamps.push(question.stamp);
        test.generations.push(question.found.generations);
        if question.in_tree {
            test.expiries.push(question.found.expiry);
        }
    }

    /// Asks node `to` about a claimed event. `there` contains the positions of which the node has copies.
    pub(crate) fn test_claim(
        &mut self,
        to: NodeId,
        ClaimedEvent { head, ticket, event, stamp }: ClaimedEvent,
        asks: Asks,
        there: impl IntoIterator<Item = u64>,
        deadline_in_ms: u32,
    ) {
        let asks_all = asks == Asks::Copies;
        if self.letters(to).claims.events.len() >= MESSAGE_EVENTS_MAX {
            self.close(to, PendingMessages::close_claims);
        }
        let ClaimTests { test, events } = &mut self.letters(to).claims;
        test.add_to_runs(TestRun { head, events: 1, asks_all, degraded: false, deadline_in_ms });
        test.parallel = true;
        test.tickets.push(ticket);
        test.left.push(there);
        test.stamps.push(stamp);
        events.push(event);
    }

    /// Sends the result of a test to `head`. `degraded` states whether the result depends on an incomplete slice.
    pub(crate) fn resolve(&mut self, head: NodeId, ticket: u64, finding: Finding, slice_visits: u64, degraded: bool) {
        let resolved = &self.letters(head).resolved;
        // A message has one flag for all of its events that says whether they are degraded.
        let is_other = resolved.degraded != degraded && !resolved.tickets.is_empty();
        if resolved.tickets.len() >= MESSAGE_EVENTS_MAX || is_other {
            self.close(head, PendingMessages::close_resolved);
        }
        let resolved = &mut self.letters(head).resolved;
        resolved.degraded = degraded;
        match finding {
            Finding::Found(found, in_tree) => {
                resolved.hits.push(found.is_hit());
                if found.is_hit() {
                    resolved.generations.push(found.generations);
                }
                if found.is_hit() && in_tree {
                    resolved.expiries.push(found.expiry);
                }
            }
            Finding::Undecided(reason) => {
                resolved.undecided.push((resolved.tickets.len() as u32, reason));
                resolved.hits.push(false);
            }
            Finding::Veto(left_ms) => {
                let left_ms = u32::try_from(left_ms).unwrap_or(u32::MAX);
                resolved.vetoes.push((resolved.tickets.len() as u32, left_ms));
                resolved.hits.push(false);
            }
        }
        resolved.tickets.push(ticket);
        resolved.slice_visits += slice_visits;
        resolved.node_visits += u64::from(slice_visits > 0);
    }

    /// Asks node `to` to set cells in generation `number`. Returns the number of the set.
    pub(crate) fn set(
        &mut self,
        to: NodeId,
        number: GenerationNumber,
        cells: impl IntoIterator<Item = u64>,
        stamp: Stamp,
    ) -> u64 {
        let set = &self.letters(to).set;
        let is_other = set.generation != number && !set.stamps.is_empty();
        if set.stamps.len() >= MESSAGE_EVENTS_MAX || is_other {
            self.close(to, PendingMessages::close_set);
        }
        let next = self.next_set_number;
        let keeps_numbers = self.rules.keep(Rule::NumbersSets);
        let set = &mut self.letters(to).set;
        if set.stamps.is_empty() {
            set.generation = number;
            // If a test has broken the rule about numbers, a message keeps the number of the message before it.
            if keeps_numbers || set.set_number == 0 {
                set.set_number = next;
            }
        }
        set.cells.push(cells);
        set.stamps.push(stamp);
        let set_number = set.set_number;
        self.next_set_number = next.max(set_number.saturating_add(1));
        set_number
    }

    /// Tells `head` that a set is done or was rejected.
    pub(crate) fn acknowledge(&mut self, head: NodeId, set_number: u64, done: bool) {
        let acks = &self.letters(head).acks;
        if acks.set_numbers.len() + acks.refused_numbers.len() >= MESSAGE_ACKS_MAX {
            self.close(head, |letters| PeerBody::SetAcks(std::mem::take(&mut letters.acks)));
        }
        let acks = &mut self.letters(head).acks;
        let numbers = if done { &mut acks.set_numbers } else { &mut acks.refused_numbers };
        numbers.push(set_number);
    }

    /// Sends `body` to node `to`, after everything that was collected for that node.
    pub(crate) fn send(&mut self, to: NodeId, body: PeerBody) {
        let Self { sender, letters, due, .. } = self;
        if let Some((_, letters)) = letters.iter_mut().find(|(node, _)| *node == to) {
            letters.close(|body| due.push(sender.send(to, body)));
        }
        due.push(sender.send(to, body));
    }

    /// Discards messages that were collected for other nodes, and keeps other commands.
    pub(crate) fn mark_restarted(&mut self) {
        self.letters.clear();
        self.due.retain(|command| !matches!(command, Command::Send { .. }));
    }

    /// Returns whether there are commands that no input has taken along yet.
    pub(crate) fn has_commands(&self) -> bool {
        !self.due.is_empty()
    }

    /// Queues another command.
    pub(crate) fn push(&mut self, command: Command) {
        self.due.push(command);
    }

    /// Closes everything that was collected, and moves all commands into `commands`.
    pub(crate) fn flush(&mut self, commands: &mut Vec<Command>) {
        self.close_all();
        commands.append(&mut self.due);
    }

    fn close_all(&mut self) {
        let Self { sender, letters, due, .. } = self;
        for (to, letters) in letters {
            letters.close(|body| due.push(sender.send(*to, body)));
        }
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::UnitNumber;
    use proptest::prelude::*;

    use super::*;
    use crate::ids::FilterId;
    use crate::protocol::HandedOver;

    const ME: NodeId = NodeId(9);

    fn outbox() -> Outbox {
        let sender = Sender { filter: FilterId(1), epoch: Epoch(1), group: 0 };
        Outbox::new(sender, Rules::default())
    }

    fn question(ticket: u64) -> Question<'static> {
        Question {
            head: ME,
            ticket,
            stamp: Stamp::on_time(UnitNumber(1)),
            found: TestResult::ALL,
            in_tree: false,
            parallel: ticket.is_multiple_of(7),
            asks_all: false,
            deadline_in_ms: 100,
            degraded: false,
            traceparent: None,
        }
    }

    /// Returns the messages that are sent to node `to`.
    fn sent(outbox: &mut Outbox, to: NodeId) -> Vec<PeerBody> {
        let mut commands = Vec::new();
        outbox.flush(&mut commands);
        let bodies = commands.into_iter().filter_map(|command| match command {
            Command::Send { to: node, message } if node == to => Some(message.body),
            _ => None,
        });
        bodies.collect()
    }

    #[test]
    fn results_that_rest_on_an_incomplete_slice_do_not_degrade_others() {
        let (mut outbox, head) = (outbox(), NodeId(2));
        for (ticket, degraded) in [(1, false), (2, true), (3, true), (4, false)] {
            outbox.resolve(head, ticket, Finding::Found(TestResult::ALL, false), 1, degraded);
        }
        let results = sent(&mut outbox, head).into_iter().map(|body| match body {
            PeerBody::Resolved(resolved) => (resolved.tickets, resolved.degraded),
            other => panic!("{other:?}"),
        });
        assert_eq!(results.collect::<Vec<_>>(), [(vec![1], false), (vec![2, 3], true), (vec![4], false)]);
    }

    #[test]
    fn each_message_of_sets_has_a_number_of_its_own() {
        let mut outbox = outbox();
        let mut set =
            |to, generation| outbox.set(NodeId(to), GenerationNumber(generation), [5], Stamp::on_time(UnitNumber(1)));
        let numbers = [set(1, 0), set(1, 0), set(2, 0), set(1, 1), set(2, 0)];
        assert_eq!(numbers, [0, 0, 1, 2, 1]);
    }

    proptest! {
        /// A node gets everything of each kind in order, and any other message keeps its place between them.
        #[test]
        fn a_node_gets_everything_in_order(added in prop::collection::vec((0_u8..5, 0_u64..3), 1..200)) {
            let mut outbox = outbox();
            for (number, (kind, to)) in (0_u64..).zip(&added) {
                let to = NodeId(*to);
                match kind {
                    0 => outbox.test(to, question(number), [number]),
                    1 => outbox.resolve(to, number, Finding::Undecided(Reason::Late), 0, number.is_multiple_of(5)),
                    2 => drop(outbox.set(to, GenerationNumber(number / 50), [number], Stamp::on_time(UnitNumber(number)))),
                    3 => outbox.acknowledge(to, number, true),
                    _ => outbox.send(to, PeerBody::HandedOver(HandedOver { epoch: Epoch(number), told_for_ms: 0 })),
                }
            }
            let mut commands = Vec::new();
            outbox.flush(&mut commands);
            for to in (0..3).map(NodeId) {
                // One list per kind for everything that is sent between two other messages.
                let mut expected = vec![[const { Vec::new() }; 4]];
                for (number, (kind, _)) in (0_u64..).zip(&added).filter(|(_, (_, node))| NodeId(*node) == to) {
                    match kind {
                        4 => expected.push([const { Vec::new() }; 4]),
                        kind => expected.last_mut().unwrap()[usize::from(*kind)].push(number),
                    }
                }
                let mut found = vec![[const { Vec::new() }; 4]];
                for command in &commands {
                    let Command::Send { to: node, message } = command else { continue };
                    if *node != to {
                        continue;
                    }
                    let last = found.last_mut().unwrap();
                    match &message.body {
                        PeerBody::Test(test) => last[0].extend(&test.tickets),
                        PeerBody::Resolved(resolved) => last[1].extend(&resolved.tickets),
                        PeerBody::Set(set) => last[2].extend(set.stamps.iter().map(|stamp| stamp.unit.0)),
                        PeerBody::SetAcks(acks) => last[3].extend(&acks.set_numbers),
                        _ => found.push([const { Vec::new() }; 4]),
                    }
                }
                prop_assert_eq!(found, expected);
            }
        }
    }
}
