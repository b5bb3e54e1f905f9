//! Messages that a link has taken from its queue but not yet numbered.
//!
//! # Guarantees
//! - The messages leave in the order in which they arrived.
//! - Events of several head nodes share a message only if the peer has announced that it supports such messages.
//!   Otherwise the link splits them into one message for each head.
//!
//! This module does not depend on connections.

use std::collections::VecDeque;

use firstseen_routing::{PeerBody, PeerMessage};
use firstseen_wire::tests_of_heads;

use crate::link_handle::Queued;

/// Messages without a frame number.
#[derive(Debug, Default)]
pub(super) struct Unnumbered {
    messages: VecDeque<Queued>,
    /// Whether the peer supported events of several head nodes in one message when it last connected.
    takes_tests: bool,
}

impl Unnumbered {
    /// Notes, for a new connection, whether the peer supports events of several head nodes in one message.
    pub(super) fn hear(&mut self, takes_tests: bool) {
        self.takes_tests = takes_tests;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds a message, splitting it if necessary. Returns the number of additional messages that result from the split.
    pub(super) fn take_up(&mut self, Queued { message, since_ms }: Queued) -> usize {
        let before = self.messages.len();
        match message.body {
            PeerBody::Test(test) if test.runs.len() > 1 && !self.takes_tests => {
                let parts = tests_of_heads::by_run(test).map(|test| {
                    let message = PeerMessage { body: PeerBody::Test(test), ..message };
                    Queued { message, since_ms }
                });
                self.messages.extend(parts);
            }
            body => self.messages.push_back(Queued { message: PeerMessage { body, ..message }, since_ms }),
        }
        self.messages.len() - before - 1
    }

    /// Returns the message that leaves next.
    pub(super) fn next(&mut self) -> Option<Queued> {
        self.messages.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use firstseen_routing::{Epoch, FilterId, MonotonicMs, NodeId, TestBatch, TestRun};

    use super::*;

    /// Creates a message with one event of each head. The ticket of each event is the number of its head.
    fn tests_of(heads: &[u64]) -> Queued {
        let mut test = TestBatch { tickets: heads.to_vec(), ..TestBatch::default() };
        for head in heads {
            test.runs.push(TestRun { head: NodeId(*head), events: 1, ..TestRun::default() });
            test.left.push([*head]);
            test.stamps.push(firstseen_filter::Stamp::default());
        }
        let message = PeerMessage { filter: FilterId(1), epoch: Epoch(1), group: 0, body: PeerBody::Test(test) };
        Queued { message, since_ms: MonotonicMs(7) }
    }

    fn taken(unnumbered: &mut Unnumbered) -> Vec<Queued> {
        std::iter::from_fn(|| unnumbered.next()).collect()
    }

    #[test]
    fn a_peer_that_has_not_said_that_it_takes_them_gets_no_events_of_several_heads_in_one_message() {
        let mut unnumbered = Unnumbered::default();
        assert_eq!(unnumbered.take_up(tests_of(&[1, 2, 3])), 2);
        assert_eq!(unnumbered.take_up(tests_of(&[4])), 0);
        assert_eq!(taken(&mut unnumbered), [1, 2, 3, 4].map(|head| tests_of(&[head])));
        assert!(unnumbered.is_empty());
    }

    #[test]
    fn a_peer_that_takes_them_gets_events_of_several_heads_as_they_came() {
        let mut unnumbered = Unnumbered::default();
        unnumbered.hear(true);
        assert_eq!(unnumbered.take_up(tests_of(&[1, 2])), 0);
        assert_eq!(taken(&mut unnumbered), [tests_of(&[1, 2])]);
        // The peer reconnects with a version that does not support shared messages.
        unnumbered.hear(false);
        assert_eq!(unnumbered.take_up(tests_of(&[1, 2])), 1);
        assert_eq!(taken(&mut unnumbered), [1, 2].map(|head| tests_of(&[head])));
    }
}
