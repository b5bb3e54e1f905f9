//! Accepts connections of Redis clients, and distributes the connections over several workers. A worker is a
//! group of tasks that serves a part of the connections and has its own client of the cluster.
//!
//! The number of Redis connections is limited. A client beyond the limit gets an error and is disconnected. Each
//! connection stays with one worker until it ends. When the endpoint stops, all of its connections end.
//!
//! This module does not depend on commands and threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstseen_backend::{
    Acceptor, ClientSession, ConnectionReceiver, ConnectionSender, Filters, Host, connections, room,
};
use firstseen_client::Client;
use firstseen_wire::limits::CONNECT_TIMEOUT;
use firstseen_wire::tls::ServerTls;
use futures_util::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auto_confirm::Confirmer;
use crate::connection::{Ended, serve};
use crate::counts::RedisEndpointCounts;
use crate::names::Names;
use crate::outbox::Outbox;
use crate::sandbox::Sandbox;
use crate::session::{Caller, Common, Session, Shared};
use crate::settings::{RedisEndpointSettings, Rules};

/// Error message of Redis for a connection beyond the limit.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// Redis endpoint of a node.
pub struct RedisEndpoint {
    common: Arc<Common>,
    tls: Option<ServerTls>,
    acceptor: Acceptor,
    room: Arc<Semaphore>,
    connections: AtomicU64,
}

/// Server of some of the connections, with its own firstseen client. Its tasks run in the runtime in which
/// [`Self::serve`] is called.
pub struct ConnectionWorker {
    endpoint: Arc<RedisEndpoint>,
    shared: Arc<Shared>,
    connections: ConnectionReceiver,
    /// Whether this worker also confirms claims. Exactly one worker does.
    confirms: bool,
    /// Whether this worker confirms pending claims when it stops.
    confirms_at_stop: bool,
}

/// Connection that was accepted outside of the endpoint.
pub struct Arrival<T> {
    /// Stream of the connection.
    pub stream: T,
    /// Address of the client.
    pub from: SocketAddr,
    /// User of the connection, if the network already identifies the client.
    pub client_session: Option<Arc<dyn ClientSession>>,
}

impl RedisEndpoint {
    /// Creates a Redis endpoint, which serves the clients that `host` authorizes. If `tls` is set, clients must connect
    /// with TLS. The reply to the command `INFO` contains `node` as the name of the node.
    pub fn new(settings: RedisEndpointSettings, host: Arc<dyn Host>, tls: Option<ServerTls>, node: &str) -> Self {
        let room = room(settings.buffered_bytes_max);
        let counts = Arc::new(RedisEndpointCounts::new());
        let refusal = if tls.is_none() { Some(TOO_MANY) } else { None };
        let acceptor = Acceptor::new("Redis clients", settings.connections_max, refusal, counts.connections());
        let common = Common {
            names: Names::new(&settings.prefix),
            rules: Rules::new(&settings),
            confirmer: Confirmer::new(counts.clone()),
            sandbox: settings.sandbox.then(Sandbox::default),
            settings,
            host,
            counts,
            node: node.to_owned(),
        };
        Self { common: Arc::new(common), tls, acceptor, room, connections: AtomicU64::new(1) }
    }

    /// Returns the counters of the endpoint.
    pub fn counts(&self) -> Arc<RedisEndpointCounts> {
        self.common.counts.clone()
    }

    /// Returns how long the endpoint waits for a verdict. The clients of its workers must have this deadline.
    pub fn verdict_timeout(&self) -> Duration {
        self.common.settings.verdict_timeout()
    }

    /// Creates a worker that uses `client` for its calls. The first worker also confirms claims.
    pub fn worker(self: &Arc<Self>, client: Client, is_first: bool) -> (ConnectionSender, ConnectionWorker) {
        let (sender, connections) = connections();
        let shared = Shared { filters: Filters::new(client, self.common.host.clone()), common: self.common.clone() };
        let confirms = is_first && self.common.rules.has_confirms();
        (
            sender,
            ConnectionWorker {
                endpoint: self.clone(),
                shared: Arc::new(shared),
                connections,
                confirms,
                confirms_at_stop: true,
            },
        )
    }

    /// Accepts connections until `stop` is cancelled, and distributes them over the workers in turn.
    pub async fn serve(&self, listener: TcpListener, workers: &[ConnectionSender], stop: CancellationToken) {
        self.acceptor.accept(listener, workers, stop).await;
    }

