//! Over streams that may break at any point, every message arrives once and in order.

use std::collections::VecDeque;

use firstseen_routing::{Incarnation, LinkEnd, LinkEnds, LinkError, LinkFull, LinkReceiver, LinkSender, NodeId};
use proptest::prelude::*;

fn ends() -> LinkEnds {
    let end = |node| LinkEnd { node: NodeId(node), incarnation: Incarnation(3) };
    LinkEnds { from: end(1), to: end(2) }
}

/// The next step of a link.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Send,
    Receive,
    /// A frame is received twice.
    ReceiveTwice,
    ReceiveAck,
    /// The stream breaks, and everything in flight in both directions is lost.
    Break,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Push),
        6 => Just(Step::Send),
        4 => Just(Step::Receive),
        1 => Just(Step::ReceiveTwice),
        4 => Just(Step::ReceiveAck),
        1 => Just(Step::Break),
    ];
    prop::collection::vec(step, 0..400)
}

struct Link {
    sender: LinkSender<u64>,
    receiver: LinkReceiver,
    frames: VecDeque<(u64, u64)>,
    acks: VecDeque<u64>,
    pushed: u64,
    delivered: Vec<u64>,
}

impl Link {
    fn new(frames_max: usize) -> Self {
        Self {
            sender: LinkSender::new(ends(), frames_max),
            receiver: LinkReceiver::new(ends()),
            frames: VecDeque::new(),
            acks: VecDeque::new(),
            pushed: 0,
            delivered: Vec::new(),
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Push => match self.sender.push(1000 + self.pushed) {
                Ok(number) => {
                    self.pushed += 1;
                    assert_eq!(number, self.pushed);
                }
                Err(LinkFull(message)) => {
                    assert!(self.sender.is_full());
                    assert_eq!(message, 1000 + self.pushed);
                }
            },
            Step::Send => {
                let next = self.sender.next_to_send().map(|(number, message)| (number, *message));
                self.frames.extend(next);
            }
            Step::Receive => self.receive(1),
            Step::ReceiveTwice => self.receive(2),
            Step::ReceiveAck => {
                if let Some(number) = self.acks.pop_front() {
                    self.sender.acknowledge(number).unwrap();
                }
            }
            Step::Break => {
                self.frames.clear();
                self.acks.clear();
                self.sender.resume(self.receiver.handled()).unwrap();
            }
        }
    }

    fn receive(&mut self, times: usize) {
        if let Some((number, message)) = self.frames.pop_front() {
            for _ in 0..times {
                if self.receiver.accept(number).unwrap() {
                    self.delivered.push(message);
                }
            }
            self.acks.push_back(self.receiver.handled());
        }
    }
}

proptest! {
    #[test]
    fn messages_arrive_once_and_in_order(steps in steps(), frames_max in 1usize..20) {
        let mut link = Link::new(frames_max);
        for step in steps {
            link.run(step);
            prop_assert!(link.sender.unacknowledged_frames() <= frames_max);
            prop_assert!(link.delivered.iter().copied().eq(1000..1000 + link.delivered.len() as u64));
        }
        // On a stream that does not break, everything arrives.
        link.run(Step::Break);
        for _ in 0..frames_max {
            [Step::Send, Step::Receive, Step::ReceiveAck].into_iter().for_each(|step| link.run(step));
        }
        prop_assert_eq!(link.delivered.len() as u64, link.pushed);
        prop_assert_eq!(link.sender.unacknowledged_frames(), 0);
    }
}

#[test]
fn a_gap_is_an_error() {
    let mut receiver = LinkReceiver::new(ends());
    assert_eq!(receiver.accept(1), Ok(true));
    assert_eq!(receiver.accept(3), Err(LinkError::Gap { number: 3, expected: 2 }));
    assert_eq!(receiver.handled(), 1);
}

#[test]
fn acknowledgements_of_another_link_are_errors() {
    let mut sender = LinkSender::new(ends(), 8);
    for message in 0..4 {
        sender.push(message).unwrap();
    }
    assert_eq!(sender.acknowledge(1), Err(LinkError::NotSent { number: 1, sent: 0 }));
    sender.next_to_send();
    sender.next_to_send();
    sender.acknowledge(2).unwrap();
    sender.acknowledge(1).unwrap();
    assert_eq!(sender.unacknowledged_frames(), 2);
    assert_eq!(sender.resume(5), Err(LinkError::NotSent { number: 5, sent: 4 }));
    assert_eq!(sender.resume(1), Err(LinkError::Forgotten { number: 1, acknowledged: 2 }));
    // A message that was never sent on this stream may have been sent on the previous one.
    assert_eq!(sender.resume(3), Ok(()));
    assert_eq!(sender.next_to_send(), Some((4, &3)));
    assert_eq!(sender.next_to_send(), None);
}
