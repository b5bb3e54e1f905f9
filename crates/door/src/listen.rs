//! Accepts connections of Redis clients and hands them to attendants, which serve them.
//!
//! Connections beyond the limit get an error and are closed. A connection stays with one attendant. When the door stops, all its
//! connections end. This module must not depend on commands and threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstseen_backend::{Acceptor, ConnectionReceiver, ConnectionSender, Filters, Guest, Host, connections, room};
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

use crate::confirming::Confirmer;
use crate::connection::{Ended, serve};
use crate::counts::DoorCounts;
use crate::names::Names;
use crate::outbox::Outbox;
use crate::sandbox::Sandbox;
use crate::session::{Caller, Common, Session, Shared};
use crate::settings::{DoorSettings, Rules};

/// The error of Redis for a connection beyond the limit.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// The door for Redis clients.
pub struct Door {
    common: Arc<Common>,
    tls: Option<ServerTls>,
    acceptor: Acceptor,
    room: Arc<Semaphore>,
    connections: AtomicU64,
}

/// Serves some of the connections, with a client of its own. Its tasks are those of the runtime in which it serves.
pub struct Attendant {
    door: Arc<Door>,
    shared: Arc<Shared>,
    connections: ConnectionReceiver,
    /// Whether it confirms claims as well, as one of all attendants does.
    confirms: bool,
    /// Whether it confirms pending claims when it stops.
    confirms_at_stop: bool,
}

/// A connection that was not accepted by the door.
pub struct Arrival<T> {
    /// The connection.
    pub stream: T,
    /// The address of the client.
    pub from: SocketAddr,
    /// The guest, if the network itself tells who has connected.
    pub guest: Option<Arc<dyn Guest>>,
}

impl Door {
    /// Creates a door for the clients that `host` lets in. With `tls`, clients speak TLS. `node` is the name in `INFO`.
    pub fn new(settings: DoorSettings, host: Arc<dyn Host>, tls: Option<ServerTls>, node: &str) -> Self {
        let room = room(settings.buffered_bytes_max);
        let counts = Arc::new(DoorCounts::new());
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

    /// The counts of the door.
    pub fn counts(&self) -> Arc<DoorCounts> {
        self.common.counts.clone()
    }

    /// How long the door waits for a verdict: the deadline of the clients that its attendants get.
    pub fn verdict_timeout(&self) -> Duration {
        self.common.settings.verdict_timeout()
    }

    /// Creates an attendant that asks through `client`. The first of all attendants also confirms claims.
    pub fn attendant(self: &Arc<Self>, client: Client, is_first: bool) -> (ConnectionSender, Attendant) {
        let (sender, connections) = connections();
        let shared = Shared { filters: Filters::new(client, self.common.host.clone()), common: self.common.clone() };
        let confirms = is_first && self.common.rules.has_confirms();
        (
            sender,
            Attendant { door: self.clone(), shared: Arc::new(shared), connections, confirms, confirms_at_stop: true },
        )
    }

    /// Accepts connections until `stop`, and hands them to attendants in turn.
    pub async fn serve(&self, listener: TcpListener, attendants: &[ConnectionSender], stop: CancellationToken) {
        self.acceptor.accept(listener, attendants, stop).await;
    }

    async fn welcome(&self, shared: &Arc<Shared>, stream: TcpStream, from: SocketAddr, stop: &CancellationToken) {
        let host = &self.common.host;
        let at = stream.local_addr().unwrap_or(self.common.settings.listen);
        let ended = match &self.tls {
            None => {
                let caller = Caller { from, at, known: host.known(None, from) };
                self.attend(shared, stream, caller, stop).await
            }
            Some(tls) => match timeout(CONNECT_TIMEOUT, tls.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
                    let caller = Caller { from, at, known: host.known(Some(&certificates), from) };
                    self.attend(shared, stream, caller, stop).await
                }
                Ok(Err(error)) => return tracing::debug!(%error, %from, "a handshake of a Redis client has failed"),
                Err(_) => return tracing::debug!(%from, "a handshake of a Redis client has not ended in time"),
            },
        };
        tracing::debug!(?ended, %from, "a Redis client has gone");
    }

    async fn attend<T>(&self, shared: &Arc<Shared>, stream: T, caller: Caller, stop: &CancellationToken) -> Ended
    where
        T: AsyncRead + AsyncWrite + Send + Sync + 'static,
    {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let (reader, writer) = split(stream);
        let session = Session::new(shared.clone(), self.room.clone(), number, caller, Outbox::new(writer));
        serve(reader, session, self.room.clone(), stop).await
    }
}

impl Attendant {
    /// Serves the connections that it is handed until `stop` is cancelled. Then it waits until they have their replies and pending claims
    /// are confirmed.
    pub async fn serve(self, stop: CancellationToken) {
        let open = TaskTracker::new();
        self.confirm(&open, &stop);
        let Self { door, shared, mut connections, .. } = self;
        connections
            .serve(&open, &stop, |stream, from| {
                let door = door.clone();
                let shared = shared.clone();
                let stop = stop.clone();
                async move { counted(&door, door.welcome(&shared, stream, from, &stop)).await }
            })
            .await;
        open.close();
        open.wait().await;
    }

    /// Drops pending claims at the stop, as a crash does, so that tests can show what is lost.
    #[doc(hidden)]
    #[must_use]
    pub fn without_confirms_at_stop(self) -> Self {
        Self { confirms_at_stop: false, ..self }
    }

    /// Serves connections that were accepted elsewhere until `stop` is cancelled, and then ends like [`Self::serve`]. It has neither a
    /// limit of connections nor TLS: simulated networks have another type of stream.
    pub async fn serve_arrivals<T>(self, mut arrivals: impl Stream<Item = Arrival<T>> + Unpin, stop: CancellationToken)
    where
        T: AsyncRead + AsyncWrite + Send + Sync + 'static,
    {
        let open = TaskTracker::new();
        self.confirm(&open, &stop);
        while let Some(Some(Arrival { stream, from, guest })) = stop.run_until_cancelled(arrivals.next()).await {
            let door = self.door.clone();
            let shared = self.shared.clone();
            let stop = stop.clone();
            let caller = Caller { from, at: door.common.settings.listen, known: guest };
            open.spawn(async move { counted(&door, door.attend(&shared, stream, caller, &stop)).await });
        }
        open.close();
        open.wait().await;
    }

    /// Starts to confirm claims, if that is this attendant's task.
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

/// Serves a connection, which counts as open meanwhile.
async fn counted<T>(door: &Door, serving: impl Future<Output = T>) -> T {
    door.common.counts.connections().while_open(serving).await
}
