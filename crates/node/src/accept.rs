//! Which connections get in, and how long they may say nothing.
//!
//! Promises: no more connections are open than allowed, so that those who only connect cannot take the process's files
//! from those who work; one that does not begin in time, or falls silent, is closed. Must not know: what is said over
//! connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use firstseen_wire::limits::{BEGIN_TIMEOUT, HTTP2_PREFACE_BYTES, SILENCE_MAX};
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::Connected;

use crate::delegate::delegate_write;
use crate::edges::Incoming;
use crate::metrics::ConnectionMeter;

/// How long nothing is accepted after the machine has refused to: its reason, such as too many open files, lasts.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// How long a connection may say nothing.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// Bytes with which a connection has begun.
    begin_bytes: usize,
    /// How long it may take until then.
    begin: Duration,
    /// How long it may be silent later.
    silence: Duration,
}

/// With those who speak HTTP/2, or begin with TLS: they answer pings.
pub(crate) const HTTP2: Patience =
    Patience { begin_bytes: HTTP2_PREFACE_BYTES, begin: BEGIN_TIMEOUT, silence: SILENCE_MAX };

/// With those who ask for health and metrics: they ask again after a while, and answer no pings.
pub(crate) const HTTP1: Patience =
    Patience { begin_bytes: b"GET / HTTP/1.1\r\n".len(), begin: BEGIN_TIMEOUT, silence: Duration::from_secs(120) };

/// The connections of `incoming` as long as no more than `connections_max` are open; others are closed at once.
pub(crate) fn admitted(
    incoming: Incoming,
    connections_max: u32,
    meter: ConnectionMeter,
) -> impl Stream<Item = io::Result<Guarded<crate::edges::Connection>>> {
    let door = Door::new(connections_max, HTTP2, meter);
    let admitted = incoming.filter_map(move |accepted| match accepted {
        Ok(connection) => door.admit(connection).map(Ok),
        Err(error) => Some(Err(error)),
    });
    admitted.then(async |accepted| {
        if let Err(error) = &accepted
            && !is_of_one_connection(error)
        {
            tracing::warn!(%error, "no connections are accepted for a moment");
            sleep(ACCEPT_PAUSE).await;
        }
        accepted
    })
}

/// Whether only the connection that was being accepted is affected.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Where connections get in.
struct Door {
    room: Arc<Semaphore>,
    patience: Patience,
    meter: ConnectionMeter,
}

impl Door {
    fn new(connections_max: u32, patience: Patience, meter: ConnectionMeter) -> Self {
        Self { room: Arc::new(Semaphore::new(connections_max as usize)), patience, meter }
    }

    /// The connection with its place; none where there is no room, which closes it.
    fn admit<T>(&self, connection: T) -> Option<Guarded<T>> {
        match self.room.clone().try_acquire_owned() {
            Ok(place) => Some(Guarded::new(connection, self.patience, Place::new(place, self.meter.open.clone()))),
            Err(_) => {
                self.meter.refused.inc();
                None
            }
        }
    }
}

/// A place of a connection, as long as it is open.
struct Place {
    _room: OwnedSemaphorePermit,
    open: Gauge,
}

impl Place {
    fn new(room: OwnedSemaphorePermit, open: Gauge) -> Self {
        open.inc();
        Self { _room: room, open }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.dec();
    }
}

/// A connection that is closed when it says nothing for too long.
pub(crate) struct Guarded<T> {
    io: T,
    patience: Patience,
    /// Bytes that are missing until it has begun.
    missing: usize,
    /// When something last came of it; while it has not begun, when it was accepted.
    heard: Instant,
    /// Looks at `heard` again; it is not moved with every byte.
    alarm: Pin<Box<Sleep>>,
    _place: Place,
}

impl<T> Guarded<T> {
    fn new(io: T, patience: Patience, place: Place) -> Self {
        let heard = Instant::now();
        let alarm = Box::pin(sleep_until(heard + patience.begin));
        Self { io, patience, missing: patience.begin_bytes, heard, alarm, _place: place }
    }

    fn hears(&mut self, bytes: usize) {
        self.missing = self.missing.saturating_sub(bytes);
        if self.missing == 0 {
            self.heard = Instant::now();
        }
    }

    /// Ready when it has said nothing for too long.
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
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buf) {
            Poll::Ready(read) => {
                self.hears(buf.filled().len() - before);
                Poll::Ready(read)
            }
            Poll::Pending => self.poll_silent(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    delegate_write!(io);
}

impl<T: Connected> Connected for Guarded<T> {
    type ConnectInfo = T::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.io.connect_info()
    }
}

/// A listener for health and metrics, with room for so many connections.
pub(crate) struct BoundedListener {
    listener: TcpListener,
    door: Door,
}

impl BoundedListener {
    pub(crate) fn new(listener: TcpListener, connections_max: u32, meter: ConnectionMeter) -> Self {
        Self { listener, door: Door::new(connections_max, HTTP1, meter) }
    }
}

impl Listener for BoundedListener {
    type Io = Guarded<<TcpListener as Listener>::Io>;
    type Addr = <TcpListener as Listener>::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (connection, address) = Listener::accept(&mut self.listener).await;
            if let Some(connection) = self.door.admit(connection) {
                return (connection, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn door(connections_max: u32) -> Door {
        Door::new(connections_max, HTTP2, ConnectionMeter::default())
    }

    /// What becomes of a read of `connection`, and after how long.
    async fn read(connection: &mut Guarded<DuplexStream>) -> (io::Result<usize>, Duration) {
        let (started, mut bytes) = (Instant::now(), [0; 64]);
        (connection.read(&mut bytes).await, started.elapsed())
    }

    fn timed_out(read: io::Result<usize>) -> bool {
        read.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_does_not_begin_is_closed_whatever_it_drips() {
        let (mut peer, io) = duplex(64);
        let mut connection = door(1).admit(io).expect("room");
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
        assert!(timed_out(last));
        assert_eq!(started.elapsed().as_secs(), BEGIN_TIMEOUT.as_secs());
        drop(connection);
        dripping.await.expect("it ends with the connection");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_has_begun_may_be_silent_between_pings() {
        let (mut peer, io) = duplex(64);
        let mut connection = door(1).admit(io).expect("room");
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
        assert!(timed_out(read));
        assert_eq!(after.as_secs(), SILENCE_MAX.as_secs());
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_its_connection_is_closed() {
        let door = door(2);
        let connections = [door.admit(()), door.admit(())];
        assert!(connections.iter().all(Option::is_some) && door.admit(()).is_none());
        assert_eq!((door.meter.open.get(), door.meter.refused.get()), (2, 1));
        drop(connections);
        assert!(door.admit(()).is_some());
        assert_eq!((door.meter.open.get(), door.meter.refused.get()), (0, 1));
    }
}
