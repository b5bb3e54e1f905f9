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

use crate::doors::threads::{self, DoorThreads};
use crate::doors::{NodeHost, own_client, replied};
use crate::shared::Shared;

/// What calls at the door are called where it is written down who did what.
const CALL: &str = "http_api";
/// What its clients are called in the log.
const CLIENTS: &str = "HTTP clients";
/// How long a verdict on a record of a stream is waited for.
const STREAM_DEADLINE: Duration = Duration::from_secs(15);

/// Opens the door if the settings have one, and returns its address.
pub(crate) fn open(listener: Option<TcpListener>, tls: Option<ServerTls>, shared: &Arc<Shared>) -> Option<SocketAddr> {
    let (listener, settings) = (listener?, shared.config.http_api.clone()?);
    let address = listener.local_addr().ok();
    let tls = tls.filter(|_| settings.tls);
    let host = Arc::new(NodeHost::new(shared.clone(), CALL, tls.clone()));
    let hosts = Hosts::new(shared.config.advertise.as_deref(), &settings.hosts);
    let door = Arc::new(HttpDoor::new(&settings, host, tls, hosts));
    tokio::spawn(serve(door, settings, listener, shared.clone()));
    address
}

/// Closes the door. Waits until open connections have their replies, for [`REPLIES_MAX`](crate::doors::REPLIES_MAX) at most.
pub(crate) async fn close(shared: &Shared) {
    shared.departure.door_closed.cancel();
    if let Some(door) = shared.open.http_door.get() {
        replied(|| door.open()).await;
    }
}

/// Serves HTTP clients until the node stops.
async fn serve(door: Arc<HttpDoor>, settings: HttpDoorSettings, listener: TcpListener, shared: Arc<Shared>) {
    // Nothing new is taken up then, and what is under way is replied to.
    let stop = shared.departure.door_closed.clone();
    let count = threads::count(settings.threads);
    let threads = DoorThreads { name: "http", clients: CLIENTS, count, stop: &stop };
    let attendant = |_| {
        let (door, shared, stop) = (door.clone(), shared.clone(), stop.clone());
        let verdict_timeout = settings.verdict_timeout();
        move || async move {
            let connecting = own_client::connect(&shared, CLIENTS, verdict_timeout);
            let calls = stop.run_until_cancelled(connecting).await?;
            let connecting = own_client::connect(&shared, CLIENTS, STREAM_DEADLINE);
            let streams = stop.run_until_cancelled(connecting).await?;
            let (sender, attendant) = door.attendant(Clients { calls, streams }, stop);
            Some((sender, attendant.serve()))
        }
    };
    let Some(attendants) = threads.start(attendant).await else { return };
    let _ = shared.open.http_door.set(door.counts());
    door.serve(listener, &attendants, stop).await;
}
