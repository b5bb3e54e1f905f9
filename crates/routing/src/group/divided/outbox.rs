//! Messages to the nodes of a group, gathered while one input is worked on.
//!
//! Promises: entries for a node leave in the order in which they were added, in as few messages as limits allow. Must
//! not know: why they are sent.

use std::sync::Arc;

use firstseen_filter::{Sighting, Stamp};

use crate::group::site::Sender;
use crate::ids::NodeId;
use crate::protocol::{Command, PeerBody, Resolved, SetAcks, SetBatch, TestBatch};
use crate::verdict::Reason;

/// Events of one message.
const MESSAGE_EVENTS_MAX: usize = 1 << 12;

/// An event to be tested elsewhere.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) head: NodeId,
    pub(crate) ticket: u64,
    pub(crate) stamp: Stamp,
    /// What the slices that were asked leave possible.
    pub(crate) found: Sighting,
    /// Whether the event's head is to learn the expiry.
    pub(crate) in_tree: bool,
    pub(crate) parallel: bool,
    /// Slices that have lost something are asked too.
    pub(crate) asks_all: bool,
    pub(crate) deadline_in_ms: u32,
    /// A slice that was asked is incomplete.
    pub(crate) degraded: bool,
    pub(crate) traceparent: Option<&'a Arc<str>>,
}

/// The result of an event's test.
#[derive(Clone, Copy)]
pub(crate) enum Finding {
    /// The generations that hold it, none where a position is a zero, and the least expiry, and whether the head is to
    /// learn that.
    Found(Sighting, bool),
    /// The event could not be tested.
    Undecided(Reason),
}

/// Messages under construction, by node.
pub(crate) struct Outbox {
    sender: Sender,
    letters: Vec<(NodeId, Letters)>,
    /// Messages that have as many events as one may have, and other commands.
    full: Vec<Command>,
    next_set_number: u64,
}

#[derive(Default)]
struct Letters {
    test: TestBatch,
    resolved: Resolved,
    set: SetBatch,
    acks: SetAcks,
}

impl Outbox {
    pub(crate) fn new(sender: Sender) -> Self {
        Self { sender, letters: Vec::new(), full: Vec::new(), next_set_number: 0 }
    }

    /// Numbers sets from here on, apart from those that an owner of this group has given in another process.
    pub(crate) fn number_sets_from(&mut self, number: u64) {
        self.next_set_number = number;
    }

