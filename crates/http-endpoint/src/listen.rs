//! Accepts connections of HTTP clients, and distributes the connections over several workers. A worker is a
//! group of tasks that serves a part of the connections and has its own clients of the cluster.
//!
//! The number of HTTP connections is limited, and connections beyond the limit are closed at once. Each connection
//! stays with one worker until it ends. When the endpoint stops, each connection ends after the reply in progress.
//!
//! This module does not depend on calls and threads.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use firstseen_backend::{
    Acceptor, ClientSession, ConnectionReceiver, ConnectionSender, Filters, Host, Hosts, connections, room,
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
use crate::settings::HttpEndpointSettings;
use crate::shared::{Common, Shared};

/// Reply to a client whose connection is beyond the limit.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 5\r\n\
    connection: close\r\ncontent-length: 186\r\n\r\n\
    {\"type\":\"urn:firstseen:problem:no-room\",\"title\":\"The node has no room for the request now\",\"status\":503,\
    \"detail\":\"as many connections are open as connections_max of [http_api] allows\"}  ";

/// HTTP endpoint of a node.
pub struct HttpEndpoint {
    common: Arc<Common>,
    tls: Option<ServerTls>,
    acceptor: Acceptor,
}

/// Firstseen clients that a worker uses to ask the cluster.
pub struct Clients {
    /// Client for calls, whose users wait for the reply.
    pub calls: Client,
    /// Client for streams of records, which can wait longer.
    pub streams: Client,
}

/// Server of some of the connections, with its own firstseen clients. Its tasks run in the runtime in which
/// [`Self::serve`] is called.
pub struct HttpWorker {
    endpoint: Arc<HttpEndpoint>,
    router: Router,
    connections: ConnectionReceiver,
    stop: CancellationToken,
}

impl HttpEndpoint {
    /// Creates an HTTP endpoint, which serves the clients that `host` authorizes. If `tls` is set, clients must connect
    /// with TLS. Such clients verify the node's name themselves, so the endpoint does not check the `Host` header of
    /// their requests. Without TLS, a request must name the node by one of `hosts`.
    pub fn new(settings: &HttpEndpointSettings, host: Arc<dyn Host>, tls: Option<ServerTls>, hosts: Hosts) -> Self {
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

    /// Returns the counters of the endpoint.
    pub fn counts(&self) -> Arc<HttpCounts> {
        self.common.counts.clone()
    }

    /// Creates a worker that uses these clients until `stop` is cancelled.
    pub fn worker(self: &Arc<Self>, clients: Clients, stop: CancellationToken) -> (ConnectionSender, HttpWorker) {
        let (sender, connections) = connections();
        let shared = Shared {
            filters: Filters::new(clients.calls, self.common.host.clone()),
            patient: Filters::new(clients.streams, self.common.host.clone()),
            common: self.common.clone(),
            stop: stop.clone(),
        };
        let worker = HttpWorker { endpoint: self.clone(), router: router(Arc::new(shared)), connections, stop };
        (sender, worker)
    }

    /// Accepts connections until `stop` is cancelled, and distributes them over the workers in turn.
    pub async fn serve(&self, listener: TcpListener, workers: &[ConnectionSender], stop: CancellationToken) {
        self.acceptor.accept(listener, workers, stop).await;
    }

    async fn accept_connection(&self, router: Router, stream: TcpStream, from: SocketAddr, stop: &CancellationToken) {
        let host = &self.common.host;
        match &self.tls {
            None => self.serve_connection(router, stream, from, host.known(None, from), stop).await,
            Some(tls) => match timeout(CONNECT_TIMEOUT, tls.accept_http1(stream)).await {
                Ok(Ok(stream)) => {
                    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
                    let known = host.known(Some(&certificates), from);
                    self.serve_connection(router, stream, from, known, stop).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, %from, "a handshake of an HTTP client has failed"),
                Err(_) => tracing::debug!(%from, "a handshake of an HTTP client has not ended in time"),
            },
        }
    }

    async fn serve_connection<T>(
        &self,
        router: Router,
        stream: T,
        from: SocketAddr,
        known: Option<Arc<dyn ClientSession>>,
        stop: &CancellationToken,
    ) where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let serving = serve(router, stream, Arc::new(ConnectedClient::new(from, known)), stop);
        self.common.counts.connections().while_open(serving).await;
    }
}

impl HttpWorker {
    /// Serves the connections of this worker until the endpoint stops. During shutdown the function waits until
    /// every request that has arrived has its reply.
    pub async fn serve(self) {
        let open = TaskTracker::new();
        let Self { endpoint, router, mut connections, stop } = self;
        connections
            .serve(&open, &stop, |stream, from| {
                let endpoint = endpoint.clone();
                let router = router.clone();
                let stop = stop.clone();
                async move { endpoint.accept_connection(router, stream, from, &stop).await }
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
