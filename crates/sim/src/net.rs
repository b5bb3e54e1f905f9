//! Connects tonic through turmoil: connections of the simulated network, which can be broken on request.
//!
//! Every message between hosts passes through turmoil, a simulator of networks. The seed therefore determines when a
//! message arrives, and the trace records each delivery.
//!
//! [`Breaker::reset`] resets every open connection, so the data in transit on these connections is lost.
//! [`Streams::end_of`] ends only the connections of one process. The hosts at the other ends of these connections
//! notice that they have ended.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use firstseen_node::{Connection, Incoming, Vouched};
use firstseen_wire::net::{Channel, ConnectError, Connector, plain_endpoint, without_token};
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower::service_fn;
use turmoil::net::{TcpListener, TcpStream};

use crate::trace::{Delivered, Recorder};

/// Maximum time to connect, in simulated time.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// Breaks connections.
#[derive(Clone, Default)]
pub struct Breaker {
    current: Arc<Mutex<CancellationToken>>,
}

impl Breaker {
    /// Resets every connection that was opened through this breaker.
    pub fn reset(&self) {
        let mut current = self.current.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        current.cancel();
        *current = CancellationToken::new();
    }

    fn token(&self) -> CancellationToken {
        self.current.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// The ends of all connections, in the order in which they were made.
#[derive(Clone, Default)]
pub struct Streams {
    ends: Arc<Mutex<Vec<End>>>,
}

/// One end of a connection.
struct End {
    local: IpAddr,
    remote: IpAddr,
    /// Token that is cancelled when the process at either end has ended.
    ended: CancellationToken,
}

impl End {
    fn is_between(&self, here: &[IpAddr], there: &[IpAddr]) -> bool {
        here.contains(&self.local) && there.contains(&self.remote)
    }
}

/// Returns the links between two sets of hosts.
pub(crate) fn links<'a>(here: &'a [String], there: &'a [String]) -> impl Iterator<Item = (&'a str, &'a str)> {
    here.iter().flat_map(|here| there.iter().map(move |there| (here.as_str(), there.as_str())))
}

/// Returns the addresses of hosts.
pub(crate) fn addresses(hosts: &[String]) -> Vec<IpAddr> {
    hosts.iter().map(|host| turmoil::lookup(host.as_str())).collect()
}

impl Streams {
    /// Ends the process at `host` by resetting its connections at once. Otherwise the runtime would close the
    /// connections later, one by one, when it drops them. Their order would not depend on the seed, so two runs with
    /// the same seed could differ.
    pub fn end_of(&self, host: IpAddr) {
        let mut ends = self.ends.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let its = ends.extract_if(.., |end| end.local == host || end.remote == host);
        its.for_each(|end| end.ended.cancel());
    }

    /// Breaks connections between two sets of hosts. Neither end gets a message about that from the other.
    pub fn cut(&self, here: &[IpAddr], there: &[IpAddr]) {
        let mut ends = self.ends.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let cut = ends.extract_if(.., |end| end.is_between(here, there) || end.is_between(there, here));
        cut.for_each(|end| end.ended.cancel());
    }

    fn add(&self, end: End) {
        self.ends.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(end);
    }
}

/// A connection that a [`Breaker`] can reset.
pub struct SimStream {
    /// The connection, until it is dropped.
    stream: Option<TcpStream>,
    local: SocketAddr,
    remote: SocketAddr,
    /// The breaker's token.
    reset: CancellationToken,
    /// Token that is cancelled by the breaker, and at the end of either process.
    ended: CancellationToken,
    broken: Pin<Box<WaitForCancellationFutureOwned>>,
    recorder: Recorder,
}

impl Drop for SimStream {
    fn drop(&mut self) {
        if self.ended.is_cancelled() && !self.reset.is_cancelled() {
            std::mem::forget(self.stream.take());
        }
    }
}

impl SimStream {
    fn new(stream: TcpStream, reset: CancellationToken, through: &SimConnector) -> io::Result<Self> {
        let local = stream.local_addr()?;
        let remote = stream.peer_addr()?;
        let ended = reset.child_token();
        let recorder = through.recorder.clone();
        through.streams.add(End { local: local.ip(), remote: remote.ip(), ended: ended.clone() });
        recorder.record(remote, local, Delivered::Connection);
        let broken = Box::pin(ended.clone().cancelled_owned());
        Ok(Self { stream: Some(stream), local, remote, reset, ended, broken, recorder })
    }