    /// The epoch that messages are sent under.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        self.sender.epoch = epoch;
    }

    fn letters(&mut self, to: NodeId) -> &mut Letters {
        let index = match self.letters.iter().position(|(node, _)| *node == to) {
            Some(index) => index,
            None => {
                self.letters.push((to, Letters::default()));
                self.letters.len() - 1
            }
        };
        &mut self.letters[index].1
    }

    /// Asks `to` about the positions of `left`.
    pub(crate) fn test(&mut self, to: NodeId, question: Question<'_>, left: impl IntoIterator<Item = u64>) {
        let sender = self.sender;
        let test = &mut self.letters(to).test;
        let Question { head, parallel, asks_all, degraded, .. } = question;
        let fits = (test.head, test.parallel, test.asks_all, test.degraded) == (head, parallel, asks_all, degraded);
        if !test.tickets.is_empty() && (!fits || test.tickets.len() >= MESSAGE_EVENTS_MAX) {
            let test = PeerBody::Test(std::mem::take(test));
            self.full.push(sender.send(to, test));
        }
        let test = &mut self.letters(to).test;
        if test.tickets.is_empty() {
            (test.head, test.parallel, test.asks_all, test.degraded) = (head, parallel, asks_all, degraded);
            test.deadline_in_ms = question.deadline_in_ms;
        }
        test.deadline_in_ms = test.deadline_in_ms.max(question.deadline_in_ms);
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

    /// Sends `head` the result of a test, and whether it rests on an incomplete slice.
    pub(crate) fn resolve(&mut self, head: NodeId, ticket: u64, finding: Finding, slice_visits: u64, degraded: bool) {
        let resolved = &mut self.letters(head).resolved;
        resolved.degraded |= degraded;
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
        }
        resolved.tickets.push(ticket);
        resolved.slice_visits += slice_visits;
        resolved.node_visits += u64::from(slice_visits > 0);
    }

    /// Has `to` set cells in generation `number`; gives the number of the set.
    pub(crate) fn set(&mut self, to: NodeId, number: u64, cells: impl IntoIterator<Item = u64>, stamp: Stamp) -> u64 {
        let (sender, next) = (self.sender, self.next_set_number);
        let set = &mut self.letters(to).set;
        let starts = set.stamps.is_empty() || set.generation != number || set.stamps.len() >= MESSAGE_EVENTS_MAX;
        if starts && !set.stamps.is_empty() {
            let set = PeerBody::Set(std::mem::take(set));
            self.full.push(sender.send(to, set));
        }
        let set = &mut self.letters(to).set;
        if starts {
            (set.set_number, set.generation) = (next, number);
        }
        set.cells.push(cells);
        set.stamps.push(stamp);
        let set_number = set.set_number;
        self.next_set_number += u64::from(starts);
        set_number
    }

    /// Sends `head` word that a set is done, or was refused.
    pub(crate) fn acknowledge(&mut self, head: NodeId, set_number: u64, done: bool) {
        let acks = &mut self.letters(head).acks;
        let numbers = if done { &mut acks.set_numbers } else { &mut acks.refused_numbers };
        numbers.push(set_number);
    }

    /// Sends `body` to `to`, ahead of what is gathered.
    pub(crate) fn send_ahead(&mut self, to: NodeId, body: PeerBody) {
        self.full.push(self.sender.send(to, body));
    }

    /// Sends `body` to `to`, behind the sets that are gathered for it.
    pub(crate) fn send_behind(&mut self, to: NodeId, body: PeerBody) {
        let set = &mut self.letters(to).set;
        if !set.stamps.is_empty() {
            let set = PeerBody::Set(std::mem::take(set));
            self.send_ahead(to, set);
        }
        self.send_ahead(to, body);
    }

    /// Forgets messages gathered for other nodes; other commands are given.
    pub(crate) fn begin_anew(&mut self, commands: &mut Vec<Command>) {
        self.letters.clear();
        commands.extend(self.full.drain(..).filter(|command| !matches!(command, Command::Send { .. })));
    }

    /// Whether something was gathered while there was no input.
    pub(crate) fn has_gathered(&self) -> bool {
        !self.full.is_empty()
    }

    /// Adds another command.
    pub(crate) fn push(&mut self, command: Command) {
        self.full.push(command);
    }

    /// Sends all that was gathered.
    pub(crate) fn flush(&mut self, commands: &mut Vec<Command>) {
        let sender = self.sender;
        commands.append(&mut self.full);
        for (to, letters) in &mut self.letters {
            if !letters.set.stamps.is_empty() {
                commands.push(sender.send(*to, PeerBody::Set(std::mem::take(&mut letters.set))));
            }
            if !letters.test.tickets.is_empty() {
                let mut test = std::mem::take(&mut letters.test);
                if test.generations.iter().all(|generations| *generations == u16::MAX) {
                    test.generations.clear();
                }
                commands.push(sender.send(*to, PeerBody::Test(test)));
            }
            if !letters.resolved.tickets.is_empty() {
                commands.push(sender.send(*to, PeerBody::Resolved(std::mem::take(&mut letters.resolved))));
            }
            if !letters.acks.set_numbers.is_empty() || !letters.acks.refused_numbers.is_empty() {
                commands.push(sender.send(*to, PeerBody::SetAcks(std::mem::take(&mut letters.acks))));
            }
        }
    }
}
