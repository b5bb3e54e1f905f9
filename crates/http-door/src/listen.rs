//! Accepts connections of HTTP clients and hands them to attendants, which serve them.
//!
//! Connections beyond the limit are closed at once. A connection stays with one attendant. When the door stops, each connection ends
//! after the reply that is under way. This module must not depend on calls and threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use firstseen_backend::{Filters, Guest, Host, Hosts, room};
use firstseen_client::Client;
use firstseen_wire::limits::CONNECT_TIMEOUT;
use firstseen_wire::tls::ServerTls;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connected_client::ConnectedClient;
use crate::connection::serve;
use crate::counts::HttpCounts;
use crate::router::{document, router};
use crate::settings::HttpDoorSettings;
use crate::shared::{Common, Shared};

/// For how long no connection is accepted after the machine has refused one.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// After so long a silence the system probes the other machine, and again at the second interval.
const SILENCE: Duration = Duration::from_secs(60);
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// Connections that wait for an attendant.
const WAITING_MAX: usize = 64;
/// What a client reads for which there is no place.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 5\r\n\
    connection: close\r\ncontent-length: 186\r\n\r\n\
    {\"type\":\"urn:firstseen:problem:no-room\",\"title\":\"The node has no room for the request now\",\"status\":503,\
    \"detail\":\"as many connections are open as connections_max of [http_api] allows\"}  ";

/// A door for HTTP clients.
pub struct HttpDoor {
    common: Arc<Common>,
    tls: Option<ServerTls>,
    places: Arc<Semaphore>,
}

/// The clients through which an attendant asks the cluster.
pub struct Clients {
    /// Asks for calls, whose clients wait for the reply.
    pub calls: Client,
    /// Asks for streams of records, which can wait for longer.
    pub streams: Client,
}

/// Serves some of the connections, with clients of its own. Its tasks are those of the runtime in which it serves.
pub struct HttpAttendant {
    door: Arc<HttpDoor>,
    router: Router,
    coming: mpsc::Receiver<Coming>,
    stop: CancellationToken,
}

/// Where connections are handed to an attendant.
pub struct HttpCounter(mpsc::Sender<Coming>);

/// A connection that an attendant is to take.
struct Coming {
    stream: std::net::TcpStream,
    from: SocketAddr,
    place: OwnedSemaphorePermit,
}

impl HttpDoor {
    /// A door for the clients that `host` lets in. With `tls`, clients speak TLS, and check the name of the node
    /// themselves; without, they may ask by the names in `hosts`.
    pub fn new(settings: &HttpDoorSettings, host: Arc<dyn Host>, tls: Option<ServerTls>, hosts: Hosts) -> Self {
        let common = Common {
            host,
            hosts: tls.is_none().then_some(hosts),
            counts: Arc::new(HttpCounts::default()),
            body_bytes_max: settings.body_bytes_max as usize,
            room: room(settings.buffered_bytes_max),
            streams: Arc::new(Semaphore::new(settings.streams_max as usize)),
            openapi: document(),
        };
        let places = Arc::new(Semaphore::new(settings.connections_max as usize));
        Self { common: Arc::new(common), tls, places }
    }

    /// What has happened at the door.
    pub fn counts(&self) -> Arc<HttpCounts> {
        self.common.counts.clone()
    }

    /// An attendant to the filters that the clients reach, until `stop` is cancelled.
    pub fn attendant(self: &Arc<Self>, clients: Clients, stop: CancellationToken) -> (HttpCounter, HttpAttendant) {
        let (sender, coming) = mpsc::channel(WAITING_MAX);
        let shared = Shared {
            filters: Filters::new(clients.calls, self.common.host.clone()),
            patient: Filters::new(clients.streams, self.common.host.clone()),
            common: self.common.clone(),
            stop: stop.clone(),
        };
        let attendant = HttpAttendant { door: self.clone(), router: router(Arc::new(shared)), coming, stop };
        (HttpCounter(sender), attendant)
    }

    /// Accepts whoever connects, until `stop`, and hands the connections to attendants in turn.
    pub async fn serve(&self, listener: TcpListener, counters: &[HttpCounter], stop: CancellationToken) {
        let mut next = counters.iter().cycle();
        while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
            match accepted.map(|(stream, from)| self.come(stream, from)) {
                Ok(None) => {}
                Ok(Some(coming)) => {
                    let Some(counter) = next.next() else { return };
                    if counter.0.send(coming).await.is_err() {
                        tracing::warn!("a thread of the door for HTTP has ended: a connection is closed");
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "no HTTP clients are accepted for a moment");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// A connection for which there is a place.
    fn come(&self, stream: TcpStream, from: SocketAddr) -> Option<Coming> {
        // Without it small replies wait up to 40 ms for an acknowledgement.
        let _ = stream.set_nodelay(true);
        // A machine that is gone says nothing: its place would be taken for ever.
        let keepalive = TcpKeepalive::new().with_time(SILENCE).with_interval(PROBE_EVERY);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            self.common.counts.turned_away.fetch_add(1, Ordering::Relaxed);
            if self.tls.is_none() {
                let _ = stream.try_write(TOO_MANY);
            }
            return None;
        };
        Some(Coming { stream: stream.into_std().ok()?, from, place })
    }

    async fn welcome(&self, router: Router, stream: TcpStream, from: SocketAddr, stop: &CancellationToken) {
        let host = &self.common.host;
        match &self.tls {
            None => self.attend(router, stream, from, host.known(None, from), stop).await,
            Some(tls) => match timeout(CONNECT_TIMEOUT, tls.accept_http1(stream)).await {
                Ok(Ok(stream)) => {
                    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
                    let known = host.known(Some(&certificates), from);
                    self.attend(router, stream, from, known, stop).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, %from, "a handshake of an HTTP client has failed"),
                Err(_) => tracing::debug!(%from, "a handshake of an HTTP client has not ended in time"),
            },
        }
    }

    async fn attend<T>(
        &self,
        router: Router,
        stream: T,
        from: SocketAddr,
        known: Option<Arc<dyn Guest>>,
        stop: &CancellationToken,
    ) where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let counts = &self.common.counts;
        counts.open.fetch_add(1, Ordering::Relaxed);
        serve(router, stream, Arc::new(ConnectedClient::new(from, known)), stop).await;
        counts.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpAttendant {
    /// Serves the connections that it is handed until the door stops, and then until these have the replies to what they asked.
    pub async fn serve(mut self) {
        let open = TaskTracker::new();
        let stop = self.stop.clone();
        while let Some(Some(Coming { stream, from, place })) = stop.run_until_cancelled(self.coming.recv()).await {
            let Ok(stream) = TcpStream::from_std(stream) else { continue };
            let (door, router, stop) = (self.door.clone(), self.router.clone(), stop.clone());
            open.spawn(async move {
                door.welcome(router, stream, from, &stop).await;
                drop(place);
            });
        }
        open.close();
        open.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_to_a_client_without_a_place_is_whole() {
        let text = std::str::from_utf8(TOO_MANY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let document: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(document["status"], 503);
    }
}
