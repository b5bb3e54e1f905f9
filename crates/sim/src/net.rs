//! tonic over turmoil: connections of the simulated network, which can be broken at will.
//!
//! Promises: everything between hosts goes through turmoil, so that a seed decides when it arrives, and is written down
//! when it does; [`Breaker::reset`] resets every connection that is open, with whatever was on its way. Must not know:
//! what is sent.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use firstseen_node::{Connection, Incoming};
use firstseen_wire::net::{ConnectError, Connector, plain_endpoint};
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::Channel;
use tower::service_fn;
use turmoil::net::{TcpListener, TcpStream};

use crate::trace::{Delivered, Recorder};

/// How long connecting may take in simulated time.
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

/// A connection that a [`Breaker`] can reset.
pub struct SimStream {
    stream: TcpStream,
    local: SocketAddr,
    remote: SocketAddr,
    broken: Pin<Box<WaitForCancellationFutureOwned>>,
    recorder: Recorder,
}

impl SimStream {
    fn new(stream: TcpStream, token: CancellationToken, recorder: Recorder) -> io::Result<Self> {
        let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
        recorder.record(remote, local, Delivered::Connection);
        Ok(Self { stream, local, remote, broken: Box::pin(token.cancelled_owned()), recorder })
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.broken.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionReset.into()),
            Poll::Pending => Ok(()),
        }
    }

    fn read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
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
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The connections that arrive at `listener`.
pub fn incoming(listener: TcpListener, recorder: Recorder) -> Incoming {
    let accept = |(listener, recorder): (TcpListener, Recorder)| async move {
        let accepted = listener.accept().await.and_then(|(stream, _)| {
            let stream = SimStream::new(stream, CancellationToken::new(), recorder.clone())?;
            let (local, remote) = (stream.local, stream.remote);
            Ok(Connection::new(stream, Some(local), Some(remote)))
        });
        Some((accepted, (listener, recorder)))
    };
    Box::pin(futures_util::stream::unfold((listener, recorder), accept))
}

/// Connects through the simulated network.
#[derive(Clone, Default)]
pub struct SimConnector {
    /// Breaks what was connected.
    pub breaker: Breaker,
    /// Writes down what comes in.
    pub recorder: Recorder,
}

impl Connector for SimConnector {
    fn channel(&self, address: &str, _node_name: Option<&str>) -> Result<Channel, ConnectError> {
        let Self { breaker, recorder } = self.clone();
        let connect = service_fn(move |uri: Uri| {
            let (token, recorder) = (breaker.token(), recorder.clone());
            async move {
                let host = uri.host().unwrap_or_default().to_owned();
                let stream = TcpStream::connect((host.as_str(), uri.port_u16().unwrap_or_default())).await?;
                io::Result::Ok(TokioIo::new(SimStream::new(stream, token, recorder)?))
            }
        });
        Ok(plain_endpoint(address)?.connect_timeout(CONNECT_MAX).connect_with_connector_lazy(connect))
    }
}
