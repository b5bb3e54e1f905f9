//! Limits the body of a call while it arrives.
//!
//! # Guarantees
//! - No message is longer than its call allows.
//! - A message is received only after its full length has been reserved in the byte budget.
//! - A message that takes too long to arrive ends its call.
//! - A message is charged until the call requests the next message. If the call has only one message, the charge lasts
//!   until the call ends.
//!
//! This module does not depend on the content of the messages.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use firstseen_wire::status::ErrorKind;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;

use super::Call;
use super::rules::Bulk;

/// Length of the gRPC prefix before each message, in bytes. The prefix contains the compression flag and the length of
/// the message.
const HEAD_BYTES: usize = 5;

/// A request body whose messages are measured and charged.
pub(super) struct Measured {
    body: Body,
    bulk: Bulk,
    call: Arc<Call>,
    progress: BodyProgress,
    /// Number of bytes that are currently charged for messages.
    charged: u64,
    /// Time since when the rest of a message has been awaited. For a call with a single message, the time starts with
    /// the call.
    since: Option<Instant>,
    /// Timer for the next check of `since`. The timer is not reset for every message, because that would be more
    /// expensive.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// Position in the sequence of messages of a body.
#[derive(Default)]
struct BodyProgress {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Total number of bytes of the message that is arriving, and the number of bytes that are still missing.
    message: u64,
    missing: u64,
    messages: u64,
}

impl BodyProgress {
    /// Processes received data, and calls `begin` with the length of each message that begins.
    fn pass(&mut self, mut data: &[u8], mut begin: impl FnMut(u64) -> Result<(), Status>) -> Result<(), Status> {
        while !data.is_empty() {
            if self.missing > 0 {
                let here = data.len().min(usize::try_from(self.missing).unwrap_or(usize::MAX));
                self.missing -= here as u64;
                data = &data[here..];
                continue;
            }
            self.message = 0;
            let (taken, rest) = data.split_at(data.len().min(HEAD_BYTES - self.head_bytes));
            self.head[self.head_bytes..][..taken.len()].copy_from_slice(taken);
            self.head_bytes += taken.len();
            data = rest;
            if self.head_bytes == HEAD_BYTES {
                let [_, length @ ..] = self.head;
                self.head_bytes = 0;
                self.messages += 1;
                self.message = u64::from(u32::from_be_bytes(length));
                begin(self.message)?;
                self.missing = self.message;
            }
        }
        Ok(())
    }

    /// Returns the length of a message that has begun but not ended, in bytes.
    fn unfinished(&self) -> u64 {
        if self.missing > 0 { self.message } else { 0 }
    }

    fn is_between_messages(&self) -> bool {
        self.missing == 0 && self.head_bytes == 0
    }
}

impl Measured {
    pub(super) fn new(body: Body, bulk: Bulk, call: Arc<Call>) -> Self {
        let since = (!bulk.is_stream).then(Instant::now);
        Self { body, bulk, call, progress: BodyProgress::default(), charged: 0, since, alarm: None }
    }

    /// Processes received data, and charges the messages that begin.
    fn pass(&mut self, data: &[u8]) -> Result<(), Status> {
        let Self { bulk, call, charged, progress, .. } = self;
        let goes_on = (data.len() as u64) < progress.missing;
        let mut left = bulk.messages_max() - progress.messages;
        let max = bulk.message_bytes_max;
        progress.pass(data, |bytes| {
            left = left.checked_sub(1).ok_or_else(|| ErrorKind::Invalid.status("the call accepts only one message"))?;
            if bytes > max {
                let what = format!("a message of {bytes} bytes is refused: the call takes {max}");
                return Err(ErrorKind::Invalid.status(what));
            }
            call.grow(bytes)?;
            *charged += bytes;
            Ok(())
        })?;
        if bulk.is_stream && !goes_on {
            self.since = (!self.progress.is_between_messages()).then(Instant::now);
        }
        Ok(())
    }

    /// Releases the charge for complete messages. A service that requests more data of a stream has processed all
    /// earlier messages.
    fn let_go(&mut self) {
        if self.bulk.is_stream {
            let unfinished = self.progress.unfinished();
            let read = mem::replace(&mut self.charged, unfinished).saturating_sub(unfinished);
            if read > 0 {
                self.call.shrink(read);
            }
        }
    }

    /// Completes with an error when an awaited message takes too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        let Some(since) = self.since else { return Poll::Pending };
        let end = since + self.bulk.patience;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(end)));
        loop {
            ready!(alarm.as_mut().poll(cx));
            if end <= Instant::now() {
                let seconds = self.bulk.patience.as_secs();
                return Poll::Ready(
                    ErrorKind::Unavailable.status(format!("the message took over {seconds} s to arrive")),
                );
            }
            alarm.as_mut().reset(end);
        }
    }
}

impl HttpBody for Measured {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.let_go();
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let passed = frame.data_ref().map_or(Ok(()), |data| self.pass(data));
                Poll::Ready(Some(passed.map(|()| frame)))
            }
            Poll::Pending => self.poll_late(cx).map(|status| Some(Err(status))),
            end => end,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
