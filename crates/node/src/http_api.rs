//! The door for HTTP clients in this node: where it listens, its threads, and how it closes.
//!
//! Nobody is accepted before the node can be asked. This module must not depend on what HTTP clients ask.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use firstseen_backend::Hosts;
use firstseen_http_door::{Clients, HttpDoor, HttpDoorSettings};
use firstseen_wire::tls::ServerTls;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::departure::Departure;
use crate::doors::own_client::OwnClients;
use crate::doors::threads::{self, DoorThreads};
use crate::doors::{DoorContext, NodeHost, replied};
use crate::open_counts::OpenDoors;

/// What calls at the door are called where it is written down who did what.
const CALL: &str = "http_api";
/// What its clients are called in the log.
const CLIENTS: &str = "HTTP clients";
/// How long a verdict on a record of a stream is waited for.
const STREAM_DEADLINE: Duration = Duration::from_secs(15);

/// The place of the door in the node.
pub(crate) struct HttpApi {
    pub(crate) settings: HttpDoorSettings,
    pub(crate) node: Arc<DoorContext>,
    pub(crate) clients: Arc<OwnClients>,
    pub(crate) doors: Arc<OpenDoors>,
    /// The `host:port` at which others reach the node, where its settings have it.
    pub(crate) advertise: Option<String>,
    /// Cancelled when the door closes: nothing new is taken up then, and what is under way is replied to.
    pub(crate) stop: CancellationToken,
}

impl HttpApi {
    /// Opens the door, and returns its address.
    pub(crate) fn open(self, listener: TcpListener, tls: Option<ServerTls>) -> Option<SocketAddr> {
        let address = listener.local_addr().ok();
        let tls = tls.filter(|_| self.settings.tls);
        let host = Arc::new(NodeHost::new(self.node.clone(), CALL, tls.clone()));
        let hosts = Hosts::new(self.advertise.as_deref(), &self.settings.hosts);
        let door = Arc::new(HttpDoor::new(&self.settings, host, tls, hosts));
        tokio::spawn(self.serve(door, listener));
        address
    }

    /// Serves HTTP clients until the node stops.
    async fn serve(self, door: Arc<HttpDoor>, listener: TcpListener) {
        let Self { settings, clients, doors, stop, .. } = self;
        let count = threads::count(settings.threads);
        let threads = DoorThreads { name: "http", clients: CLIENTS, count, stop: &stop };
        let started = threads.start(|_| {
            let door = door.clone();
            let own_clients = clients.clone();
            let stop = stop.clone();
            let verdict_timeout = settings.verdict_timeout();
            move || async move {
                let connecting = own_clients.connect(CLIENTS, verdict_timeout);
                let calls = stop.run_until_cancelled(connecting).await?;
                let connecting = own_clients.connect(CLIENTS, STREAM_DEADLINE);
                let streams = stop.run_until_cancelled(connecting).await?;
                let (sender, attendant) = door.attendant(Clients { calls, streams }, stop);
                Some((sender, attendant.serve()))
            }
        });
        let Some(attendants) = started.await else { return };
        let _ = doors.http.set(door.counts());
        door.serve(listener, &attendants, stop).await;
    }
}

/// Closes the door. Waits until open connections have their replies, for [`REPLIES_MAX`](crate::doors::REPLIES_MAX) at most.
pub(crate) async fn close(departure: &Departure, doors: &OpenDoors) {
    departure.door_closed.cancel();
    if let Some(door) = doors.http.get() {
        replied(|| door.open()).await;
    }
}
