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

use crate::departure::Departure;
use crate::doors::threads::{self, DoorThreads};
use crate::doors::{DoorPlace, NodeHost, replied};
use crate::open_counts::OpenDoors;

/// What calls at the door are called where it is written down who did what.
const CALL: &str = "http_api";
/// What its clients are called in the log.
const CLIENTS: &str = "HTTP clients";
/// How long a verdict on a record of a stream is waited for.
const STREAM_DEADLINE: Duration = Duration::from_secs(15);

/// Opens the door, and returns its address. `advertise` is the `host:port` at which others reach the node, where its
/// settings have it.
pub(crate) fn open(
    place: DoorPlace,
    settings: HttpDoorSettings,
    listener: TcpListener,
    tls: Option<ServerTls>,
    advertise: Option<&str>,
) -> Option<SocketAddr> {
    let address = listener.local_addr().ok();
    let tls = tls.filter(|_| settings.tls);
    let host = Arc::new(NodeHost::new(place.node.clone(), CALL, tls.clone()));
    let hosts = Hosts::new(advertise, &settings.hosts);
    let door = Arc::new(HttpDoor::new(&settings, host, tls, hosts));
    tokio::spawn(serve(place, door, settings, listener));
    address
}

/// Serves HTTP clients until the node stops.
async fn serve(place: DoorPlace, door: Arc<HttpDoor>, settings: HttpDoorSettings, listener: TcpListener) {
    let DoorPlace { clients, doors, stop, .. } = place;
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

/// Closes the door. Waits until open connections have their replies, for [`REPLIES_MAX`](crate::doors::REPLIES_MAX) at most.
pub(crate) async fn close(departure: &Departure, doors: &OpenDoors) {
    departure.door_closed.cancel();
    if let Some(door) = doors.http.get() {
        replied(|| door.open()).await;
    }
}
