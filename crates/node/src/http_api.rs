//! The door for HTTP clients in this node: where it listens, its threads, and how it closes.
//!
//! Nobody is accepted before the node can be asked. This module must not depend on what HTTP clients ask.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use firstseen_backend::Hosts;
use firstseen_http_door::{Clients, HttpCounter, HttpDoor, HttpDoorSettings};
use firstseen_wire::tls::ServerTls;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::doors::{NodeHost, REPLIES_LOOK, REPLIES_MAX, own_client, threads};
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

/// Closes the door. Waits until open connections have their replies, for [`REPLIES_MAX`] at most.
pub(crate) async fn close(shared: &Shared) {
    shared.departure.door_closed.cancel();
    let Some(door) = shared.open.http_door.get() else { return };
    let until = Instant::now() + REPLIES_MAX;
    while door.open() > 0 && Instant::now() < until {
        sleep(REPLIES_LOOK).await;
    }
}

/// Serves HTTP clients until the node stops.
async fn serve(door: Arc<HttpDoor>, settings: HttpDoorSettings, listener: TcpListener, shared: Arc<Shared>) {
    // Nothing new is taken up then, and what is under way is replied to.
    let stop = shared.departure.door_closed.clone();
    let mut counters = Vec::new();
    for number in 1..=threads::count(settings.threads) {
        match begin(&door, number, settings.verdict_timeout(), &shared, &stop).await {
            Ok(counter) => counters.push(counter),
            Err(error) if stop.is_cancelled() => {
                return tracing::debug!(error, "the door for HTTP clients stays closed");
            }
            Err(error) => tracing::error!(error, "a thread of the door for HTTP clients cannot be started"),
        }
    }
    if counters.is_empty() {
        tracing::error!("the door for HTTP clients stays closed: none of its threads could be started");
    }
    let _ = shared.open.http_door.set(door.counts());
    door.serve(listener, &counters, stop).await;
}

/// Starts a thread with an attendant; returns where connections are handed to it.
async fn begin(
    door: &Arc<HttpDoor>,
    number: usize,
    verdict_timeout: Duration,
    shared: &Arc<Shared>,
    stop: &CancellationToken,
) -> Result<HttpCounter, String> {
    let (door, shared, stop) = (door.clone(), shared.clone(), stop.clone());
    threads::start(format!("http-{number}"), move || async move {
        let calls = own_client::connect(&shared, CLIENTS, verdict_timeout);
        let calls = stop.run_until_cancelled(calls).await?;
        let streams = own_client::connect(&shared, CLIENTS, STREAM_DEADLINE);
        let streams = stop.run_until_cancelled(streams).await?;
        let (counter, attendant) = door.attendant(Clients { calls, streams }, stop);
        Some((counter, attendant.serve()))
    })
    .await
}
