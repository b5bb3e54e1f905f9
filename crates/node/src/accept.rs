//! Decides which connections are accepted, and for which role.
//!
//! # Guarantees
//! - Clients that only open connections can exhaust neither the file descriptors of the process nor the connection
//!   slots of clients that work.
//! - A client that has not shown its role yet belongs to a small set of connections. If this set is full, a new
//!   connection replaces the oldest one. With TLS a client shows its role by its certificate, and otherwise by its
//!   first call.
//!
//! This module does not depend on the data that connections carry.

mod connection_registry;
mod connection_slots;
mod guarded;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use firstseen_wire::limits::CONNECT_TIMEOUT;
use firstseen_wire::tls::{PeerRoles, ServerTls};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

use crate::audit::Audit;
use crate::edges::{Connection, Incoming};
use crate::metrics::ConnectionMeter;
use crate::roles::Caller;
use crate::shares::Party;
use connection_registry::ConnectionPlace;
pub(crate) use connection_registry::{ConnectionRegistry, ConnectionSlot, OpenCall};
pub(crate) use guarded::{Guarded, Visitor};
use guarded::{HTTP1, HTTP2};

/// Pause before the next attempt after the operating system has refused to accept a connection. The cause, for example
/// too many open files, usually lasts for a while, so an immediate attempt would fail again.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of accepted connections that wait for the server.
const ADMITTED_MAX: usize = 1;

/// A connection in the form in which the server receives it.
type Admitted = io::Result<Guarded<Connection>>;

/// Configuration of TLS handshakes.
#[derive(Clone)]
pub(crate) struct TlsAccept {
    pub(crate) tls: ServerTls,
    pub(crate) audit: Arc<Audit>,
}

/// Returns the stream of connections that are ready to be served, and the task that accepts these connections from
/// `incoming`. If `tls` is set, a connection is ready when it has completed its TLS handshake. The task ends and closes
/// the listener soon after the caller drops the stream.
pub(crate) fn admitted(
    incoming: Incoming,
    tls: Option<TlsAccept>,
    registry: Arc<ConnectionRegistry>,
) -> (ReceiverStream<Admitted>, JoinHandle<()>) {
    let (admitted_sender, admitted) = mpsc::channel(ADMITTED_MAX);
    let accepting = tokio::spawn(accept(incoming, tls, registry, admitted_sender));
    (ReceiverStream::new(admitted), accepting)
}

async fn accept(
    mut incoming: Incoming,
    tls: Option<TlsAccept>,
    registry: Arc<ConnectionRegistry>,
    admitted_sender: mpsc::Sender<Admitted>,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = admitted_sender.closed() => return,
            accepted = incoming.next() => accepted,
        };
        match (accepted, &tls) {
            (None, _) => return,
            (Some(Ok(connection)), None) => {
                if admitted_sender.send(Ok(Guarded::new(connection, HTTP2, registry.come()))).await.is_err() {
                    return;
                }
            }
            (Some(Ok(connection)), Some(tls)) => {
                tokio::spawn(shake_hands(connection, tls.clone(), registry.come(), admitted_sender.clone()));
            }
            (Some(Err(error)), _) if is_of_one_connection(&error) => {}
            (Some(Err(error)), _) => {
                tracing::warn!(%error, "accepting a connection failed: no connections are accepted for a moment");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Returns whether an error affects only the connection that was being accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Performs the TLS handshake of a new connection, and passes the connection to the server according to the peer's
/// certificate. The handshake is aborted if it takes too long, or if the listener closes this connection to make room
/// for newer ones.
async fn shake_hands(
    connection: Connection,
    TlsAccept { tls, audit }: TlsAccept,
    place: ConnectionPlace,
    admitted_sender: mpsc::Sender<Admitted>,
) {
    let closed = place.closed().clone();
    let shaking = timeout(CONNECT_TIMEOUT, tls.accept(connection));
    let stream = match closed.run_until_cancelled(shaking).await {
        Some(Ok(Ok(stream))) => stream,
        Some(Ok(Err(error))) => return tracing::debug!(%error, "a handshake has failed"),
        Some(Err(_)) | None => return tracing::debug!("a handshake took too long"),
    };
    let connection = Connection::secured(stream);
    let certificates = connection.certificates();
    let caller = Caller::showing(Some(certificates.clone()));
    let who = audit.who(&caller, connection.connect_info().remote_addr);
    place.show(certificates.clone());
    // A certificate may have been revoked during the handshake. From now on, this certificate is checked together with
    // the certificates of all other connections.
    if let Err(reason) = tls.still_accepts(&certificates, Duration::from_millis(who.at_ms)) {
        return tracing::debug!(reason, "a handshake used a certificate that is no longer accepted");
    }
    // A client without a certificate is unknown until its first call, which carries its token. Without TLS, this is
    // true of all clients.
    let is_stranger = certificates.is_empty();
    if !is_stranger {
        audit.came(&who, None);
    }
    if is_stranger || place.known(party(caller.roles())) {
        let _ = admitted_sender.send(Ok(Guarded::new(connection, HTTP2, place))).await;
    }
}

/// Returns the kind of client whose connection slots a connection with these roles uses.
pub(crate) fn party(roles: PeerRoles) -> Party {
    match roles {
        PeerRoles { node: true, .. } => Party::Nodes,
        PeerRoles { admin: true, .. } => Party::Operators,
        _ => Party::Producers,
    }
}

/// Listener for health checks and metrics with a limited number of connections. At the limit, a new connection replaces
/// the oldest one.
pub(crate) struct BoundedListener {
    listener: TcpListener,
    registry: Arc<ConnectionRegistry>,
}

impl BoundedListener {
    pub(crate) fn new(listener: TcpListener, connections_max: u32, meter: ConnectionMeter) -> Self {
        Self { listener, registry: ConnectionRegistry::new(0, connections_max, meter) }
    }
}

impl Listener for BoundedListener {
    type Io = Guarded<<TcpListener as Listener>::Io>;
    type Addr = <TcpListener as Listener>::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (connection, address) = Listener::accept(&mut self.listener).await;
        (Guarded::new(connection, HTTP1, self.registry.come()), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
