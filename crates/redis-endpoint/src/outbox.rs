//! Sends the replies of one connection.
//!
//! A reply is sent as soon as it is ready, even if later commands of the same connection are still waiting for slow
//! calls. If a client does not read its replies within a time limit, the endpoint closes the connection.
//!
//! This module does not depend on commands.

use std::pin::pin;
use std::time::Duration;

use firstseen_resp::{Protocol, Replies};
use futures_util::future::join;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum time for a client to read its replies, which are at most a few MiB.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that ready replies wait for further replies, so that they are sent together.
const HELD_BACK_MAX: Duration = Duration::from_millis(20);

/// Reason why no further replies can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendError {
    /// The connection is closed.
    Gone,
    /// The client has not read its replies within the time limit.
    Late,
}

/// Replies that have not been sent yet, and the connection that they belong to.
pub(crate) struct Outbox {
    replies: Replies,
    sent_bytes: u64,
    /// Time since which the first of these replies has been waiting.
    held_since: Option<Instant>,
    writer: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    failed: Option<SendError>,
}

impl Outbox {
    pub(crate) fn new(writer: impl AsyncWrite + Send + Sync + Unpin + 'static) -> Self {
        Self {
            replies: Replies::new(Protocol::Resp2),
            sent_bytes: 0,
            held_since: None,
            writer: Box::new(writer),
            failed: None,
        }
    }

    /// Returns the buffer that replies are written to.
    pub(crate) fn replies(&mut self) -> &mut Replies {
        &mut self.replies
    }

    /// Returns the size of all replies so far, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.sent_bytes + self.replies.len() as u64
    }

    /// Sends all replies.
    pub(crate) async fn send(&mut self) -> Result<(), SendError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        self.held_since = None;
        let replies = self.replies.take();
        if replies.is_empty() {
            return Ok(());
        }
        self.sent_bytes += replies.len() as u64;
        let sending = async {
            self.writer.write_all(&replies).await?;
            self.writer.flush().await
        };
        self.failed = match timeout(WRITE_TIMEOUT, sending).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(_)) => Some(SendError::Gone),
            Err(_) => Some(SendError::Late),
        };
        self.failed.map_or(Ok(()), Err)
    }

    /// Waits for a future. If that takes long, sends the ready replies in the meantime.
    pub(crate) async fn wait_for<A>(&mut self, waiting: impl Future<Output = A>) -> A {
        if self.replies.is_empty() {
            return waiting.await;
        }
        let mut waiting = pin!(waiting);
        let until = *self.held_since.get_or_insert_with(Instant::now) + HELD_BACK_MAX;
        if let Ok(come) = timeout_at(until, &mut waiting).await {
            return come;
        }
        // A write error is stored, and the next caller of `send` receives it. The future continues while the client
        // reads its replies.
        let (come, _) = join(waiting, self.send()).await;
        come
    }

    /// Closes the sending direction of the connection.
    pub(crate) async fn close(&mut self) -> std::io::Result<()> {
        self.writer.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::sync::oneshot;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_decided_leaves_before_a_long_wait() {
        let (mut client, server) = tokio::io::duplex(1 << 10);
        let mut outbox = Outbox::new(server);
        outbox.replies().simple("OK");
        // The client reads its reply while the endpoint waits for the next one. If the reply were delayed, the wait
        // would never end.
        let (heard, waiting) = oneshot::channel();
        let reading = async {
            let mut read = [0; 5];
            client.read_exact(&mut read).await.unwrap();
            heard.send(read).unwrap();
        };
        let (come, ()) = tokio::join!(outbox.wait_for(waiting), reading);
        assert_eq!(&come.unwrap(), b"+OK\r\n");
        outbox.replies().integer(1);
        outbox.wait_for(std::future::ready(())).await;
        assert_eq!((outbox.replies().len(), outbox.bytes()), (4, 9), "one that leaves with others");
        // Several short waits add up to a long one.
        for _ in 0..3 {
            outbox.wait_for(sleep(HELD_BACK_MAX / 2)).await;
        }
        assert_eq!((outbox.replies().len(), outbox.bytes()), (0, 9));
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_nothing_is_given_up_once() {
        let (_client, server) = tokio::io::duplex(4);
        let mut outbox = Outbox::new(server);
        outbox.replies().simple("PONG");
        let begun = tokio::time::Instant::now();
        assert_eq!(outbox.send().await, Err(SendError::Late));
        outbox.replies().simple("PONG");
        assert_eq!(outbox.send().await, Err(SendError::Late));
        assert_eq!(begun.elapsed(), WRITE_TIMEOUT);
    }
}
