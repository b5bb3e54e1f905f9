//! Connection wrapper that ends a connection if its client reads nothing for too long.
//!
//! This module does not depend on what is written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::flushes::Flushes;
use crate::limits::WRITE_TIMEOUT;

/// Connection whose writes fail if the client has read nothing for [`WRITE_TIMEOUT`]. The wrapper also counts flushes.
pub(crate) struct Stalled<T> {
    io: T,
    flushes: Arc<Flushes>,
    /// Timer of the wait, created when a write must wait for the first time.
    until: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

impl<T> Stalled<T> {
    pub(crate) fn new(io: T, flushes: Arc<Flushes>) -> Self {
        Self { io, flushes, until: None, waits: false }
    }

    /// Returns the result of a write, or an error if the write has waited for too long.
    fn limited<A>(&mut self, written: Poll<io::Result<A>>, cx: &mut Context<'_>) -> Poll<io::Result<A>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        if !self.waits {
            self.waits = true;
            until.as_mut().reset(Instant::now() + WRITE_TIMEOUT);
        }
        ready!(until.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing of its reply")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stalled<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stalled<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.limited(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, parts);
        self.limited(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.flushes.note();
        }
        self.limited(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.io).poll_shutdown(cx);
        self.limited(ended, cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (mut client, server) = tokio::io::duplex(4);
        let mut server = Stalled::new(server, Arc::default());
        let begun = Instant::now();
        let writing = async { server.write_all(b"0123456789").await };
        let reading = async {
            let mut read = [0; 4];
            tokio::time::advance(WRITE_TIMEOUT / 2).await;
            client.read_exact(&mut read).await.unwrap();
        };
        let (written, ()) = tokio::join!(writing, reading);
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), WRITE_TIMEOUT + WRITE_TIMEOUT / 2, "who reads something has more time");
    }
}
