//! The Redis endpoint of a simulated node. A single task serves all connections, because a simulation has only one
//! thread.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use firstseen_backend::Host;
use firstseen_redis_endpoint::{Arrival, RedisEndpoint};
use firstseen_routing::rules::Rule;
use tokio_stream::StreamExt;
use tonic::transport::server::Connected;

use super::CLIENTS;
use crate::edges::{Connection, Incoming};
use crate::endpoints::{EndpointLimits, NodeServices};

/// Serves Redis clients until the node stops.
pub(super) async fn serve(
    place: EndpointLimits,
    endpoint: Arc<RedisEndpoint>,
    host: Arc<NodeServices>,
    incoming: Incoming,
) {
    let EndpointLimits { node, clients, endpoints, stop, .. } = place;
    let connecting = clients.connect(CLIENTS, endpoint.verdict_timeout());
    let Some(client) = stop.run_until_cancelled(connecting).await else { return };
    let (_, worker) = endpoint.worker(client, true);
    let _ = endpoints.redis.set(endpoint.counts());
    let arrivals = incoming.filter_map(move |accepted| accepted.ok().map(|connection| arrival(&host, connection)));
    let keeps_rule = node.rules.keep(Rule::EndpointConfirmsBeforeStop);
    let worker = if keeps_rule { worker } else { worker.without_confirms_at_stop() };
    worker.serve_arrivals(arrivals, stop).await;
}

/// Returns a new connection with its client, if the network vouches for the client or if the client needs no token.
fn arrival(host: &NodeServices, connection: Connection) -> Arrival<Connection> {
    let unknown = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let from = connection.connect_info().remote_addr().unwrap_or(unknown);
    let client_session = match connection.vouched() {
        Some(vouched) => host.vouched_for(vouched, from),
        None => host.known(None, from),
    };
    Arrival { stream: connection, from, client_session }
}
