//! Connections that come to the door.
//!
//! Promises: connections beyond the limit are told so and closed; the door ends when it is told to, and with it all connections.
//! Must not know: commands.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstseen_client::Client;
use firstseen_wire::limits::CONNECT_TIMEOUT;
use firstseen_wire::tls::ServerTls;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::connection::serve;
use crate::confirming::Confirmer;
use crate::counts::DoorCounts;
use crate::filters::Filters;
use crate::host::Host;
use crate::names::Names;
use crate::room::room;
use crate::rules::Rules;
use crate::sandbox::Sandbox;
use crate::session::{Session, Shared};
use crate::settings::DoorSettings;

/// For how long no connection is accepted after the machine has refused one.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// After so long without a word it is asked whether the other machine is there, and then so often (nine times, as Linux has it).
const SILENCE: Duration = Duration::from_secs(60);
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// What Redis says where there is no room.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// A door that is open.
pub struct Door {
    shared: Arc<Shared>,
    tls: Option<ServerTls>,
    places: Arc<Semaphore>,
    room: Arc<Semaphore>,
    connections: AtomicU64,
}

impl Door {
    /// A door to the filters that `client` reaches, for whom `host` lets in. With `tls`, clients speak TLS.
    pub fn new(
        settings: DoorSettings,
        client: Client,
        host: Arc<dyn Host>,
        tls: Option<ServerTls>,
        node: &str,
    ) -> Self {
        let places = Arc::new(Semaphore::new(settings.connections_max as usize));
        let room = room(settings.buffered_bytes_max);
        let (names, filters) = (Names::new(&settings.prefix), Filters::new(client));
        let sandbox = settings.sandbox.then(Sandbox::default);
        let shared = Shared {
            sandbox,
            rules: Rules::new(&settings),
            confirmer: Confirmer::default(),
            settings,
            names,
            filters,
            host,
            counts: Arc::new(DoorCounts::new()),
            node: node.to_owned(),
        };
        Self { shared: Arc::new(shared), tls, places, room, connections: AtomicU64::new(1) }
    }

    /// What has happened at the door.
    pub fn counts(&self) -> Arc<DoorCounts> {
        self.shared.counts.clone()
    }

    /// Serves whoever connects, until `stop`.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) {
        if self.shared.rules.has_confirms() {
            let (shared, stop) = (self.shared.clone(), stop.clone());
            tokio::spawn(async move { stop.run_until_cancelled(shared.confirmer.run(&shared.filters)).await });
        }
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, from)) => self.clone().come(stream, from, &stop),
                Err(error) => {
                    tracing::warn!(%error, "no Redis clients are accepted for a moment");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn come(self: Arc<Self>, mut stream: TcpStream, from: SocketAddr, stop: &CancellationToken) {
        // Without it small replies wait up to 40 ms for an acknowledgement.
        let _ = stream.set_nodelay(true);
        // A machine that is gone says nothing: its place would be taken for ever.
        let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE).with_interval(PROBE_EVERY));
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.shared.counts.turned_away.fetch_add(1, Ordering::Relaxed);
            let _ = stream.try_write(TOO_MANY);
            tokio::spawn(async move { stream.shutdown().await });
            return;
        };
        let stop = stop.clone();
        tokio::spawn(async move {
            self.shared.counts.open.fetch_add(1, Ordering::Relaxed);
            self.welcome(stream, from, &stop).await;
            self.shared.counts.open.fetch_sub(1, Ordering::Relaxed);
            drop(place);
        });
    }

    async fn welcome(&self, stream: TcpStream, from: SocketAddr, stop: &CancellationToken) {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let session = |known| Session::new(self.shared.clone(), self.room.clone(), number, (from, known));
        let ended = match &self.tls {
            None => serve(stream, session(self.shared.host.known(None, from)), self.room.clone(), stop).await,
            Some(tls) => match timeout(CONNECT_TIMEOUT, tls.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
                    let known = self.shared.host.known(Some(&certificates), from);
                    serve(stream, session(known), self.room.clone(), stop).await
                }
                Ok(Err(error)) => return tracing::debug!(%error, %from, "a handshake of a Redis client has failed"),
                Err(_) => return tracing::debug!(%from, "a handshake of a Redis client has not ended in time"),
            },
        };
        tracing::debug!(?ended, %from, "a Redis client has gone");
    }
}
