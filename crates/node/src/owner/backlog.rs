//! Messages of one owner that found no room on the link to their node.
//!
//! # Guarantees
//! - Messages that are sent only once are kept and leave in order as soon as there is room. These are sets of cells,
//!   acknowledgements, records for other copies, and messages about the handover of slices.
//! - The number of kept messages is bounded by the events in flight, plus the copies that a newer cluster map causes to
//!   be sent again.
//! - Tests and their results are dropped. The head node that waits for them stops waiting when its deadline ends.
//!
//! This module does not depend on links or on the meaning of events.

use std::collections::{BTreeMap, VecDeque};

use firstseen_routing::{NodeId, PeerMessage};

/// The waiting messages by destination node. The map contains no empty queues.
#[derive(Default)]
pub(super) struct Backlog {
    waiting: BTreeMap<NodeId, VecDeque<PeerMessage>>,
}

impl Backlog {
    /// Sends a message to node `to`. The messages to a node must arrive in the order in which they were created. If
    /// earlier messages to this node are still waiting because its link has no room, the new message is therefore
    /// queued behind them. Otherwise, the message is passed to `link`, a function that returns the message if the link
    /// has no room for it.
    pub(super) fn send(
        &mut self,
        to: NodeId,
        message: PeerMessage,
        link: impl Fn(NodeId, PeerMessage) -> Option<PeerMessage>,
    ) {
        let refused = if self.waiting.contains_key(&to) { Some(message) } else { link(to, message) };
        match refused {
            Some(kept) if kept.body.is_sent_once() => self.waiting.entry(to).or_default().push_back(kept),
            Some(_) => tracing::debug!(%to, "the queue to a node is full: a test is dropped"),
            None => {}
        }
    }

    /// Sends as many waiting messages through `link` as it has room for.
    pub(super) fn send_again(&mut self, link: impl Fn(NodeId, PeerMessage) -> Option<PeerMessage>) {
        self.waiting.retain(|to, messages| {
            while let Some(message) = messages.pop_front() {
                if let Some(refused) = link(*to, message) {
                    messages.push_front(refused);
                    return true;
                }
            }
            false
        });
    }

    /// Drops all messages to a node whose process has ended.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.waiting.remove(&node);
    }

    /// Returns whether no message waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use firstseen_routing::{Epoch, FilterId, HandedOver, PeerBody, Resolved, SetAcks, SetBatch, TestBatch};

    use super::*;

    fn message(epoch: u64, body: PeerBody) -> PeerMessage {
        PeerMessage { filter: FilterId(1), epoch: Epoch(epoch), group: 0, body }
    }

    #[test]
    fn sets_wait_for_room_and_tests_do_not() {
        let (to, other) = (NodeId(2), NodeId(3));
        let (room, sent) = (RefCell::new(0), RefCell::new(Vec::new()));
        let link = |_, message: PeerMessage| {
            let mut room = room.borrow_mut();
            if *room == 0 {
                return Some(message);
            }
            *room -= 1;
            sent.borrow_mut().push(message.epoch.0);
            None
        };
        let mut backlog = Backlog::default();
        backlog.send(to, message(1, PeerBody::Set(SetBatch::default())), link);
        backlog.send(to, message(2, PeerBody::Test(TestBatch::default())), link);
        backlog.send(to, message(3, PeerBody::Resolved(Resolved::default())), link);
        *room.borrow_mut() = 2;
        backlog.send(to, message(4, PeerBody::SetAcks(SetAcks::default())), link);
        backlog.send(to, message(7, PeerBody::HandedOver(HandedOver { epoch: Epoch::FIRST, told_for_ms: 0 })), link);
        assert!(sent.borrow().is_empty() && !backlog.is_empty(), "it does not overtake the set");
        backlog.send(other, message(5, PeerBody::Test(TestBatch::default())), link);
        backlog.send_again(link);
        assert_eq!(*sent.borrow(), [5, 1]);
        backlog.send_again(link);
        assert!(!backlog.is_empty());
        *room.borrow_mut() = 9;
        backlog.send_again(link);
        assert_eq!(*sent.borrow(), [5, 1, 4, 7]);
        assert!(backlog.is_empty());
        *room.borrow_mut() = 0;
        backlog.send(to, message(6, PeerBody::Set(SetBatch::default())), link);
        backlog.forget(to);
        assert!(backlog.is_empty());
    }
}
