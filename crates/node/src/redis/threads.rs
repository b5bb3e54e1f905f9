//! The threads that serve the connections of Redis clients. Every thread connects to the cluster before it serves a
//! connection, so the endpoint accepts connections only when the node can process their commands.

use std::sync::Arc;

use firstseen_redis_endpoint::RedisEndpoint;
use tokio::net::TcpListener;

use super::CLIENTS;
use crate::endpoints::EndpointLimits;
use crate::endpoints::threads::EndpointThreads;

/// Serves Redis clients until the node stops.
pub(super) async fn serve(place: EndpointLimits, endpoint: Arc<RedisEndpoint>, count: usize, listener: TcpListener) {
    let EndpointLimits { clients, endpoints, stop, .. } = place;
    let threads = EndpointThreads { name: "redis", clients: CLIENTS, count, stop: &stop };
    let started = threads.start(|is_first| {
        let endpoint = endpoint.clone();
        let own_clients = clients.clone();
        let stop = stop.clone();
        move || async move {
            let connecting = own_clients.connect(CLIENTS, endpoint.verdict_timeout());
            let client = stop.run_until_cancelled(connecting).await?;
            let (sender, worker) = endpoint.worker(client, is_first);
            Some((sender, worker.serve(stop)))
        }
    });
    let Some(workers) = started.await else { return };
    let _ = endpoints.redis.set(endpoint.counts());
    endpoint.serve(listener, &workers, stop).await;
}
