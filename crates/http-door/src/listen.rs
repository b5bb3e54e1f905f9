//! Accepts connections of HTTP clients and hands them to attendants, which serve them.
//!
//! Connections beyond the limit are closed at once. A connection stays with one attendant. When the door stops, each connection ends
//! after the reply that is under way. This module must not depend on calls and threads.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use firstseen_backend::{
    Acceptor, ConnectionReceiver, ConnectionSender, Filters, Guest, Host, Hosts, connections, room,
};
use firstseen_client::Client;
use firstseen_wire::limits::CONNECT_TIMEOUT;
use firstseen_wire::tls::ServerTls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connected_client::ConnectedClient;
use crate::connection::serve;
use crate::counts::HttpCounts;
use crate::router::{document, router};
use crate::settings::HttpDoorSettings;
use crate::shared::{Common, Shared};

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
    acceptor: Acceptor,
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
    connections: ConnectionReceiver,
    stop: CancellationToken,
}

impl HttpDoor {
    /// A door for the clients that `host` lets in. With `tls`, clients speak TLS, and check the name of the node
    /// themselves. Without TLS, requests must name the node by one of `hosts`.
    pub fn new(settings: &HttpDoorSettings, host: Arc<dyn Host>, tls: Option<ServerTls>, hosts: Hosts) -> Self {
        let counts = Arc::new(HttpCounts::default());
        let refusal = if tls.is_none() { Some(TOO_MANY) } else { None };
        let acceptor = Acceptor::new("HTTP clients", settings.connections_max, refusal, counts.connections());
        let common = Common {
            host,
            hosts: tls.is_none().then_some(hosts),
            counts,
            body_bytes_max: settings.body_bytes_max as usize,
            room: room(settings.buffered_bytes_max),
            streams: Arc::new(Semaphore::new(settings.streams_max as usize)),
            openapi: document(),
        };
        Self { common: Arc::new(common), tls, acceptor }
    }

    /// What has happened at the door.
    pub fn counts(&self) -> Arc<HttpCounts> {
        self.common.counts.clone()
    }

    /// An attendant to the filters that the clients reach, until `stop` is cancelled.
    pub fn attendant(self: &Arc<Self>, clients: Clients, stop: CancellationToken) -> (ConnectionSender, HttpAttendant) {
        let (sender, connections) = connections();
        let shared = Shared {
            filters: Filters::new(clients.calls, self.common.host.clone()),
            patient: Filters::new(clients.streams, self.common.host.clone()),
            common: self.common.clone(),
            stop: stop.clone(),
        };
        let attendant = HttpAttendant { door: self.clone(), router: router(Arc::new(shared)), connections, stop };
        (sender, attendant)
    }

    /// Accepts connections until `stop`, and hands them to attendants in turn.
    pub async fn serve(&self, listener: TcpListener, attendants: &[ConnectionSender], stop: CancellationToken) {
        self.acceptor.accept(listener, attendants, stop).await;
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
        let serving = serve(router, stream, Arc::new(ConnectedClient::new(from, known)), stop);
        self.common.counts.connections().while_open(serving).await;
    }
}

impl HttpAttendant {
    /// Serves the connections that it is handed until the door stops, and then until these have the replies to what they asked.
    pub async fn serve(self) {
        let open = TaskTracker::new();
        let Self { door, router, mut connections, stop } = self;
        connections
            .serve(&open, &stop, |stream, from| {
                let door = door.clone();
                let router = router.clone();
                let stop = stop.clone();
                async move { door.welcome(router, stream, from, &stop).await }
            })
            .await;
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
