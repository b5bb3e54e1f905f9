//! A connection that closes itself in three situations: its peer does not send the first bytes in time, its peer sends
//! nothing for too long, or another connection needs the slot that this connection uses. The connection checks for
//! these situations even while it waits to read or write data. A stalled peer can therefore not keep the connection
//! open.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use firstseen_wire::limits::{BEGIN_TIMEOUT, HTTP2_PREFACE_BYTES, SILENCE_MAX};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::{Connected, TcpConnectInfo, TlsConnectInfo};

use super::connection_registry::{ConnectionPlace, ConnectionSlot};
use crate::edges::{Connection, Vouched};

/// Time limits for the silence of a connection.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// Number of received bytes after which a connection has begun.
    begin_bytes: usize,
    /// Maximum time until these bytes have arrived.
    begin: Duration,
    /// Maximum time without received bytes after the connection has begun.
    silence: Duration,
}

/// Time limits for HTTP/2 connections, whose peers answer pings.
pub(super) const HTTP2: Patience =
    Patience { begin_bytes: HTTP2_PREFACE_BYTES, begin: BEGIN_TIMEOUT, silence: SILENCE_MAX };

/// Time limits for the HTTP/1 connections over which health checks and metrics are requested. HTTP/1 has no pings, so a
/// silent peer cannot be tested. The limits therefore assume that the peer sends a request from time to time.
pub(super) const HTTP1: Patience =
    Patience { begin_bytes: b"GET / HTTP/1.1\r\n".len(), begin: BEGIN_TIMEOUT, silence: Duration::from_secs(120) };

/// Information about a connection that is available to its calls.
#[derive(Clone)]
pub(crate) struct Visitor {
    /// Addresses of the connection.
    pub(crate) tcp: TcpConnectInfo,
    /// TLS information with the peer's certificates. `None` means that the connection does not use TLS.
    pub(crate) tls: Option<TlsConnectInfo<TcpConnectInfo>>,
    /// Identity that a simulated network vouches for. `None` on real networks, where certificates identify the peer.
    pub(crate) vouched: Option<Vouched>,
    /// Counter of the connection's calls.
    pub(crate) slot: ConnectionSlot,
}

/// A connection with time limits.
pub(crate) struct Guarded<T> {
    io: T,
    patience: Patience,
    /// Number of bytes that must still arrive before the connection has begun.
    missing: usize,
    /// Time at which bytes last arrived. Before the connection has begun, this is the time at which it was accepted.
    heard: Instant,
    /// Timer for the next check of `heard`. The timer is not reset for every byte, because that would be more
    /// expensive.
    alarm: Pin<Box<Sleep>>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    place: ConnectionPlace,
}

impl<T> Guarded<T> {
    pub(super) fn new(io: T, patience: Patience, place: ConnectionPlace) -> Self {
        let heard = Instant::now();
        let alarm = Box::pin(sleep_until(heard + patience.begin));
        let closed = Box::pin(place.closed().clone().cancelled_owned());
        Self { io, patience, missing: patience.begin_bytes, heard, alarm, closed, place }
    }

    fn hears(&mut self, bytes: usize) {
        self.missing = self.missing.saturating_sub(bytes);
        if self.missing == 0 {
            self.heard = Instant::now();
        }
    }

    /// Completes when the connection has been silent for too long.
    fn poll_silent(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.alarm.as_mut().poll(cx));
            let allowed = if self.missing > 0 { self.patience.begin } else { self.patience.silence };
            let end = self.heard + allowed;
            if end <= Instant::now() {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(end);
        }
    }

    /// Completes with an error when the connection must be closed. This method is polled while another result is
    /// pending.
    fn poll_over<R>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<R>> {
        if self.closed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        self.poll_silent(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Returns `polled` if it is ready. Otherwise returns an error if the connection must be closed.
    fn or_closed<R>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if polled.is_pending() { self.poll_over(cx) } else { polled }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buf) {
            Poll::Ready(read) => {
                self.hears(buf.filled().len() - before);
                Poll::Ready(read)
            }
            Poll::Pending => self.poll_over(cx),
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.or_closed(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.or_closed(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        self.or_closed(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_shutdown(cx);
        self.or_closed(cx, polled)
    }
}

impl Connected for Guarded<Connection> {
    type ConnectInfo = Visitor;

    fn connect_info(&self) -> Visitor {
        Visitor { tcp: self.io.connect_info(), tls: self.io.tls(), vouched: self.io.vouched(), slot: self.place.slot() }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::sleep;

    use super::super::connection_registry::ConnectionRegistry;
    use super::*;
    use crate::metrics::ConnectionMeter;

    /// Returns a guarded connection and its other end.
    fn connected() -> (DuplexStream, Guarded<DuplexStream>) {
        let (peer, io) = duplex(64);
        (peer, Guarded::new(io, HTTP2, ConnectionRegistry::new(1, 1, ConnectionMeter::default()).come()))
    }

    /// Reads from `connection`, and returns the result and the time that the read took.
    async fn read(connection: &mut Guarded<DuplexStream>) -> (io::Result<usize>, Duration) {
        let (started, mut bytes) = (Instant::now(), [0; 64]);
        (connection.read(&mut bytes).await, started.elapsed())
    }

    fn ended(with: io::ErrorKind, read: io::Result<usize>) -> bool {
        read.is_err_and(|error| error.kind() == with)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_does_not_begin_is_closed_whatever_it_drips() {
        let (mut peer, mut connection) = connected();
        let started = Instant::now();
        let dripping = tokio::spawn(async move {
            while peer.write_all(b"P").await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let last = loop {
            let (read, _) = read(&mut connection).await;
            if read.is_err() {
                break read;
            }
        };
        assert!(ended(io::ErrorKind::TimedOut, last));
        assert_eq!(started.elapsed().as_secs(), BEGIN_TIMEOUT.as_secs());
        drop(connection);
        dripping.await.expect("it ends with the connection");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_has_begun_may_be_silent_between_pings() {
        let (mut peer, mut connection) = connected();
        peer.write_all(&[0; HTTP2_PREFACE_BYTES]).await.expect("room");
        assert_eq!(read(&mut connection).await.0.expect("bytes"), HTTP2_PREFACE_BYTES);
        let almost = SILENCE_MAX - Duration::from_millis(1);
        for _ in 0..3 {
            let writing = async {
                sleep(almost).await;
                peer.write_all(b"pong").await.expect("room");
            };
            let ((read, after), ()) = tokio::join!(read(&mut connection), writing);
            assert_eq!((read.expect("bytes"), after), (4, almost));
        }
        let (read, after) = read(&mut connection).await;
        assert!(ended(io::ErrorKind::TimedOut, read));
        assert_eq!(after.as_secs(), SILENCE_MAX.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_to_go_goes_at_once_also_where_it_reads_nothing() {
        let registry = ConnectionRegistry::new(1, 1, ConnectionMeter::default());
        let ((mut peer, io), (_other_peer, other_io)) = (duplex(64), duplex(64));
        let (mut oldest, mut second) =
            (Guarded::new(io, HTTP2, registry.come()), Guarded::new(other_io, HTTP2, registry.come()));
        assert!(ended(io::ErrorKind::ConnectionAborted, read(&mut oldest).await.0));
        let stuck = oldest.write_all(&[0; 65]).await.expect_err("the peer has read nothing");
        assert_eq!(stuck.kind(), io::ErrorKind::ConnectionAborted);
        drop(oldest);
        assert_eq!(peer.read(&mut [0; 128]).await.expect("what was written"), 64);
        assert!(ended(io::ErrorKind::TimedOut, read(&mut second).await.0), "it had a place");
    }
}
