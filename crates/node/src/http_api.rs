//! The HTTP endpoint of a node, through which clients submit events. This module contains the life cycle of the
//! endpoint: how it starts to listen, which threads serve its connections, and how it closes. The endpoint accepts no
//! connection before the node can process requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use firstseen_backend::Hosts;
use firstseen_http_endpoint::{Clients, HttpEndpoint, HttpEndpointSettings};
use firstseen_wire::tls::ServerTls;
use tokio::net::TcpListener;

use crate::endpoints::threads::{self, EndpointThreads};
use crate::endpoints::{EndpointLimits, NodeServices, replied};
use crate::open_counts::OpenEndpoints;
use crate::shutdown::Shutdown;

/// Name of the endpoint's calls in the audit log.
const CALL: &str = "http_api";
/// Name of the endpoint's clients in log messages.
const CLIENTS: &str = "HTTP clients";
/// Maximum time that the endpoint waits for the verdict on a record of a stream.
const STREAM_DEADLINE: Duration = Duration::from_secs(15);

/// Starts the HTTP endpoint, and returns its address. `advertise` is the `host:port` under which clients reach the
/// node, if it is configured.
pub(crate) fn open(
    place: EndpointLimits,
    settings: HttpEndpointSettings,
    listener: TcpListener,
    tls: Option<ServerTls>,
    advertise: Option<&str>,
) -> Option<SocketAddr> {
    let address = listener.local_addr().ok();
    let tls = tls.filter(|_| settings.tls);
    let host = Arc::new(NodeServices::new(place.node.clone(), CALL, tls.clone()));
    let hosts = Hosts::new(advertise, &settings.hosts);
    let endpoint = Arc::new(HttpEndpoint::new(&settings, host, tls, hosts));
    tokio::spawn(serve(place, endpoint, settings, listener));
    address
}

/// Serves HTTP clients until the node stops.
async fn serve(
    place: EndpointLimits,
    endpoint: Arc<HttpEndpoint>,
    settings: HttpEndpointSettings,
    listener: TcpListener,
) {
    let EndpointLimits { clients, endpoints, stop, .. } = place;
    let count = threads::count(settings.threads);
    let threads = EndpointThreads { name: "http", clients: CLIENTS, count, stop: &stop };
    let started = threads.start(|_| {
        let endpoint = endpoint.clone();
        let own_clients = clients.clone();
        let stop = stop.clone();
        let verdict_timeout = settings.verdict_timeout();
        move || async move {
            let connecting = own_clients.connect(CLIENTS, verdict_timeout);
            let calls = stop.run_until_cancelled(connecting).await?;
            let connecting = own_clients.connect(CLIENTS, STREAM_DEADLINE);
            let streams = stop.run_until_cancelled(connecting).await?;
            let (sender, worker) = endpoint.worker(Clients { calls, streams }, stop);
            Some((sender, worker.serve()))
        }
    });
    let Some(workers) = started.await else { return };
    let _ = endpoints.http.set(endpoint.counts());
    endpoint.serve(listener, &workers, stop).await;
}

/// Closes the HTTP endpoint. Requests that the endpoint has already received still get their replies, so this function
/// waits for them. The wait takes at most [`REPLIES_MAX`](crate::endpoints::REPLIES_MAX).
pub(crate) async fn close(departure: &Shutdown, endpoints: &OpenEndpoints) {
    departure.endpoint_closed.cancel();
    if let Some(endpoint) = endpoints.http.get() {
        replied(|| endpoint.open()).await;
    }
}