    async fn accept_connection(
        &self,
        shared: &Arc<Shared>,
        stream: TcpStream,
        from: SocketAddr,
        stop: &CancellationToken,
    ) {
        let host = &self.common.host;
        let at = stream.local_addr().unwrap_or(self.common.settings.listen);
        let ended = match &self.tls {
            None => {
                let caller = Caller { from, at, known: host.known(None, from) };
                self.serve_connection(shared, stream, caller, stop).await
            }
            Some(tls) => match timeout(CONNECT_TIMEOUT, tls.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
                    let caller = Caller { from, at, known: host.known(Some(&certificates), from) };
                    self.serve_connection(shared, stream, caller, stop).await
                }
                Ok(Err(error)) => return tracing::debug!(%error, %from, "a handshake of a Redis client has failed"),
                Err(_) => return tracing::debug!(%from, "a handshake of a Redis client has not ended in time"),
            },
        };
        tracing::debug!(?ended, %from, "a Redis client has gone");
    }

    async fn serve_connection<T>(
        &self,
        shared: &Arc<Shared>,
        stream: T,
        caller: Caller,
        stop: &CancellationToken,
    ) -> Ended
    where
        T: AsyncRead + AsyncWrite + Send + Sync + 'static,
    {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let (reader, writer) = split(stream);
        let session = Session::new(shared.clone(), self.room.clone(), number, caller, Outbox::new(writer));
        serve(reader, session, self.room.clone(), stop).await
    }
}

impl ConnectionWorker {
    /// Serves the connections of this worker until `stop` is cancelled. The function then stops accepting commands,
    /// and returns when two conditions are met: all received commands have their replies, and all pending claims are
    /// confirmed.
    pub async fn serve(self, stop: CancellationToken) {
        let open = TaskTracker::new();
        self.confirm(&open, &stop);
        let Self { endpoint, shared, mut connections, .. } = self;
        connections
            .serve(&open, &stop, |stream, from| {
                let endpoint = endpoint.clone();
                let shared = shared.clone();
                let stop = stop.clone();
                async move { counted(&endpoint, endpoint.accept_connection(&shared, stream, from, &stop)).await }
            })
            .await;
        open.close();
        open.wait().await;
    }

    /// Makes the worker drop pending claims when it stops, as a crash would. Tests use this to show what is lost.
    #[doc(hidden)]
    #[must_use]
    pub fn without_confirms_at_stop(self) -> Self {
        Self { confirms_at_stop: false, ..self }
    }

    /// Serves connections that other code has accepted, until `stop` is cancelled. Shutdown works as in
    /// [`Self::serve`], but there is no limit of connections and no TLS. Simulated networks use this function, because
    /// their streams have a different type.
    pub async fn serve_arrivals<T>(self, mut arrivals: impl Stream<Item = Arrival<T>> + Unpin, stop: CancellationToken)
    where
        T: AsyncRead + AsyncWrite + Send + Sync + 'static,
    {
        let open = TaskTracker::new();
        self.confirm(&open, &stop);
        while let Some(Some(Arrival { stream, from, client_session })) = stop.run_until_cancelled(arrivals.next()).await
        {
            let endpoint = self.endpoint.clone();
            let shared = self.shared.clone();
            let stop = stop.clone();
            let caller = Caller { from, at: endpoint.common.settings.listen, known: client_session };
            open.spawn(
                async move { counted(&endpoint, endpoint.serve_connection(&shared, stream, caller, &stop)).await },
            );
        }
        open.close();
        open.wait().await;
    }

    /// Starts the confirmation of claims, if this worker is responsible for it.
    fn confirm(&self, open: &TaskTracker, stop: &CancellationToken) {
        if !self.confirms {
            return;
        }
        let shared = self.shared.clone();
        let stop = stop.clone();
        let confirms_at_stop = self.confirms_at_stop;
        open.spawn(async move {
            let confirming = shared.common.confirmer.run(&shared.filters, &stop);
            if confirms_at_stop {
                confirming.await;
            } else {
                stop.run_until_cancelled(confirming).await;
            }
        });
    }
}

/// Serves a connection, and counts it as open until it ends.
async fn counted<T>(endpoint: &RedisEndpoint, serving: impl Future<Output = T>) -> T {
    endpoint.common.counts.connections().while_open(serving).await
}
