//! Accepts connections, and distributes them over the threads that serve them.
//!
//! An endpoint has at most `connections_max` open connections. When a client connects beyond that limit, it receives an
//! error and is disconnected.
//!
//! A connection is served by the same thread until it ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Pause after the operating system has refused to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Time without traffic after which the operating system checks whether the client's machine is still reachable. For
/// this check, it sends keepalive probes. If nine probes remain unanswered (the default of Linux), the operating system
/// ends the connection.
const SILENCE: Duration = Duration::from_secs(60);
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// Maximum number of accepted connections that wait for a thread.
const WAITING_MAX: usize = 64;

/// Connection counters of an endpoint.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    open: AtomicU64,
    rejected_connections: AtomicU64,
}

impl ConnectionCounts {
    /// Returns the number of open connections.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that were rejected because the limit was reached.
    pub fn rejected_connections(&self) -> u64 {
        self.rejected_connections.load(Ordering::Relaxed)
    }

    /// Serves a connection, and counts it as open until it ends.
    pub async fn while_open<T>(&self, serving: impl Future<Output = T>) -> T {
        self.open.fetch_add(1, Ordering::Relaxed);
        let served = serving.await;
        self.open.fetch_sub(1, Ordering::Relaxed);
        served
    }
}

/// Acceptor of an endpoint's connections.
pub struct Acceptor {
    /// Name of the clients, for the log.
    clients: &'static str,
    places: Arc<Semaphore>,
    /// Reply to a client whose connection is beyond the limit. `None` if clients use TLS, because the reply would have
    /// to be encrypted.
    refusal: Option<&'static [u8]>,
    counts: Arc<ConnectionCounts>,
}

/// Accepted connection that waits for a thread.
struct Accepted {
    stream: std::net::TcpStream,
    from: SocketAddr,
    place: OwnedSemaphorePermit,
}

/// Channel that passes accepted connections to a thread.
pub struct ConnectionSender(mpsc::Sender<Accepted>);

/// Channel from which a thread receives its connections.
pub struct ConnectionReceiver(mpsc::Receiver<Accepted>);

/// Creates the channel from [`Acceptor::accept`] to a thread.
pub fn connections() -> (ConnectionSender, ConnectionReceiver) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (ConnectionSender(sender), ConnectionReceiver(receiver))
}

impl Acceptor {
    /// Creates an acceptor for at most `connections_max` concurrent connections. A client beyond the limit receives the
    /// bytes `refusal` before its connection is closed. `clients` is the name of this group of clients in the log.
    pub fn new(
        clients: &'static str,
        connections_max: u32,
        refusal: Option<&'static [u8]>,
        counts: Arc<ConnectionCounts>,
    ) -> Self {
        Self { clients, places: Arc::new(Semaphore::new(connections_max as usize)), refusal, counts }
    }

    /// Accepts connections until `stop` is cancelled, and distributes them over `threads` in turn.
    pub async fn accept(&self, listener: TcpListener, threads: &[ConnectionSender], stop: CancellationToken) {
        let mut next = threads.iter().cycle();
        while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
            match accepted.map(|(stream, from)| self.with_place(stream, from)) {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let Some(thread) = next.next() else { return };
                    if thread.0.send(accepted).await.is_err() {
                        tracing::warn!("a thread for {} has ended: a connection is closed", self.clients);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "no {} are accepted for a moment", self.clients);
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Reserves a place for the connection. Closes the connection and returns `None` if the limit is reached.
    fn with_place(&self, mut stream: TcpStream, from: SocketAddr) -> Option<Accepted> {
        // Without this option small replies wait up to 40 ms for an acknowledgement.
        let _ = stream.set_nodelay(true);
        // A machine that has failed sends nothing. Without probes its connection would occupy a place forever.
        let keepalive = TcpKeepalive::new().with_time(SILENCE).with_interval(PROBE_EVERY);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.counts.rejected_connections.fetch_add(1, Ordering::Relaxed);
            if let Some(refusal) = self.refusal {
                let _ = stream.try_write(refusal);
            }
            tokio::spawn(async move { stream.shutdown().await });
            return None;
        };
        Some(Accepted { stream: stream.into_std().ok()?, from, place })
    }
}

impl ConnectionReceiver {
    /// Serves the connections that the acceptor passes to this thread, until `stop` is cancelled. Each connection runs
    /// in a task of `tasks`, and counts towards the limit of connections until that task ends.
    pub async fn serve<S, F>(&mut self, tasks: &TaskTracker, stop: &CancellationToken, serve: S)
    where
        S: Fn(TcpStream, SocketAddr) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        while let Some(Some(accepted)) = stop.run_until_cancelled(self.0.recv()).await {
            let Accepted { stream, from, place } = accepted;
            let Ok(stream) = TcpStream::from_std(stream) else { continue };
            let serving = serve(stream, from);
            tasks.spawn(async move {
                serving.await;
                drop(place);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Sends back what a client sends, until the client closes its side.
    async fn echo(mut stream: TcpStream, counts: Arc<ConnectionCounts>) {
        let (mut reader, mut writer) = stream.split();
        let _ = counts.while_open(tokio::io::copy(&mut reader, &mut writer)).await;
    }

    #[tokio::test]
    async fn a_connection_without_a_place_is_told_so_and_places_come_back() {
        let counts = Arc::new(ConnectionCounts::default());
        let acceptor = Acceptor::new("test clients", 1, Some(b"full"), counts.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, mut receiver) = connections();
        let stop = CancellationToken::new();
        let accept_stop = stop.clone();
        let accepting = tokio::spawn(async move { acceptor.accept(listener, &[sender], accept_stop).await });
        let serve_stop = stop.clone();
        let open = counts.clone();
        let serving = tokio::spawn(async move {
            let tasks = TaskTracker::new();
            receiver.serve(&tasks, &serve_stop, |stream, _| echo(stream, open.clone())).await;
            tasks.close();
            tasks.wait().await;
        });
        let mut first = TcpStream::connect(address).await.unwrap();
        let mut byte = [0];
        first.write_all(b"a").await.unwrap();
        first.read_exact(&mut byte).await.unwrap();
        assert_eq!(counts.open(), 1);
        let mut refused = Vec::new();
        TcpStream::connect(address).await.unwrap().read_to_end(&mut refused).await.unwrap();
        assert_eq!((refused.as_slice(), counts.rejected_connections()), (b"full".as_slice(), 1));
        first.shutdown().await.unwrap();
        let _ = first.read_to_end(&mut Vec::new()).await;
        loop {
            let mut next = TcpStream::connect(address).await.unwrap();
            next.write_all(b"b").await.unwrap();
            if next.read_exact(&mut byte).await.is_ok() && byte == *b"b" {
                break;
            }
        }
        stop.cancel();
        accepting.await.unwrap();
        serving.await.unwrap();
    }
}
