//! Link between two processes, which delivers messages in order and exactly once over streams that can break. The
//! sender numbers its messages, starting with 1, and keeps each message until the receiver has acknowledged it. When a
//! stream breaks, the sender opens a new stream, and the receiver tells the number of the last message that it has
//! handled. The sender then drops all messages up to that number and sends the later messages again.
//!
//! The receiver of a link ignores messages that it has already handled. If a message number is missing, the receiver
//! reports an error. A stream delivers messages in order, so a missing number can only be caused by a defect in the
//! program.
//!
//! # Guarantees
//!
//! - As long as both processes live, every message is delivered once, in the order of the calls of
//!   [`LinkSender::push`].
//! - The number of stored messages is bounded.
//! - A process that restarts is a new link end, and the numbers of its links begin with 1 again.
//!
//! This module does not depend on the streams or on the contents of the messages.

use std::collections::VecDeque;

use thiserror::Error;

use crate::ids::{Incarnation, NodeId};

/// Process at one end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkEnd {
    /// Node that the process belongs to.
    pub node: NodeId,
    /// Incarnation of the node, which counts the starts of its process.
    pub incarnation: Incarnation,
}

/// Both ends of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkEnds {
    /// Process that sends the messages.
    pub from: LinkEnd,
    /// Process that receives the messages.
    pub to: LinkEnd,
}

/// Protocol error of the other end. The caller must close the stream and the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// Messages are missing.
    #[error(
        "received message {number}, but expected message {expected}: the sender has lost messages, restart its node"
    )]
    Gap {
        /// Number of the received message.
        number: u64,
        /// Number of the expected message.
        expected: u64,
    },
    /// The receiver acknowledged messages that were never sent.
    #[error(
        "message {number} was acknowledged, but {sent} was the last one sent: the receiver belongs to another link"
    )]
    NotSent {
        /// Number that the receiver acknowledged.
        number: u64,
        /// Number of the last message that was sent.
        sent: u64,
    },
    /// The receiver no longer knows messages that it has acknowledged.
    #[error(
        "the receiver wants to continue after message {number}, but has acknowledged message {acknowledged}: it was \
         restarted under its former incarnation"
    )]
    Forgotten {
        /// Number of the message after which the receiver wants to continue.
        number: u64,
        /// Number of the last message that the receiver acknowledged.
        acknowledged: u64,
    },
}

/// Error returned when the link has no room for another message. It contains the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many messages on the link are not acknowledged: wait, or treat the peer as failed")]
pub struct LinkFull<M>(pub M);

/// Sending end of a link.
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
    /// Messages that are not acknowledged. The first of them has the number `acknowledged + 1`.
    kept: VecDeque<M>,
    acknowledged: u64,
    /// Number of the last message that was handed to the current stream.
    sent: u64,
    unacknowledged_frames_max: usize,
}

impl<M> LinkSender<M> {
    /// Creates a link that has sent nothing yet. The link keeps at most `unacknowledged_frames_max` messages.
    pub fn new(ends: LinkEnds, unacknowledged_frames_max: usize) -> Self {
        Self { ends, kept: VecDeque::new(), acknowledged: 0, sent: 0, unacknowledged_frames_max }
    }

    /// Returns both ends of the link.
    pub fn ends(&self) -> LinkEnds {
        self.ends
    }

    /// Adds a message and returns its number.
    ///
    /// # Errors
    /// Returns [`LinkFull`], which contains the message, if the link already keeps its maximum number of messages.
    pub fn push(&mut self, message: M) -> Result<u64, LinkFull<M>> {
        if self.kept.len() >= self.unacknowledged_frames_max {
            return Err(LinkFull(message));
        }
        self.kept.push_back(message);
        Ok(self.last())
    }

    /// Returns the next message for the current stream. The message counts as sent until the next call of
    /// [`Self::resume`].
    pub fn next_to_send(&mut self) -> Option<(u64, &M)> {
        let place = usize::try_from(self.sent - self.acknowledged).ok()?;
        let message = self.kept.get(place)?;
        self.sent += 1;
        Some((self.sent, message))
    }

    /// Drops all messages up to `number`, because the receiver has handled them. An acknowledgement that is older than
    /// the last one has no effect.
    ///
    /// # Errors
    /// Returns [`LinkError::NotSent`] if the message was never sent.
    pub fn acknowledge(&mut self, number: u64) -> Result<(), LinkError> {
        if number > self.sent {
            return Err(LinkError::NotSent { number, sent: self.sent });
        }
        self.forget_to(number);
        Ok(())
    }

    /// Continues the link on a new stream. The receiver has handled all messages up to number `handled`, so these
    /// messages are dropped. All later messages are sent on the new stream, including those that were already sent on
    /// an earlier stream.
    ///
    /// # Errors
    /// Returns [`LinkError::NotSent`] if the message `handled` was never sent, and [`LinkError::Forgotten`] if the
    /// receiver had acknowledged later messages.
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

    /// Returns the number of messages that are not acknowledged.
    pub fn unacknowledged_frames(&self) -> usize {
        self.kept.len()
    }

    /// Returns whether [`Self::push`] would reject another message.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= self.unacknowledged_frames_max
    }
}

/// Receiving end of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkReceiver {
    ends: LinkEnds,
    handled: u64,
}

impl LinkReceiver {
    /// Creates a link that has received nothing yet.
    pub fn new(ends: LinkEnds) -> Self {
        Self { ends, handled: 0 }
    }

    /// Returns both ends of the link.
    pub fn ends(&self) -> LinkEnds {
        self.ends
    }

    /// Returns whether the caller must handle message `number`, and marks it as handled. `false` means that the message
    /// was handled before.
    ///
    /// # Errors
    /// Returns [`LinkError::Gap`] if messages before this one are missing.
    pub fn accept(&mut self, number: u64) -> Result<bool, LinkError> {
        let expected = self.handled + 1;
        if number > expected {
            return Err(LinkError::Gap { number, expected });
        }
        self.handled = self.handled.max(number);
        Ok(number == expected)
    }

    /// Returns the number of the last message that was handled. The receiver acknowledges this number, and sends it at
    /// the start of each stream.
    pub fn handled(&self) -> u64 {
        self.handled
    }
}
