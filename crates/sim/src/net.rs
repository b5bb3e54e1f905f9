//! tonic over turmoil: connections of the simulated network, which can be broken at will.
//!
//! Promises: everything between hosts goes through turmoil, so that a seed decides when it arrives; [`Breaker::reset`]
//! resets every connection that is open, with whatever was on its way. Must not know: what is sent.

use std::io;
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
    broken: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl SimStream {
    fn new(stream: TcpStream, token: CancellationToken) -> Self {
        Self { stream, broken: Box::pin(token.cancelled_owned()) }
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.broken.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionReset.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
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
pub fn incoming(listener: TcpListener) -> Incoming {
    let accept = |listener: TcpListener| async move {
        let accepted = listener.accept().await.map(|(stream, remote)| {
            let local = stream.local_addr().ok();
            Connection::new(SimStream::new(stream, CancellationToken::new()), local, Some(remote))
        });
        Some((accepted, listener))
    };
    Box::pin(futures_util::stream::unfold(listener, accept))
}

/// Connects through the simulated network.
#[derive(Clone, Default)]
pub struct SimConnector {
    /// Breaks what was connected.
    pub breaker: Breaker,
}

impl Connector for SimConnector {
    fn channel(&self, address: &str, _node_name: Option<&str>) -> Result<Channel, ConnectError> {
        let breaker = self.breaker.clone();
        let connect = service_fn(move |uri: Uri| {
            let token = breaker.token();
            async move {
                let host = uri.host().unwrap_or_default().to_owned();
                let stream = TcpStream::connect((host.as_str(), uri.port_u16().unwrap_or_default())).await?;
                io::Result::Ok(TokioIo::new(SimStream::new(stream, token)))
            }
        });
        Ok(plain_endpoint(address)?.connect_timeout(CONNECT_MAX).connect_with_connector_lazy(connect))
    }
}
