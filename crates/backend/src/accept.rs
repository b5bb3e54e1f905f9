//! Accepts connections, and hands them to the threads that serve them.
//!
//! Promises: at most `connections_max` connections are open; others receive an error and are closed. A connection stays with one thread.
//! This module must not depend on what clients send.

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

/// For how long no connection is accepted after the system has refused one.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// After this silence the system probes the other machine, and again at the second interval. It gives up after nine probes without an
/// answer (the default of Linux).
const SILENCE: Duration = Duration::from_secs(60);
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// Accepted connections that wait for a thread.
const WAITING_MAX: usize = 64;

/// How many connections a door has, and has had.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    open: AtomicU64,
    turned_away: AtomicU64,
}

impl ConnectionCounts {
    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections for which there was no place.
    pub fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Serves a connection, which counts as open until that ends.
    pub async fn while_open<T>(&self, serving: impl Future<Output = T>) -> T {
        self.open.fetch_add(1, Ordering::Relaxed);
        let served = serving.await;
        self.open.fetch_sub(1, Ordering::Relaxed);
        served
    }
}

/// Accepts the connections of a door.
pub struct Acceptor {
    /// Who connects, for the log.
    clients: &'static str,
    places: Arc<Semaphore>,
    /// What a client reads for which there is no place; `None` if clients speak TLS.
    refusal: Option<&'static [u8]>,
    counts: Arc<ConnectionCounts>,
}

/// A connection that a thread is to serve.
struct Accepted {
    stream: std::net::TcpStream,
    from: SocketAddr,
    place: OwnedSemaphorePermit,
}

/// Where accepted connections are handed to a thread.
pub struct ConnectionSender(mpsc::Sender<Accepted>);

/// The connections that a thread serves.
pub struct ConnectionReceiver(mpsc::Receiver<Accepted>);

/// Returns both ends of the way from [`Acceptor::accept`] to a thread.
pub fn connections() -> (ConnectionSender, ConnectionReceiver) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (ConnectionSender(sender), ConnectionReceiver(receiver))
}

impl Acceptor {
    /// Creates an acceptor for at most `connections_max` connections at a time. `clients` are named in the log; a client without a place
    /// reads `refusal`.
    pub fn new(
        clients: &'static str,
        connections_max: u32,
        refusal: Option<&'static [u8]>,
        counts: Arc<ConnectionCounts>,
    ) -> Self {
        Self { clients, places: Arc::new(Semaphore::new(connections_max as usize)), refusal, counts }
    }

    /// Accepts connections until `stop`, and hands them to `threads` in turn.
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

    /// Returns the connection with its place, or closes it if there is none.
    fn with_place(&self, mut stream: TcpStream, from: SocketAddr) -> Option<Accepted> {
        // Without it small replies wait up to 40 ms for an acknowledgement.
        let _ = stream.set_nodelay(true);
        // A machine that is gone says nothing: its place would be taken for ever.
        let keepalive = TcpKeepalive::new().with_time(SILENCE).with_interval(PROBE_EVERY);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.counts.turned_away.fetch_add(1, Ordering::Relaxed);
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
    /// Serves the connections that are handed over until `stop`, each in a task of `tasks` that keeps its place.
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

    /// Sends back what a client sends, until it shuts down.
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
        assert_eq!((refused.as_slice(), counts.turned_away()), (b"full".as_slice(), 1));
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
