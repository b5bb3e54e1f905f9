//! A link between two processes: messages in order, exactly once, over streams that break.
//!
//! The sender numbers messages from 1 and keeps them until they are acknowledged. When a stream breaks, the next one
//! begins with what the receiver has handled; the sender forgets up to there and sends the rest again. The receiver
//! drops messages that it has handled already, and a gap is an error: streams deliver in order, so a gap can only be a
//! mistake.
//!
//! Promises: every message is delivered once, in the order of [`LinkSender::push`], as long as both processes live; the
//! number of messages kept is bounded. A process that starts anew is another end, and its links begin at 1. Must not
//! know: streams, what messages say.

use std::collections::VecDeque;

use thiserror::Error;

use crate::ids::{Incarnation, NodeId};

/// One process at the end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkEnd {
    /// Its node.
    pub node: NodeId,
    /// Its start.
    pub incarnation: Incarnation,
}

/// The two ends of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkEnds {
    /// The sender of messages.
    pub from: LinkEnd,
    /// Their receiver.
    pub to: LinkEnd,
}

/// A mistake of the other end. The stream is to be ended, and the link with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// Messages are missing.
    #[error("message {number} came where {expected} was next: the sender has lost messages, start its node again")]
    Gap {
        /// The number that came.
        number: u64,
        /// The number that was expected.
        expected: u64,
    },
    /// Messages were acknowledged that were not sent.
    #[error("message {number} was acknowledged, but {sent} was the last: the receiver belongs to another link")]
    NotSent {
        /// The number that was acknowledged.
        number: u64,
        /// The last that was sent.
        sent: u64,
    },
    /// The receiver has forgotten messages that it had acknowledged.
    #[error(
        "the receiver goes on after message {number}, but had acknowledged {acknowledged}: it was started again under \
         its old incarnation"
    )]
    Forgotten {
        /// The message after which it goes on.
        number: u64,
        /// The last message that it had acknowledged.
        acknowledged: u64,
    },
}

/// The message that found no room, given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many messages of the link are not acknowledged: wait, or take the peer for lost")]
pub struct LinkFull<M>(pub M);

/// The sending end.
///
/// ```
/// use firstseen_routing::{Incarnation, LinkEnd, LinkEnds, LinkReceiver, LinkSender, NodeId};
/// let end = |node| LinkEnd { node: NodeId(node), incarnation: Incarnation(1) };
/// let ends = LinkEnds { from: end(1), to: end(2) };
/// let (mut sender, mut receiver) = (LinkSender::new(ends, 16), LinkReceiver::new(ends));
/// ["one", "two"].map(|message| sender.push(message).unwrap());
/// assert_eq!(sender.next_to_send(), Some((1, &"one")));
/// assert_eq!(receiver.accept(1), Ok(true));
/// // The stream breaks before "two" is sent and "one" acknowledged.
/// sender.resume(receiver.handled()).unwrap();
/// assert_eq!(sender.next_to_send(), Some((2, &"two")));
/// ```
#[derive(Clone, Debug)]
pub struct LinkSender<M> {
    ends: LinkEnds,
    /// Messages not acknowledged; the first is number `acknowledged + 1`.
    kept: VecDeque<M>,
    acknowledged: u64,
    /// The last message that the present stream was given.
    sent: u64,
    unacknowledged_frames_max: usize,
}

impl<M> LinkSender<M> {
    /// A link that has sent nothing, and keeps `unacknowledged_frames_max` messages at most.
    pub fn new(ends: LinkEnds, unacknowledged_frames_max: usize) -> Self {
        Self { ends, kept: VecDeque::new(), acknowledged: 0, sent: 0, unacknowledged_frames_max }
    }

    /// The two ends of the link.
    pub fn ends(&self) -> LinkEnds {
        self.ends
    }

    /// Adds a message and returns its number.
    ///
    /// # Errors
    /// [`LinkFull`], with the message.
    pub fn push(&mut self, message: M) -> Result<u64, LinkFull<M>> {
        if self.kept.len() >= self.unacknowledged_frames_max {
            return Err(LinkFull(message));
        }
        self.kept.push_back(message);
        Ok(self.last())
    }

    /// The next message for the stream at hand. It counts as sent from now on, until the next [`Self::resume`].
    pub fn next_to_send(&mut self) -> Option<(u64, &M)> {
        let place = usize::try_from(self.sent - self.acknowledged).ok()?;
        let message = self.kept.get(place)?;
        self.sent += 1;
        Some((self.sent, message))
    }

    /// Everything up to `number` has been handled. An older acknowledgement says nothing.
    ///
    /// # Errors
    /// [`LinkError::NotSent`].
    pub fn acknowledge(&mut self, number: u64) -> Result<(), LinkError> {
        if number > self.sent {
            return Err(LinkError::NotSent { number, sent: self.sent });
        }
        self.forget_to(number);
        Ok(())
    }

    /// A new stream, whose receiver has handled everything up to `handled`: the rest is to be sent, again or at last.
    ///
    /// # Errors
    /// [`LinkError::NotSent`], [`LinkError::Forgotten`].
    pub fn resume(&mut self, handled: u64) -> Result<(), LinkError> {
        if handled > self.last() {
            return Err(LinkError::NotSent { number: handled, sent: self.last() });
        }
        if handled < self.acknowledged {
            return Err(LinkError::Forgotten { number: handled, acknowledged: self.acknowledged });
        }
        self.forget_to(handled);
        self.sent = handled;
        Ok(())
    }

    fn forget_to(&mut self, number: u64) {
        while self.acknowledged < number && self.kept.pop_front().is_some() {
            self.acknowledged += 1;
        }
    }

    fn last(&self) -> u64 {
        self.acknowledged + self.kept.len() as u64
    }

    /// Messages that are not acknowledged.
    pub fn unacknowledged_frames(&self) -> usize {
        self.kept.len()
    }

    /// Whether another message would be refused.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= self.unacknowledged_frames_max
    }
}

/// The receiving end.
#[derive(Clone, Copy, Debug)]
pub struct LinkReceiver {
    ends: LinkEnds,
    handled: u64,
}

impl LinkReceiver {
    /// A link that has received nothing.
    pub fn new(ends: LinkEnds) -> Self {
        Self { ends, handled: 0 }
    }

    /// The two ends of the link.
    pub fn ends(&self) -> LinkEnds {
        self.ends
    }

    /// Whether message `number` is to be handled: `false` where it has been. It counts as handled from now on.
    ///
    /// # Errors
    /// [`LinkError::Gap`].
    pub fn accept(&mut self, number: u64) -> Result<bool, LinkError> {
        let expected = self.handled + 1;
        if number > expected {
            return Err(LinkError::Gap { number, expected });
        }
        self.handled = self.handled.max(number);
        Ok(number == expected)
    }

    /// The last message that was handled: this is acknowledged, and sent at the beginning of a stream.
    pub fn handled(&self) -> u64 {
        self.handled
    }
}
