//! The Redis endpoint of this node: how it starts listening, and how it closes. This module does not depend on the
//! commands of Redis clients.

mod simulated;
mod threads;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use firstseen_redis_endpoint::{RedisEndpoint, RedisEndpointSettings};
use firstseen_wire::tls::ServerTls;
use tokio::time::{Instant, sleep};

use crate::edges::RedisListener;
use crate::endpoints::{EndpointLimits, NodeServices, REPLIES_LOOK, replied};
use crate::open_counts::OpenEndpoints;
use crate::shutdown::Shutdown;

/// Name of the endpoint's calls in the audit log.
const CALL: &str = "redis";
/// Name of the endpoint's clients in log messages.
const CLIENTS: &str = "Redis clients";

/// Starts the Redis endpoint of the node `name`, and returns its address.
pub(crate) fn open(
    place: EndpointLimits,
    settings: RedisEndpointSettings,
    listener: RedisListener,
    tls: Option<ServerTls>,
    name: &str,
) -> Option<SocketAddr> {
    let address = listener.local_addr();
    let tls = tls.filter(|_| settings.tls);
    let host = Arc::new(NodeServices::new(place.node.clone(), CALL, tls.clone()));
    let count = crate::endpoints::threads::count(settings.threads);
    let endpoint = Arc::new(RedisEndpoint::new(settings, host.clone(), tls, name));
    match listener {
        RedisListener::Tcp(listener) => tokio::spawn(threads::serve(place, endpoint, count, listener)),
        RedisListener::Simulated(incoming) => tokio::spawn(simulated::serve(place, endpoint, host, incoming)),
    };
    address
}

/// Closes the Redis endpoint. This function first waits until commands that the endpoint has already received have
/// their replies, for at most [`REPLIES_MAX`](crate::endpoints::REPLIES_MAX). It then waits until the endpoint has
/// confirmed the claims whose confirmation is still pending, for at most `confirms_max`.
pub(crate) async fn close(departure: &Shutdown, endpoints: &OpenEndpoints, confirms_max: Duration) {
    departure.endpoint_closed.cancel();
    let Some(endpoint) = endpoints.redis.get() else { return };
    replied(|| endpoint.open()).await;
    let until = Instant::now() + confirms_max;
    while endpoint.confirms_waiting() > 0 {
        if Instant::now() >= until {
            let claims = endpoint.confirms_waiting();
            tracing::warn!(
                claims,
                "the node stops before the Redis endpoint has confirmed all claims: their events are new to the next \
                 client"
            );
            return;
        }
        sleep(REPLIES_LOOK).await;
    }
}