    /// Returns the connection, or an error if it is broken.
    fn open(&mut self, context: &mut Context<'_>) -> io::Result<Pin<&mut TcpStream>> {
        let is_broken = self.broken.as_mut().poll(context).is_ready();
        let stream = self.stream.as_mut().filter(|_| !is_broken);
        stream.map(Pin::new).ok_or_else(|| io::ErrorKind::ConnectionReset.into())
    }

    fn read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.open(context)?.poll_read(context, buffer)
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = self.read(context, buffer);
        match (&polled, &buffer.filled()[before..]) {
            (Poll::Pending, _) => {}
            (Poll::Ready(Ok(())), []) => self.recorder.record(self.remote, self.local, Delivered::End),
            (Poll::Ready(Ok(())), bytes) => self.recorder.bytes(self.remote, self.local, bytes),
            (Poll::Ready(Err(_)), _) => self.recorder.record(self.remote, self.local, Delivered::Reset),
        }
        polled
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.open(context)?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open(context)?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open(context)?.poll_shutdown(context)
    }
}

/// Returns the connections that arrive at `listener`. `whose` returns the principal that the network vouches for at an
/// address.
pub fn incoming(
    listener: TcpListener,
    through: SimConnector,
    whose: impl Fn(IpAddr) -> Option<Vouched> + Copy + Send + 'static,
) -> Incoming {
    Box::pin(futures_util::stream::unfold((listener, through), move |(listener, through)| async move {
        let accepted = listener.accept().await.and_then(|(stream, _)| {
            let stream = SimStream::new(stream, CancellationToken::new(), &through)?;
            let local = stream.local;
            let remote = stream.remote;
            Ok(Connection::new(stream, Some(local), Some(remote)).vouched_for(whose(remote.ip())))
        });
        Some((accepted, (listener, through)))
    }))
}

/// Connects through the simulated network.
#[derive(Clone, Default)]
pub struct SimConnector {
    /// Breaks the connections that this connector makes.
    pub breaker: Breaker,
    /// All connections, made or accepted by any host.
    pub streams: Streams,
    /// Records everything that arrives.
    pub recorder: Recorder,
}

impl SimConnector {
    /// Returns a connector for another host, whose connections have a separate breaker.
    pub(crate) fn of_another_host(&self) -> Self {
        Self { breaker: Breaker::default(), ..self.clone() }
    }

    /// Connects to a port of a host.
    ///
    /// # Errors
    /// Returns an error if no process listens on the port, or if the host cannot be reached.
    pub(crate) async fn connect(&self, host: &str, port: u16) -> io::Result<SimStream> {
        self.open(host, port, self.breaker.token()).await
    }

    async fn open(&self, host: &str, port: u16, reset: CancellationToken) -> io::Result<SimStream> {
        SimStream::new(TcpStream::connect((host, port)).await?, reset, self)
    }
}

impl Connector for SimConnector {
    fn channel(&self, address: &str, _node_name: Option<&str>) -> Result<Channel, ConnectError> {
        let through = self.clone();
        let connect = service_fn(move |uri: Uri| {
            let reset = through.breaker.token();
            let through = through.clone();
            async move {
                let host = uri.host().unwrap_or_default();
                through.open(host, uri.port_u16().unwrap_or_default(), reset).await.map(TokioIo::new)
            }
        });
        let endpoint = plain_endpoint(address)?.connect_timeout(CONNECT_MAX);
        Ok(without_token(endpoint.connect_with_connector_lazy(connect)))
    }
}
