//! Which connections get in, and in which role.
//!
//! Promises: peers that only connect take neither the process's files nor the places of peers that work. A peer that
//! has not yet shown its role (in TLS by its certificate; without, by its first call) is one of a few, of which the
//! oldest is closed when another comes. Must not know: what connections carry.

mod entrance;
mod guarded;
mod hall;

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
use entrance::ConnectionPlace;
pub(crate) use entrance::{Entrance, OpenCall, Seat};
pub(crate) use guarded::{Guarded, Visitor};
use guarded::{HTTP1, HTTP2};

/// For how long no connection is accepted after the machine has refused one: its reason, such as too many open files,
/// lasts.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Connections that have got in, and that the server has not taken over yet.
const ADMITTED_MAX: usize = 1;

/// A connection, as the server gets it.
type Admitted = io::Result<Guarded<Connection>>;

/// What a handshake needs.
#[derive(Clone)]
pub(crate) struct TlsAccept {
    pub(crate) tls: ServerTls,
    pub(crate) audit: Arc<Audit>,
}

/// The connections of `incoming` that get in, after their handshakes, and the task that lets them in. It ends soon after the
/// stream is dropped, and with it the listener.
pub(crate) fn admitted(
    incoming: Incoming,
    tls: Option<TlsAccept>,
    entrance: Arc<Entrance>,
) -> (ReceiverStream<Admitted>, JoinHandle<()>) {
    let (guests, admitted) = mpsc::channel(ADMITTED_MAX);
    let accepting = tokio::spawn(accept(incoming, tls, entrance, guests));
    (ReceiverStream::new(admitted), accepting)
}

async fn accept(
    mut incoming: Incoming,
    tls: Option<TlsAccept>,
    entrance: Arc<Entrance>,
    guests: mpsc::Sender<Admitted>,
) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = guests.closed() => return,
            accepted = incoming.next() => accepted,
        };
        match (accepted, &tls) {
            (None, _) => return,
            (Some(Ok(connection)), None) => {
                if guests.send(Ok(Guarded::new(connection, HTTP2, entrance.come()))).await.is_err() {
                    return;
                }
            }
            (Some(Ok(connection)), Some(tls)) => {
                tokio::spawn(shake_hands(connection, tls.clone(), entrance.come(), guests.clone()));
            }
            (Some(Err(error)), _) if is_of_one_connection(&error) => {}
            (Some(Err(error)), _) => {
                tracing::warn!(%error, "no connections are accepted for a moment");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether only the connection that was being accepted is affected.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Lets a connection in by its certificate, unless the handshake takes too long, or the connection has to go first.
async fn shake_hands(
    connection: Connection,
    TlsAccept { tls, audit }: TlsAccept,
    place: ConnectionPlace,
    guests: mpsc::Sender<Admitted>,
) {
    let closed = place.closed().clone();
    let shaking = timeout(CONNECT_TIMEOUT, tls.accept(connection));
    let stream = match closed.run_until_cancelled(shaking).await {
        Some(Ok(Ok(stream))) => stream,
        Some(Ok(Err(error))) => return tracing::debug!(%error, "a handshake has failed"),
        Some(Err(_)) | None => return tracing::debug!("a handshake has not ended in time"),
    };
    let connection = Connection::secured(stream);
    let certificates = connection.certificates();
    let caller = Caller::showing(Some(certificates.clone()));
    let who = audit.who(&caller, connection.connect_info().remote_addr);
    place.show(certificates.clone());
    // A certificate may have been revoked while the handshake went on: what is shown from now on is looked at with the others.
    if let Err(reason) = tls.still_accepts(&certificates, Duration::from_millis(who.at_ms)) {
        return tracing::debug!(reason, "a handshake went by a certificate that is accepted no more");
    }
    // Who shows no certificate is a stranger until its first call, as everybody is without TLS: only then it shows a token.
    let is_stranger = certificates.is_empty();
    if !is_stranger {
        audit.came(&who, None);
    }
    if is_stranger || place.known(party(caller.roles())) {
        let _ = guests.send(Ok(Guarded::new(connection, HTTP2, place))).await;
    }
}

/// The party whose places are for a connection with these roles.
pub(crate) fn party(roles: PeerRoles) -> Party {
    match roles {
        PeerRoles { node: true, .. } => Party::Nodes,
        PeerRoles { admin: true, .. } => Party::Operators,
        _ => Party::Producers,
    }
}

/// A listener for health and metrics, with room for so many connections: the oldest goes when there are more.
pub(crate) struct BoundedListener {
    listener: TcpListener,
    entrance: Arc<Entrance>,
}

impl BoundedListener {
    pub(crate) fn new(listener: TcpListener, connections_max: u32, meter: ConnectionMeter) -> Self {
        Self { listener, entrance: Entrance::new(0, connections_max, meter) }
    }
}

impl Listener for BoundedListener {
    type Io = Guarded<<TcpListener as Listener>::Io>;
    type Addr = <TcpListener as Listener>::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (connection, address) = Listener::accept(&mut self.listener).await;
        (Guarded::new(connection, HTTP1, self.entrance.come()), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
